//! Audiences (`docs/email-service/audiences.md`, scope `contacts:manage`).

use http::StatusCode;
use rusqlite::{Connection, Row};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ApiError;
use crate::id::{self, Prefix};
use crate::openapi::schema;
use crate::store;
use crate::time;
use crate::web::input::object;
use crate::web::{Answer, Call};

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "NewAudience")]
pub(crate) struct New {
    #[schemars(required, regex(pattern = r"\S"))]
    name: Option<String>,
}

/// A list of contacts.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Audience {
    id: String,
    name: String,
    #[schemars(with = "schema::Time")]
    created_at: String,
    #[schemars(with = "schema::Time")]
    updated_at: String,
}

pub(crate) async fn create(mut call: Call) -> Result<Answer, ApiError> {
    let body = call.input.json_bytes().await?;
    let new: New = object(&body)?;
    let name = required_name(new.name)?;
    let (switches, organization) = (call.switches().clone(), call.organization());
    call.create(&body, move |tx| {
        let id = id::new(Prefix::Audience);
        tx.execute(
            "INSERT INTO audience (id, organization, name, contacts, created_at, updated_at)
             VALUES (?1, ?2, ?3, 0, ?4, ?4)",
            (&id, organization, &name, tx.now),
        )?;
        let at = time::rfc3339(tx.now);
        let audience = Audience { id, name, created_at: at.clone(), updated_at: at };
        Answer::created(&switches, StatusCode::CREATED, &audience)
    })
    .await
}

pub(crate) async fn list(call: Call) -> Result<Answer, ApiError> {
    let organization = call.organization();
    let all = call.app().store.read(move |connection| {
        let sql = format!("SELECT {COLUMNS} FROM audience WHERE organization = ?1 ORDER BY id");
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map([organization], read)?;
        Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
    });
    Answer::list(call.switches(), &all.await?)
}

pub(crate) async fn get(call: Call) -> Result<Answer, ApiError> {
    let (id, organization) = (call.input.id().to_owned(), call.organization());
    let audience = call.app().store.read(move |connection| {
        let sql = format!("SELECT {COLUMNS} FROM audience WHERE id = ?1 AND organization = ?2");
        store::find(connection, &sql, (&id, organization), read)?
            .ok_or_else(|| ApiError::not_found("audience"))
    });
    Answer::resource(call.switches(), &audience.await?)
}

/// Its contacts go with it (`docs/undocumented/email-service.md#audience-deletion`).
pub(crate) async fn delete(call: Call) -> Result<Answer, ApiError> {
    let (id, organization) = (call.input.id().to_owned(), call.organization());
    call.app()
        .store
        .write(move |tx| {
            expect(tx.connection(), &id, organization)?;
            tx.execute("DELETE FROM contact WHERE audience = ?1", [&id])?;
            tx.execute("DELETE FROM audience WHERE id = ?1", [&id])?;
            Ok(Answer::no_content())
        })
        .await
}

/// 404 where the organization has no such audience.
pub(super) fn expect(connection: &Connection, id: &str, organization: i64) -> Result<(), ApiError> {
    let sql = "SELECT 1 FROM audience WHERE id = ?1 AND organization = ?2";
    store::find(connection, sql, (id, organization), |_| Ok(()))?
        .ok_or_else(|| ApiError::not_found("audience"))
}

/// 422 where there is no name.
pub(super) fn required_name(name: Option<String>) -> Result<String, ApiError> {
    match name {
        None => Err(ApiError::field("name", "is required")),
        Some(name) if name.trim().is_empty() => Err(ApiError::field("name", "must not be empty")),
        Some(name) => Ok(name),
    }
}

const COLUMNS: &str = "id, name, created_at, updated_at";

fn read(row: &Row<'_>) -> rusqlite::Result<Audience> {
    Ok(Audience {
        id: row.get(0)?,
        name: row.get(1)?,
        created_at: time::rfc3339(row.get(2)?),
        updated_at: time::rfc3339(row.get(3)?),
    })
}
