//! The table `audience`.

use rusqlite::Row;
use schemars::JsonSchema;
use serde::Serialize;

use crate::model::error::{ApiError, Code};
use crate::model::id::{self, Prefix};
use crate::model::timestamp::Timestamp;
use crate::store::{Reader, Tx};

/// A list of contacts.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Audience {
    pub(crate) id: String,
    pub(crate) name: String,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// Inserts an audience, by default with a new ID.
pub(crate) fn insert(
    tx: &Tx<'_>,
    organization: i64,
    name: String,
    id: Option<String>,
) -> Result<Audience, ApiError> {
    let id = id.unwrap_or_else(|| id::new(Prefix::Audience));
    let inserted = tx.execute(
        "INSERT INTO audience (id, organization, name, contacts, created_at, updated_at)
         VALUES (?1, ?2, ?3, 0, ?4, ?4) ON CONFLICT DO NOTHING",
        (&id, organization, &name, tx.now),
    )?;
    if inserted == 0 {
        let message = "belongs to an audience of another organization";
        return Err(ApiError::new(Code::Conflict, message));
    }
    Ok(Audience { id, name, created_at: tx.now.into(), updated_at: tx.now.into() })
}

/// Lists the audiences of an organization, oldest first.
pub(crate) fn list(reader: Reader<'_>, organization: i64) -> Result<Vec<Audience>, ApiError> {
    page(reader, organization, "", i64::MAX)
}

/// Lists the audiences of an organization after this one, oldest first.
pub(crate) fn page(
    reader: Reader<'_>,
    organization: i64,
    after: &str,
    limit: i64,
) -> Result<Vec<Audience>, ApiError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM audience WHERE organization = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
    );
    reader.all(&sql, (organization, after, limit), read)
}

pub(crate) fn find(reader: Reader<'_>, id: &str, organization: i64) -> Result<Audience, ApiError> {
    let sql = format!("SELECT {COLUMNS} FROM audience WHERE id = ?1 AND organization = ?2");
    reader.find(&sql, (id, organization), read)?.ok_or_else(|| ApiError::not_found("audience"))
}

/// Deletes an audience with its contacts.
pub(crate) fn delete(tx: &Tx<'_>, id: &str, organization: i64) -> Result<(), ApiError> {
    let sql = "DELETE FROM audience WHERE id = ?1 AND organization = ?2";
    tx.change("audience", sql, (id, organization))
}

/// How many contacts an audience has.
pub(crate) fn count(reader: Reader<'_>, id: &str) -> Result<i64, ApiError> {
    let sql = "SELECT contacts FROM audience WHERE id = ?1";
    Ok(reader.statement(sql)?.query_row([id], |row| row.get(0))?)
}

/// Changes the stored number of contacts.
pub(super) fn add_to_count(tx: &Tx<'_>, id: &str, difference: i64) -> rusqlite::Result<()> {
    tx.execute("UPDATE audience SET contacts = contacts + ?2 WHERE id = ?1", (id, difference))?;
    Ok(())
}

const COLUMNS: &str = "id, name, created_at, updated_at";

fn read(row: &Row<'_>) -> rusqlite::Result<Audience> {
    Ok(Audience {
        id: row.get(0)?,
        name: row.get(1)?,
        created_at: row.get(2)?,
        updated_at: row.get(3)?,
    })
}
