//! The table `message`: delivered messages, one for each recipient. The sources of received
//! messages are in the table `body`.

use rusqlite::{Row, named_params};

use crate::control::query::{Position, address};
use crate::messages::message_wire::{Authentication, MessageFilter, MessageSummary};
use crate::model::error::Failure;
use crate::model::terms::MAX_SEARCHED;
use crate::notifications::notification_wire::Notification;
use crate::organizations::organization_rows;
use crate::store::rows::{self, Json, json};
use crate::store::{Reader, Tx};

impl rows::Row for MessageSummary {
    const TABLE: &'static str = "message";
}

/// The stored parts of a received message beside its summary.
#[derive(Clone, Copy, Default)]
pub(crate) struct Received<'a> {
    /// The words, to search.
    pub(crate) text: Option<&'a str>,
    pub(crate) authentication: Option<&'a Authentication>,
    /// The id of the source in the table `body`.
    pub(crate) source: Option<i64>,
}

/// Stores a message for one recipient. `domain` is the recipient's domain if the organization has
/// verified it.
pub(crate) fn insert(
    tx: &mut Tx<'_>,
    organization: i64,
    message: MessageSummary,
    domain: Option<&str>,
    received: Received<'_>,
) -> Result<(), Failure> {
    let MessageSummary {
        id,
        recipient,
        email_id,
        ..
    } = &message;
    tx.execute(
        "INSERT INTO message (id, organization, recipient, email, domain, created_at, data,
                              authentication, text, source)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        (
            id,
            organization,
            recipient,
            email_id,
            domain,
            tx.now,
            Json(&message),
            received.authentication.map(Json),
            received.text,
            received.source,
        ),
    )?;
    tx.message_stored();
    tx.publish(Some(organization), || Notification::Message(message));
    Ok(())
}

/// Stores the results of the authentication of an outgoing message.
pub(crate) fn set_authentication(
    tx: &Tx<'_>,
    id: &str,
    results: &Authentication,
) -> Result<(), Failure> {
    tx.execute(
        "UPDATE message SET authentication = ?2 WHERE id = ?1",
        (id, Json(results)),
    )?;
    Ok(())
}

/// A message without its source, with the results of its authentication if it was checked; 404 if
/// there is none.
pub(crate) fn find(
    reader: Reader<'_>,
    organization: i64,
    id: &str,
) -> Result<(MessageSummary, Option<Authentication>), Failure> {
    let sql = "SELECT data, authentication FROM message WHERE organization = ?1 AND id = ?2";
    let found = reader.find(sql, (organization, id), |row| {
        let authentication: Option<Json<_>> = row.get(1)?;
        Ok((json(row, 0)?, authentication.map(|Json(results)| results)))
    })?;
    match found {
        Some(found) => Ok(found),
        None => Err(Failure::not_found(&format!(
            "message{}",
            has_it(reader, id)?
        ))),
    }
}

/// Deletes messages of an organization. Those that are gone already are left out.
pub(crate) fn delete(tx: &Tx<'_>, organization: i64, ids: &[String]) -> Result<(), Failure> {
    // One statement: in a savepoint, the cost of each further one grows with what was written.
    let sql = "DELETE FROM message WHERE organization = ?1
               AND id IN (SELECT value FROM json_each(?2))";
    tx.execute(sql, (organization, Json(ids)))?;
    Ok(())
}

/// The email and the recipient of a message that an organization sent.
pub(crate) fn email_and_recipient(
    reader: Reader<'_>,
    id: &str,
) -> Result<Option<(String, String)>, Failure> {
    let sql = "SELECT email, recipient FROM message WHERE id = ?1 AND email IS NOT NULL";
    Ok(reader.find(sql, [id], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

/// The size of the source of a received message, in bytes, without reading it.
pub(crate) fn source_size(reader: Reader<'_>, id: &str) -> Result<usize, Failure> {
    let sql = "SELECT octet_length(bytes) FROM message m JOIN body b ON b.id = m.source
               WHERE m.id = ?1";
    let size: Option<i64> = reader.find(sql, [id], |row| row.get(0))?;
    Ok(size.unwrap_or(0) as usize)
}

/// The source of a received message.
pub(crate) fn source(reader: Reader<'_>, id: &str) -> Result<Option<Vec<u8>>, Failure> {
    let sql = "SELECT bytes FROM message m JOIN body b ON b.id = m.source WHERE m.id = ?1";
    Ok(reader.find(sql, [id], |row| row.get(0))?)
}

/// The ID of the newest message of an organization.
pub(crate) fn newest(reader: Reader<'_>, organization: i64) -> Result<Option<String>, Failure> {
    let sql = "SELECT id FROM message WHERE organization = ?1 ORDER BY id DESC LIMIT 1";
    Ok(reader.find(sql, [organization], |row| row.get(0))?)
}

/// Sorts after every ID of a message.
const PAST_EVERY_ID: &str = "msg`";

/// The conditions that select messages.
#[derive(Clone, Default)]
pub(crate) struct Search {
    /// The complete address of the recipient; case-insensitive.
    pub(crate) to: Option<String>,
    /// The complete address of the sender; case-insensitive.
    pub(crate) from: Option<String>,
    /// A part of the subject.
    pub(crate) subject: Option<String>,
    /// Words of the message.
    pub(crate) search: Option<String>,
    pub(crate) after: Option<Position>,
    /// Selects messages older than this one.
    pub(crate) cursor: Option<String>,
    /// Selects messages newer than this one.
    pub(crate) since: Option<String>,
    /// Whether it looks at the other organizations instead.
    pub(crate) elsewhere: bool,
}

impl Search {
    pub(crate) fn new(filter: &MessageFilter) -> Result<Self, Failure> {
        Ok(Self {
            to: address("to", filter.to.as_deref())?,
            from: address("from", filter.from.as_deref())?,
            subject: filter.subject.clone(),
            search: filter.search.clone(),
            after: Position::read("after", filter.after.as_deref())?,
            ..Self::default()
        })
    }

    /// Returns the newest `count` matching messages of an organization, newest first.
    pub(crate) fn find(
        &self,
        reader: Reader<'_>,
        organization: i64,
        count: usize,
    ) -> Result<Vec<MessageSummary>, Failure> {
        self.select(reader, organization, "data", count, |row| json(row, 0))
    }

    /// Returns how many messages of an organization match. The page asks for all with each new one.
    pub(crate) fn count(&self, reader: Reader<'_>, organization: i64) -> Result<usize, Failure> {
        let counts = self.select(reader, organization, "COUNT(*)", 1, |row| {
            row.get::<_, i64>(0)
        })?;
        Ok(counts.into_iter().sum::<i64>() as usize)
    }

    fn select<T>(
        &self,
        reader: Reader<'_>,
        organization: i64,
        columns: &str,
        limit: usize,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Failure> {
        let after = self.after.as_ref().and_then(|after| after.id("msg_"));
        // SQLite does not use the index for an optional condition (`:to IS NULL OR …`).
        let to = match self.to {
            Some(_) => "recipient = :to",
            None => ":to IS NULL",
        };
        let sql = include_str!("message_search.sql")
            .replace("{columns}", columns)
            .replace("{to}", to)
            .replace("{is}", if self.elsewhere { "<>" } else { "=" });
        let values = named_params! {
            ":organization": organization,
            ":to": self.to,
            // `None` is before all.
            ":first": after.as_deref().max(self.since.as_deref()).unwrap_or_default(),
            ":last": self.cursor.as_deref().unwrap_or(PAST_EVERY_ID),
            ":after": self.after.clone().and_then(Position::time),
            ":subject": self.subject,
            ":from": self.from,
            ":search": self.search,
            ":searched": MAX_SEARCHED as i64,
            ":limit": i64::try_from(limit).unwrap_or(i64::MAX),
        };
        reader.all(&sql, values, read)
    }
}

/// The end of an error message about a message that another organization has.
pub(crate) fn has_it(reader: Reader<'_>, id: &str) -> Result<String, Failure> {
    organization_rows::has_it(reader, "message", id)
}

/// The messages of an email, in the order of its recipients.
pub(crate) fn of_email(reader: Reader<'_>, email: &str) -> Result<Vec<MessageSummary>, Failure> {
    let sql = "SELECT data FROM message WHERE email = ?1 ORDER BY id";
    reader.all(sql, [email], |row| json(row, 0))
}
