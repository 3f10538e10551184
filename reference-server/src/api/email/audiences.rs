//! Audiences (`docs/email-service/audiences.md`).

use http::StatusCode;
use rusqlite::{Connection, Row};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::framework::input::object;
use crate::api::framework::{ApiResponse, Call};
use crate::model::error::ApiError;
use crate::model::id::{self, Prefix};
use crate::model::schema;
use crate::model::time;
use crate::store;

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

pub(crate) async fn create(mut call: Call) -> Result<ApiResponse, ApiError> {
    let body = call.input.json_bytes().await?;
    let new: New = object(&body)?;
    let name = required_name(new.name)?;
    let (compatibility, organization) = (call.compatibility().clone(), call.organization());
    call.create(&body, move |tx| {
        let id = id::new(Prefix::Audience);
        tx.execute(
            "INSERT INTO audience (id, organization, name, contacts, created_at, updated_at)
             VALUES (?1, ?2, ?3, 0, ?4, ?4)",
            (&id, organization, &name, tx.now),
        )?;
        let at = time::rfc3339(tx.now);
        let audience = Audience { id, name, created_at: at.clone(), updated_at: at };
        ApiResponse::created(&compatibility, StatusCode::CREATED, &audience)
    })
    .await
}

pub(crate) async fn list(call: Call) -> Result<ApiResponse, ApiError> {
    let organization = call.organization();
    let all = call.app().store.read(move |connection| {
        let sql = format!("SELECT {COLUMNS} FROM audience WHERE organization = ?1 ORDER BY id");
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map([organization], read)?;
        Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
    });
    ApiResponse::list(call.compatibility(), &all.await?)
}

pub(crate) async fn get(call: Call) -> Result<ApiResponse, ApiError> {
    let (id, organization) = (call.input.id().to_owned(), call.organization());
    let audience = call.app().store.read(move |connection| {
        let sql = format!("SELECT {COLUMNS} FROM audience WHERE id = ?1 AND organization = ?2");
        store::find(connection, &sql, (&id, organization), read)?
            .ok_or_else(|| ApiError::not_found("audience"))
    });
    ApiResponse::resource(call.compatibility(), &audience.await?)
}

/// Deletes an audience with its contacts
/// (`docs/undocumented/email-service.md#audience-deletion`).
pub(crate) async fn delete(call: Call) -> Result<ApiResponse, ApiError> {
    let (id, organization) = (call.input.id().to_owned(), call.organization());
    call.app()
        .store
        .write(move |tx| {
            require(tx.connection(), &id, organization)?;
            tx.execute("DELETE FROM contact WHERE audience = ?1", [&id])?;
            tx.execute("DELETE FROM audience WHERE id = ?1", [&id])?;
            Ok(ApiResponse::no_content())
        })
        .await
}

/// Returns 404 if the organization has no such audience.
pub(super) fn require(
    connection: &Connection,
    id: &str,
    organization: i64,
) -> Result<(), ApiError> {
    let sql = "SELECT 1 FROM audience WHERE id = ?1 AND organization = ?2";
    store::find(connection, sql, (id, organization), |_| Ok(()))?
        .ok_or_else(|| ApiError::not_found("audience"))
}

/// Returns 422 if the name is missing or blank.
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
