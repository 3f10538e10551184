//! The table `contact`.

use rusqlite::Row;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::audiences;
use crate::model::error::{ApiError, Code};
use crate::model::id::{self, Prefix};
use crate::model::timestamp::Timestamp;
use crate::store::{Reader, Tx};

/// A contact of an audience.
#[derive(Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Contact {
    pub(crate) id: String,
    audience_id: String,
    pub(crate) email: String,
    pub(crate) name: Option<String>,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) topics: Vec<String>,
    pub(crate) subscribed: bool,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// A contact to insert.
pub(crate) struct NewContact {
    pub(crate) audience: String,
    pub(crate) email: String,
    pub(crate) name: Option<String>,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) topics: Vec<String>,
}

/// Inserts a subscribed contact. Returns 404 if there is no such audience, and 409 if it has
/// a contact with this address.
pub(crate) fn insert(tx: &Tx<'_>, organization: i64, new: NewContact) -> Result<Contact, ApiError> {
    audiences::find(tx.reader(), &new.audience, organization)?;
    let key = new.email.to_lowercase();
    let existing = tx.find(
        "SELECT 1 FROM contact WHERE audience = ?1 AND email_key = ?2",
        (&new.audience, &key),
        |_| Ok(()),
    )?;
    if existing.is_some() {
        let message = "the audience already has a contact with this address";
        return Err(ApiError::new(Code::Conflict, message));
    }
    let contact = Contact {
        id: id::new(Prefix::Contact),
        audience_id: new.audience,
        email: new.email,
        name: new.name,
        metadata: new.metadata,
        topics: new.topics,
        subscribed: true,
        created_at: tx.now.into(),
        updated_at: tx.now.into(),
    };
    tx.execute(
        "INSERT INTO contact (id, audience, email, email_key, name, metadata, topics, subscribed,
                              created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 1, ?8, ?8)",
        (
            &contact.id,
            &contact.audience_id,
            &contact.email,
            &key,
            &contact.name,
            json(&contact.metadata)?,
            json(&contact.topics)?,
            tx.now,
        ),
    )?;
    audiences::add_to_count(tx, &contact.audience_id, 1)?;
    Ok(contact)
}

/// Lists contacts of an audience, oldest first.
pub(crate) fn list(
    reader: Reader<'_>,
    audience: &str,
    limit: i64,
    offset: i64,
) -> Result<Vec<Contact>, ApiError> {
    let sql =
        format!("SELECT {COLUMNS} FROM contact WHERE audience = ?1 ORDER BY id LIMIT ?2 OFFSET ?3");
    reader.all(&sql, (audience, limit, offset), read)
}

/// Lists contacts of an audience after this one, oldest first.
pub(crate) fn list_after(
    reader: Reader<'_>,
    audience: &str,
    after: &str,
    limit: i64,
) -> Result<Vec<Contact>, ApiError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM contact WHERE audience = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
    );
    reader.all(&sql, (audience, after, limit), read)
}

pub(crate) fn find(reader: Reader<'_>, id: &str, organization: i64) -> Result<Contact, ApiError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM contact WHERE id = ?1
         AND audience IN (SELECT id FROM audience WHERE organization = ?2)"
    );
    reader.find(&sql, (id, organization), read)?.ok_or_else(|| ApiError::not_found("contact"))
}

/// Finds the contact of an audience with this address.
pub(crate) fn find_by_email(
    reader: Reader<'_>,
    audience: &str,
    email: &str,
) -> Result<Option<Contact>, ApiError> {
    let sql = format!("SELECT {COLUMNS} FROM contact WHERE audience = ?1 AND email_key = ?2");
    Ok(reader.find(&sql, (audience, email.to_lowercase()), read)?)
}

/// Stores a changed contact.
pub(crate) fn update(tx: &Tx<'_>, contact: &mut Contact) -> Result<(), ApiError> {
    contact.updated_at = tx.now.into();
    tx.execute(
        "UPDATE contact SET name = ?2, metadata = ?3, topics = ?4, subscribed = ?5,
                            updated_at = ?6 WHERE id = ?1",
        (
            &contact.id,
            &contact.name,
            json(&contact.metadata)?,
            json(&contact.topics)?,
            contact.subscribed,
            tx.now,
        ),
    )?;
    Ok(())
}

pub(crate) fn delete(tx: &Tx<'_>, id: &str, organization: i64) -> Result<(), ApiError> {
    let contact = find(tx.reader(), id, organization)?;
    tx.execute("DELETE FROM contact WHERE id = ?1", [id])?;
    audiences::add_to_count(tx, &contact.audience_id, -1)?;
    Ok(())
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
        created_at: row.get(7)?,
        updated_at: row.get(8)?,
    })
}

fn json(value: &impl Serialize) -> Result<String, ApiError> {
    serde_json::to_string(value).map_err(ApiError::internal)
}
