//! [`StoredEmail`] and the tables of emails: insert, update, read, list and search. An email is one
//! row with its data as JSON; its `Content` and the bytes of its attachments have tables of their
//! own, so that lists and status changes do not read them. The column `status` counts, also where
//! the JSON differs. IDs sort by creation, which `list` relies on. Every insert and update
//! publishes the email to the clients that watch. `email_rules.rs` decides what changes.

use std::ops::{Deref, DerefMut};

use rusqlite::{Row, named_params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::control::query::{Position, address};
use crate::emails::email_wire::{EmailFilter, EmailSummary};
use crate::mail::mime::Attachment;
use crate::mail::tracking::Tracking;
use crate::model::time::rfc3339;
use crate::model::{MAX_SEARCHED, Millis, RecipientState, Result, Status};
use crate::notifications::notification_wire::Notification;
use crate::store::{Json, Reader, Tx, json};

/// An email in the database.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredEmail {
    /// The email as its sender sees it.
    pub(crate) shown: EmailSummary,
    pub(crate) organization: i64,
    /// When it was sent: its message has this date.
    #[serde(default)]
    pub(crate) sent_at: Option<Millis>,
    /// The ID of the request that sent it, as in the request log.
    pub(crate) request: Option<String>,
    /// The domain of the sender in normalized form.
    pub(crate) domain: String,
    pub(crate) tracking: Option<Tracking>,
    /// The first words.
    pub(crate) preview: String,
    /// How many there are.
    pub(crate) attachments: usize,
    pub(crate) recipients: Vec<RecipientState>,
    /// Oldest first.
    pub(crate) history: Vec<Step>,
}

impl Deref for StoredEmail {
    type Target = EmailSummary;

    fn deref(&self) -> &EmailSummary {
        &self.shown
    }
}

impl DerefMut for StoredEmail {
    fn deref_mut(&mut self) -> &mut EmailSummary {
        &mut self.shown
    }
}

/// A change of an email.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Step {
    #[serde(rename = "t")]
    pub(crate) at: Millis,
    /// The status of the recipient after it.
    #[serde(rename = "s")]
    pub(crate) status: Status,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub(crate) event: Option<String>,
    /// The position of the recipient; `None` for all of them.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub(crate) recipient: Option<usize>,
}

/// Maximum number of changes in the history of an email. Further ones are not kept: an email can
/// be opened any number of times.
const MAX_HISTORY: usize = 500;

/// The content of an email, stored apart from it.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Content {
    pub(crate) html: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) headers: Map<String, Value>,
    pub(crate) attachments: Vec<Attachment>,
}

impl StoredEmail {
    /// Adds a change at `at` to the history.
    pub(crate) fn note(
        &mut self,
        at: Millis,
        status: Status,
        event: Option<&str>,
        recipient: Option<usize>,
    ) {
        if self.history.len() < MAX_HISTORY {
            let event = event.map(str::to_owned);
            self.history.push(Step {
                at,
                status,
                event,
                recipient,
            });
        }
    }
}

/// Tells the clients that watch.
fn publish(tx: &Tx<'_>, email: &StoredEmail) {
    tx.publish(Some(email.organization), || {
        Notification::Email(email.shown.clone())
    });
}

/// Inserts an email with its content.
pub(crate) fn insert(tx: &mut Tx<'_>, email: &StoredEmail, content: Content) -> Result<()> {
    publish(tx, email);
    tx.execute(
        "INSERT INTO email (id, organization, status, created_at, data) VALUES (?1, ?2, ?3, ?4, ?5)",
        (&email.id, email.organization, email.status.as_str(), tx.now, Json(email)),
    )?;
    let Content {
        html,
        text,
        headers,
        attachments,
    } = content;
    tx.execute(
        "INSERT INTO email_content (email, headers, attachments, html, text)
         VALUES (?1, ?2, ?3, ?4, ?5)",
        (&email.id, Json(headers), Json(&attachments), html, text),
    )?;
    for (position, attachment) in attachments.iter().enumerate() {
        tx.execute(
            "INSERT INTO email_attachment VALUES (?1, ?2, ?3)",
            (&email.id, position as i64, &attachment.content),
        )?;
    }

    Ok(())
}

/// Marks an email as failed that the server cannot send, or even read, because of a defect.
pub(crate) fn fail(tx: &Tx<'_>, id: &str) -> Result<()> {
    let sql = "UPDATE email SET status = 'failed', data = CASE WHEN json_valid(data)
                   THEN json_set(data, '$.shown.updatedAt', ?2) ELSE data END WHERE id = ?1";
    tx.execute(sql, (id, rfc3339(tx.now)))?;
    Ok(())
}

/// Updates the status of an email.
pub(crate) fn update(tx: &Tx<'_>, email: &StoredEmail) -> Result<()> {
    let sql = "UPDATE email SET status = ?2, data = ?3 WHERE id = ?1";
    tx.execute(sql, (&email.id, email.status.as_str(), Json(email)))?;
    publish(tx, email);
    Ok(())
}

pub(crate) fn find(reader: Reader<'_>, id: &str) -> Result<Option<StoredEmail>> {
    Ok(reader.find("SELECT status, data FROM email WHERE id = ?1", [id], read)?)
}

/// Reads the columns `status` and `data`.
fn read(row: &Row<'_>) -> rusqlite::Result<StoredEmail> {
    let status = row.get_ref(0)?.as_str()?.parse().unwrap_or(Status::Failed);
    let mut email: StoredEmail = json(row, 1)?;
    email.status = status;
    Ok(email)
}

/// The size of the content of an email, in bytes, without reading it.
pub(crate) fn content_size(reader: Reader<'_>, id: &str) -> Result<usize> {
    let sql = "SELECT coalesce(octet_length(html), 0) + coalesce(octet_length(text), 0)
                      + octet_length(headers)
                      + (SELECT coalesce(sum(octet_length(content)), 0) FROM email_attachment
                         WHERE email = ?1)
               FROM email_content WHERE email = ?1";
    let size: Option<i64> = reader.find(sql, [id], |row| row.get(0))?;
    Ok(size.unwrap_or(0) as usize)
}

/// Loads the content of an email, with or without the bytes of its attachments.
pub(crate) fn content(reader: Reader<'_>, id: &str, with_bytes: bool) -> Result<Content> {
    let sql = "SELECT html, text, headers, attachments FROM email_content WHERE email = ?1";
    let content = reader.find(sql, [id], |row| {
        let headers = json(row, 2)?;
        let attachments = json(row, 3)?;
        Ok(Content {
            html: row.get(0)?,
            text: row.get(1)?,
            headers,
            attachments,
        })
    })?;
    let mut content = content.unwrap_or_default();
    if with_bytes {
        for (position, attachment) in content.attachments.iter_mut().enumerate() {
            let sql = "SELECT content FROM email_attachment WHERE email = ?1 AND position = ?2";
            let bytes = reader.find(sql, (id, position as i64), |row| row.get(0))?;
            attachment.content = bytes.unwrap_or_default();
        }
    }
    Ok(content)
}

/// Sorts after every ID of an email.
const PAST_EVERY_ID: &str = "eml`";

/// Lists the matching emails of an organization, newest first: one page and one more.
pub(crate) fn list(
    reader: Reader<'_>,
    organization: i64,
    filter: &EmailFilter,
    limit: usize,
    cursor: Option<&str>,
) -> Result<Vec<EmailSummary>> {
    let address = address("address", filter.address.as_deref())?;
    let after = Position::read("after", filter.after.as_deref())?;
    let before = Position::read("before", filter.before.as_deref())?;
    let [first, last] = [&after, &before].map(|position| position.as_ref()?.id("eml_"));
    let last = last.as_deref().unwrap_or(PAST_EVERY_ID);
    let values = named_params! {
        ":organization": organization,
        ":first": first.unwrap_or_default(),
        ":last": cursor.map_or(last, |cursor| last.min(cursor)),
        ":after": after.and_then(Position::time),
        ":before": before.and_then(Position::time),
        ":status": filter.status.map(Status::as_str),
        ":subject": filter.subject,
        ":tag": filter.tag,
        ":address": address,
        ":search": filter.search,
        ":searched": MAX_SEARCHED as i64,
        ":limit": limit as i64 + 1,
    };
    reader.all(include_str!("email_search.sql"), values, |row| {
        Ok(read(row)?.shown)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::organizations::organization_rows;
    use crate::store::Store;

    #[tokio::test]
    async fn an_email_that_fails_by_a_defect_has_changed() {
        let (store, _) = Store::open(None, None, svc_sdk::Dialect::default()).unwrap();
        let written = store.write(|tx| {
            let organization = organization_rows::insert(tx, None, 0)?.number;
            for (id, data) in [
                ("a", r#"{"shown":{"updatedAt":"old"}}"#),
                ("b", "unreadable"),
            ] {
                let sql = "INSERT INTO email VALUES (?1, ?2, 'queued', 0, ?3)";
                tx.execute(sql, (id, organization, data))?;
                fail(tx, id)?;
            }
            let sql = "SELECT status || ' ' || data FROM email ORDER BY id";
            let rows = tx.reader().all(sql, [], |row| row.get::<_, String>(0))?;
            Ok((rows, rfc3339(tx.now)))
        });
        let (rows, now) = written.await.unwrap();
        let changed = format!(r#"failed {{"shown":{{"updatedAt":"{now}"}}}}"#);
        assert_eq!(rows, [changed.as_str(), "failed unreadable"]);
    }
}
