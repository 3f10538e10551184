//! The tables `message` and `message_source`: delivered messages, one for each recipient. The
//! sources of received messages are in the table `body`.

pub(crate) mod index;

pub(crate) use crate::control::messages::{Direction, MessageSummary};
use crate::model::error::ApiError;
use crate::model::id::Prefix;
use crate::model::time::Millis;
use crate::store::emails::{Meta, Stored};
use crate::store::{Reader, Tx, bodies, word_index};
use rusqlite::Row;

/// Stores the message of an email for one recipient. `domain` is the recipient's domain if
/// the organization has verified it.
pub(crate) fn insert_outgoing(
    tx: &mut Tx<'_>,
    id: &str,
    recipient: &str,
    email: &Stored,
    domain: Option<&str>,
) -> Result<(), ApiError> {
    let organization = email.organization;
    tx.execute(
        "INSERT INTO message (organization, id, recipient, email, domain, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        (organization, id, recipient, &email.id, domain, tx.now),
    )?;
    tx.message_stored(organization, recipient);
    tx.publish(Some(organization), "message", || {
        MessageSummary {
            id: id.to_owned(),
            direction: Direction::Outgoing,
            email_id: Some(email.id.clone()),
            from: email.meta.from.clone(),
            recipient: recipient.to_owned(),
            subject: email.meta.subject.clone(),
            created_at: tx.now.into(),
        }
        .shortened()
    });
    Ok(())
}

/// A received message to insert.
pub(crate) struct NewIncoming<'a> {
    pub(crate) id: &'a str,
    pub(crate) recipient: &'a str,
    /// The verified domain that receives it.
    pub(crate) domain: &'a str,
    pub(crate) sender: &'a str,
    pub(crate) subject: &'a str,
    /// The results of its authentication, as JSON.
    pub(crate) authentication: &'a str,
    /// The id of the source in the table `body`.
    pub(crate) source: i64,
}

/// Stores a received message for one recipient.
pub(crate) fn insert_incoming(
    tx: &mut Tx<'_>,
    organization: i64,
    new: &NewIncoming<'_>,
) -> Result<(), ApiError> {
    tx.execute(
        "INSERT INTO message (organization, id, recipient, domain, created_at, authentication)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        (organization, new.id, new.recipient, new.domain, tx.now, new.authentication),
    )?;
    tx.execute(
        "INSERT INTO message_source (message, sender, subject, body) VALUES (?1, ?2, ?3, ?4)",
        (new.id, new.sender, new.subject, new.source),
    )?;
    tx.message_stored(organization, new.recipient);
    tx.publish(Some(organization), "message", || {
        MessageSummary {
            id: new.id.to_owned(),
            direction: Direction::Incoming,
            email_id: None,
            from: new.sender.to_owned(),
            recipient: new.recipient.to_owned(),
            subject: new.subject.to_owned(),
            created_at: tx.now.into(),
        }
        .shortened()
    });
    Ok(())
}

/// Stores the results of the authentication of an outgoing message, as JSON.
pub(crate) fn set_authentication(
    tx: &Tx<'_>,
    organization: i64,
    id: &str,
    results: &str,
) -> Result<(), ApiError> {
    let sql = "UPDATE message SET authentication = ?3 WHERE organization = ?1 AND id = ?2";
    tx.execute(sql, (organization, id, results))?;
    Ok(())
}

impl Direction {
    pub(crate) fn of(email: Option<&String>) -> Self {
        if email.is_some() { Self::Outgoing } else { Self::Incoming }
    }
}

impl MessageSummary {
    /// The message with the first characters of its headers: those of a received message may be
    /// large.
    pub(crate) fn shortened(mut self) -> Self {
        const MAX: usize = 1_000;
        for text in [&mut self.from, &mut self.subject] {
            if let Some((end, _)) = text.char_indices().nth(MAX) {
                text.truncate(end);
            }
        }
        self
    }
}

/// A message without its source.
pub(crate) struct Message {
    pub(crate) recipient: String,
    pub(crate) created_at: Millis,
    /// The email that it was rendered from; `None` for a received message.
    pub(crate) email: Option<String>,
    /// The results of its authentication, as JSON, if it was checked.
    pub(crate) authentication: Option<String>,
}

pub(crate) fn find(
    reader: Reader<'_>,
    organization: i64,
    id: &str,
) -> Result<Option<Message>, ApiError> {
    let sql = format!(
        "SELECT recipient, created_at, email, authentication FROM message m
         WHERE organization = ?1 AND id = ?2 AND {PRESENT}"
    );
    Ok(reader.find(&sql, (organization, id), |row| {
        Ok(Message {
            recipient: row.get(0)?,
            created_at: row.get(1)?,
            email: row.get(2)?,
            authentication: row.get(3)?,
        })
    })?)
}

/// Deletes a message of an organization. Returns its size in bytes, or `None` if there is none.
pub(super) fn delete_next(tx: &mut Tx<'_>, organization: i64) -> Result<Option<i64>, ApiError> {
    let sql = "SELECT id FROM message WHERE organization = ?1 LIMIT 1";
    let id: Option<String> = tx.find(sql, [organization], |row| row.get(0))?;
    id.map(|id| delete(tx, organization, &id)).transpose()
}

/// Deletes a message that a domain received. Returns its size in bytes, or `None` if there is
/// none.
pub(super) fn delete_next_of_domain(
    tx: &mut Tx<'_>,
    domain: &str,
) -> Result<Option<i64>, ApiError> {
    let sql = "SELECT organization, id FROM message WHERE domain = ?1 LIMIT 1";
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, String>(1)?));
    let found: Option<(i64, String)> = tx.find(sql, [domain], read)?;
    found.map(|(organization, id)| delete(tx, organization, &id)).transpose()
}

fn delete(tx: &mut Tx<'_>, organization: i64, id: &str) -> Result<i64, ApiError> {
    tx.execute("DELETE FROM message WHERE organization = ?1 AND id = ?2", (organization, id))?;
    tx.execute("DELETE FROM local_delivery WHERE message = ?1", [id])?;
    word_index::MESSAGES.remove(tx, organization, id)?;
    let sql = "DELETE FROM message_source WHERE message = ?1 RETURNING body";
    let body: Option<i64> = tx.find(sql, [id], |row| row.get(0))?;
    body.map_or(Ok(0), |body| bodies::delete_if_unused(tx, body))
}

/// The size of the source of a received message, in bytes, without reading it.
pub(crate) fn source_size(reader: Reader<'_>, id: &str) -> Result<usize, ApiError> {
    let sql = "SELECT body FROM message_source WHERE message = ?1";
    let body: Option<i64> = reader.find(sql, [id], |row| row.get(0))?;
    body.map_or(Ok(0), |body| bodies::size(reader, body))
}

/// The source of a received message.
pub(crate) fn source(reader: Reader<'_>, id: &str) -> Result<Option<Vec<u8>>, ApiError> {
    let sql = "SELECT body FROM message_source WHERE message = ?1";
    let body: Option<i64> = reader.find(sql, [id], |row| row.get(0))?;
    body.map_or(Ok(None), |body| bodies::find(reader, body))
}

/// The ID of the newest message of an organization.
pub(crate) fn newest(reader: Reader<'_>, organization: i64) -> Result<Option<String>, ApiError> {
    let sql = "SELECT id FROM message WHERE organization = ?1 ORDER BY id DESC LIMIT 1";
    Ok(reader.find(sql, [organization], |row| row.get(0))?)
}

/// Whether the domain that received the message exists: the messages of a deleted one are removed
/// later. 3 is the number of domains in the table `deleted`.
const PRESENT: &str = "NOT EXISTS (SELECT 1 FROM deleted WHERE kind = 3 AND id = m.domain)";

/// The range of message ids to read, both exclusive.
#[derive(Clone, Copy)]
pub(crate) struct Range<'a> {
    pub(crate) after: &'a str,
    pub(crate) before: &'a str,
}

/// Sorts after every ID of a message.
pub(crate) const PAST_EVERY_ID: &str = "msg`";

fn list_statement(to_one_recipient: bool) -> String {
    // SQLite does not use the index for an optional condition (`?4 IS NULL OR …`), and
    // prefers the primary key unless told otherwise.
    let (hint, recipient) = if to_one_recipient {
        ("INDEXED BY message_recipient", "AND m.recipient = ?4")
    } else {
        ("", "AND ?4 IS NULL")
    };
    format!(
        "SELECT {SUMMARY} FROM message m {hint} {JOINS}
         WHERE m.organization = ?1 AND m.id > ?2 AND m.id < ?3 {recipient} AND {PRESENT}
         ORDER BY m.id DESC"
    )
}

/// Reads messages of an organization, newest first, until `take` returns `false`.
pub(crate) fn each(
    reader: Reader<'_>,
    organization: i64,
    range: &Range<'_>,
    recipient: Option<&str>,
    mut take: impl FnMut(MessageSummary) -> Result<bool, ApiError>,
) -> Result<(), ApiError> {
    let mut statement = reader.statement(&list_statement(recipient.is_some()))?;
    let mut rows = statement.query((organization, range.after, range.before, recipient))?;
    while let Some(row) = rows.next()? {
        if !take(summary(row)?)? {
            break;
        }
    }
    Ok(())
}

/// The messages of an email, in the order of its recipients. `recipients` are those that may have
/// one: a recipient without one would cost a search of the whole mailbox.
pub(crate) fn of_email<'a>(
    reader: Reader<'_>,
    organization: i64,
    email: &str,
    recipients: impl Iterator<Item = &'a str>,
) -> Result<Vec<MessageSummary>, ApiError> {
    let sql = format!(
        "SELECT {SUMMARY} FROM message m INDEXED BY message_recipient {JOINS}
         WHERE m.organization = ?1 AND m.recipient = ?2 AND m.id > ?3 AND m.email = ?4 AND {PRESENT}
         ORDER BY m.id LIMIT 1"
    );
    // IDs sort by creation.
    let after = email.replacen(Prefix::Email.as_str(), Prefix::Message.as_str(), 1);
    let mut found = Vec::new();
    for recipient in recipients {
        let mut statement = reader.statement(&sql)?;
        let mut rows = statement.query((organization, recipient, &after, email))?;
        if let Some(row) = rows.next()? {
            found.push(summary(row)?.shortened());
        }
    }
    Ok(found)
}

const SUMMARY: &str = "m.id, m.recipient, m.email, m.created_at, e.meta, s.sender, s.subject";
const JOINS: &str = "LEFT JOIN email e ON e.id = m.email
         LEFT JOIN message_source s ON s.message = m.id";

/// Reads the columns of [`SUMMARY`].
fn summary(row: &Row<'_>) -> Result<MessageSummary, ApiError> {
    let email_id: Option<String> = row.get(2)?;
    let (from, subject) = match row.get::<_, Option<String>>(4)? {
        Some(meta) => {
            let meta: Meta = serde_json::from_str(&meta).map_err(ApiError::internal)?;
            (meta.from, meta.subject)
        }
        None => {
            let text = |column| row.get::<_, Option<String>>(column);
            (text(5)?.unwrap_or_default(), text(6)?.unwrap_or_default())
        }
    };
    Ok(MessageSummary {
        id: row.get(0)?,
        direction: Direction::of(email_id.as_ref()),
        email_id,
        from,
        recipient: row.get(1)?,
        subject,
        created_at: row.get::<_, Millis>(3)?.into(),
    })
}
