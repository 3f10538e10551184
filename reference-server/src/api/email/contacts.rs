//! Contacts of an audience (`docs/email-service/audiences.md#contacts`).

use http::StatusCode;
use rusqlite::{Connection, Row};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::audiences;
use super::pages::Page;
use crate::api::framework::input::object;
use crate::api::framework::{ApiResponse, Call};
use crate::model::address::Address;
use crate::model::error::{ApiError, Code, Problems};
use crate::model::id::{self, Prefix};
use crate::model::schema;
use crate::model::time;
use crate::store;

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "NewContact")]
pub(crate) struct New {
    #[schemars(required, email)]
    email: Option<String>,
    name: Option<String>,
    metadata: Option<Map<String, Value>>,
    topics: Option<Vec<String>>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ContactUpdate")]
pub(crate) struct Update {
    /// Read-only: accepted only with the current value
    /// (`docs/undocumented/both-services.md#unknown-request-fields`).
    #[schemars(skip)]
    email: Option<String>,
    #[serde(default, deserialize_with = "present")]
    name: Option<Option<String>>,
    /// Merged into the existing metadata, key by key. A null value removes the key.
    metadata: Option<Map<String, Value>>,
    /// Replaces the existing topics.
    topics: Option<Vec<String>>,
    subscribed: Option<bool>,
}

/// A contact of an audience.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Contact {
    id: String,
    audience_id: String,
    email: String,
    name: Option<String>,
    metadata: Map<String, Value>,
    topics: Vec<String>,
    subscribed: bool,
    #[schemars(with = "schema::Time")]
    created_at: String,
    #[schemars(with = "schema::Time")]
    updated_at: String,
}

pub(crate) async fn create(mut call: Call) -> Result<ApiResponse, ApiError> {
    let (audience, organization) = (call.input.id().to_owned(), call.organization());
    let wanted = audience.clone();
    let check =
        move |connection: &Connection| audiences::require(connection, &wanted, organization);
    call.app().store.read(check).await?;
    let body = call.input.json_bytes().await?;
    let new: New = object(&body)?;
    let email = match new.email {
        None => return Err(ApiError::field("email", "is required")),
        Some(email) => match Address::parse(&email) {
            Ok(_) => email,
            Err(error) => return Err(ApiError::field("email", error.to_string())),
        },
    };
    let compatibility = call.compatibility().clone();
    call.create(&body, move |tx| {
        audiences::require(tx.connection(), &audience, organization)?;
        let key = email.to_lowercase();
        let existing = tx.find(
            "SELECT 1 FROM contact WHERE audience = ?1 AND email_key = ?2",
            (&audience, &key),
            |_| Ok(()),
        )?;
        if existing.is_some() {
            let message = "the audience already has a contact with this address";
            return Err(ApiError::new(Code::Conflict, message));
        }
        let at = time::rfc3339(tx.now);
        let contact = Contact {
            id: id::new(Prefix::Contact),
            audience_id: audience,
            email,
            name: new.name,
            metadata: without_nulls(new.metadata.unwrap_or_default()),
            topics: new.topics.unwrap_or_default(),
            subscribed: true,
            created_at: at.clone(),
            updated_at: at,
        };
        tx.execute(
            "INSERT INTO contact (id, organization, audience, email, email_key, name, metadata,
                                  topics, subscribed, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9, ?9)",
            (
                &contact.id,
                organization,
                &contact.audience_id,
                &contact.email,
                &key,
                &contact.name,
                text(&contact.metadata)?,
                text(&contact.topics)?,
                tx.now,
            ),
        )?;
        tx.execute(
            "UPDATE audience SET contacts = contacts + 1 WHERE id = ?1",
            [&contact.audience_id],
        )?;
        ApiResponse::created(&compatibility, StatusCode::CREATED, &contact)
    })
    .await
}

pub(crate) async fn list(call: Call) -> Result<ApiResponse, ApiError> {
    let (audience, organization) = (call.input.id().to_owned(), call.organization());
    let page = Page::from_query(&call.input.query(), call.compatibility());
    let found = call.app().store.read(move |connection| {
        // Check for 404 before 422 (`docs/undocumented/both-services.md#order-of-checks`).
        audiences::require(connection, &audience, organization)?;
        let page = page?;
        let total: i64 = connection.query_row(
            "SELECT contacts FROM audience WHERE id = ?1",
            [&audience],
            |row| row.get(0),
        )?;
        let sql = format!(
            "SELECT {COLUMNS} FROM contact WHERE audience = ?1 ORDER BY id LIMIT ?2 OFFSET ?3"
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map((&audience, page.size, page.offset()), read)?;
        Ok((page, rows.collect::<rusqlite::Result<Vec<_>>>()?, total))
    });
    let (page, contacts, total) = found.await?;
    page.response(call.compatibility(), &contacts, total)
}

pub(crate) async fn update(mut call: Call) -> Result<ApiResponse, ApiError> {
    let (id, organization) = (call.input.id().to_owned(), call.organization());
    let wanted = id.clone();
    call.app().store.read(move |connection| find(connection, &wanted, organization)).await?;
    let update: Update = call.input.object().await?;
    let compatibility = call.compatibility().clone();
    call.app()
        .store
        .write(move |tx| {
            let mut contact = find(tx.connection(), &id, organization)?;
            if update.apply(&mut contact)? {
                contact.updated_at = time::rfc3339(tx.now);
                tx.execute(
                    "UPDATE contact SET name = ?2, metadata = ?3, topics = ?4, subscribed = ?5,
                                        updated_at = ?6 WHERE id = ?1",
                    (
                        &id,
                        &contact.name,
                        text(&contact.metadata)?,
                        text(&contact.topics)?,
                        contact.subscribed,
                        tx.now,
                    ),
                )?;
            }
            ApiResponse::resource(&compatibility, &contact)
        })
        .await
}

impl Update {
    /// Updates the contact and returns whether anything changed
    /// (`docs/undocumented/both-services.md#empty-updates`).
    fn apply(self, contact: &mut Contact) -> Result<bool, ApiError> {
        let mut problems = Problems::default();
        if self.email.is_some_and(|email| email != contact.email) {
            problems.add("email", "cannot be changed");
        }
        problems.check()?;
        let before = (
            contact.name.clone(),
            contact.metadata.clone(),
            contact.topics.clone(),
            contact.subscribed,
        );
        if let Some(name) = self.name {
            contact.name = name;
        }
        // The merge is shallow (`docs/undocumented/email-service.md#metadata-merge`).
        for (key, value) in self.metadata.unwrap_or_default() {
            if value.is_null() {
                contact.metadata.shift_remove(&key);
            } else {
                contact.metadata.insert(key, value);
            }
        }
        if let Some(topics) = self.topics {
            contact.topics = topics;
        }
        if let Some(subscribed) = self.subscribed {
            contact.subscribed = subscribed;
        }
        let after = (&contact.name, &contact.metadata, &contact.topics, contact.subscribed);
        Ok(after != (&before.0, &before.1, &before.2, before.3))
    }
}

pub(crate) async fn delete(call: Call) -> Result<ApiResponse, ApiError> {
    let (id, organization) = (call.input.id().to_owned(), call.organization());
    call.app()
        .store
        .write(move |tx| {
            let contact = find(tx.connection(), &id, organization)?;
            tx.execute("DELETE FROM contact WHERE id = ?1", [&id])?;
            tx.execute(
                "UPDATE audience SET contacts = contacts - 1 WHERE id = ?1",
                [&contact.audience_id],
            )?;
            Ok(ApiResponse::no_content())
        })
        .await
}

fn find(connection: &Connection, id: &str, organization: i64) -> Result<Contact, ApiError> {
    let sql = format!("SELECT {COLUMNS} FROM contact WHERE id = ?1 AND organization = ?2");
    store::find(connection, &sql, (id, organization), read)?
        .ok_or_else(|| ApiError::not_found("contact"))
}

const COLUMNS: &str =
    "id, audience, email, name, metadata, topics, subscribed, created_at, updated_at";

fn read(row: &Row<'_>) -> rusqlite::Result<Contact> {
    Ok(Contact {
        id: row.get(0)?,
        audience_id: row.get(1)?,
        email: row.get(2)?,
        name: row.get(3)?,
        metadata: serde_json::from_str(row.get_ref(4)?.as_str()?).unwrap_or_default(),
        topics: serde_json::from_str(row.get_ref(5)?.as_str()?).unwrap_or_default(),
        subscribed: row.get(6)?,
        created_at: time::rfc3339(row.get(7)?),
        updated_at: time::rfc3339(row.get(8)?),
    })
}

fn text(value: &impl Serialize) -> Result<String, ApiError> {
    serde_json::to_string(value).map_err(ApiError::internal)
}

/// Removes keys with a null value.
fn without_nulls(mut metadata: Map<String, Value>) -> Map<String, Value> {
    metadata.retain(|_, value| !value.is_null());
    metadata
}

/// Deserializes a field that is present, even as null. With `default`, an absent field is
/// `None`.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}
