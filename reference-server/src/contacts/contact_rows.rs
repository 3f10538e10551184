//! The table `contact`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::audiences::audience_rows::Audience;
use crate::model::{Address, Code, Failure, Millis, Result, Timestamp, id};
use crate::store::{Json, Reader, Row, Tx, json};

/// A contact of an audience.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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

impl Row for Contact {
    const TABLE: &'static str = "contact";
}

impl Contact {
    /// A subscribed contact without anything else.
    pub(crate) fn new(audience_id: String, email: String, now: Millis) -> Self {
        Self {
            id: id::new(id::CONTACT),
            audience_id,
            email,
            name: None,
            metadata: Map::new(),
            topics: Vec::new(),
            subscribed: true,
            created_at: now.into(),
            updated_at: now.into(),
        }
    }
}

/// The form of an address in which it is unique: without case, and with the ASCII form of its domain.
pub(crate) fn email_key(email: &str) -> String {
    match Address::parse(email) {
        Ok(address) => format!("{}@{}", address.local().to_lowercase(), address.domain()),
        Err(_) => email.to_lowercase(),
    }
}

/// Inserts a contact. Returns 404 if there is no such audience, and 409 if it has a contact with
/// this address.
pub(crate) fn insert(tx: &Tx<'_>, organization: i64, contact: &Contact) -> Result<()> {
    let audience: Audience = tx.reader().get(&contact.audience_id, organization)?;
    let sql = "INSERT INTO contact (id, organization, audience, email_key, data)
               VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING";
    let key = email_key(&contact.email);
    if tx.execute(
        sql,
        (&contact.id, organization, audience.id, key, Json(contact)),
    )? > 0
    {
        return Ok(());
    }

    let message = "the audience already has a contact with this address";
    Err(Failure::new(Code::Conflict, message))
}

/// Lists contacts of an audience after this one, oldest first, but for the first `offset` of them.
pub(crate) fn list(
    reader: Reader<'_>,
    audience: &str,
    after: &str,
    limit: i64,
    offset: i64,
) -> Result<Vec<Contact>> {
    let sql = "SELECT data FROM contact WHERE audience = ?1 AND id > ?2 ORDER BY id
               LIMIT ?3 OFFSET ?4";
    reader.all(sql, (audience, after, limit, offset), |row| json(row, 0))
}

/// How many contacts an audience has.
pub(crate) fn count(reader: Reader<'_>, audience: &str) -> Result<i64> {
    let sql = "SELECT COUNT(*) FROM contact WHERE audience = ?1";
    Ok(reader
        .find(sql, [audience], |row| row.get(0))?
        .unwrap_or_default())
}

/// Finds the contact of an audience with this address.
pub(crate) fn find_by_email(
    reader: Reader<'_>,
    audience: &str,
    email: &str,
) -> Result<Option<Contact>> {
    let sql = "SELECT data FROM contact WHERE audience = ?1 AND email_key = ?2";
    Ok(reader.find(sql, (audience, email_key(email)), |row| json(row, 0))?)
}

/// Maximum size of a contact, in bytes: a page contains many (`reference-server/LIMITS.md`).
const MAX_SIZE: usize = 64 << 10;

/// Returns an error if a contact with these values would be too large.
pub(crate) fn check_size(
    name: Option<&str>,
    metadata: &Map<String, Value>,
    topics: &[String],
) -> Result<()> {
    let json = serde_json::to_string(&(name, metadata, topics)).map_err(Failure::internal)?;
    if json.len() <= MAX_SIZE {
        return Ok(());
    }
    let size = json.len();
    let message =
        format!("has, with name and topics, {size} bytes as JSON; at most {MAX_SIZE} are allowed");
    Err(Failure::field("metadata", message))
}
