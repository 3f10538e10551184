//! The table `message`: delivered messages, one for each recipient. The sources of received
//! messages are in the table `body`.

use rusqlite::Row;

use crate::control::messages::MessageFilter;
pub(crate) use crate::control::messages::{Direction, MessageSummary};
use crate::control::notifications::Notification;
use crate::control::query::{Position, address};
use crate::model::address::Mailbox;
use crate::model::error::ApiError;
use crate::model::terms::{MAX_SEARCHED, Terms};
use crate::model::time::Millis;
use crate::store::emails::{EmailFields, StoredEmail};
use crate::store::{Reader, Tx, organizations};

/// Stores the message of an email for one recipient. `domain` is the recipient's domain if
/// the organization has verified it.
pub(crate) fn insert_outgoing(
    tx: &mut Tx<'_>,
    id: &str,
    recipient: &str,
    email: &StoredEmail,
    domain: Option<&str>,
) -> Result<(), ApiError> {
    let organization = email.organization;
    tx.execute(
        "INSERT INTO message (organization, id, recipient, email, domain, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        (organization, id, recipient, &email.id, domain, tx.now),
    )?;
    tx.message_stored(organization, recipient);
    publish(tx, organization, id)
}

/// A received message to insert.
pub(crate) struct NewIncoming<'a> {
    pub(crate) id: &'a str,
    pub(crate) recipient: &'a str,
    /// The verified domain that receives it; `None` for mail that is caught.
    pub(crate) domain: Option<&'a str>,
    pub(crate) sender: &'a str,
    pub(crate) subject: &'a str,
    pub(crate) preview: &'a str,
    /// Its words, to search.
    pub(crate) text: &'a str,
    pub(crate) attachments: usize,
    /// The results of its authentication, as JSON, if it was checked.
    pub(crate) authentication: Option<&'a str>,
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
        "INSERT INTO message (organization, id, recipient, domain, created_at, authentication,
                              sender, subject, source, preview, attachments, text)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        (
            organization,
            new.id,
            new.recipient,
            new.domain,
            tx.now,
            new.authentication,
            new.sender,
            new.subject,
            new.source,
            new.preview,
            new.attachments as i64,
            new.text,
        ),
    )?;
    tx.message_stored(organization, new.recipient);
    publish(tx, organization, new.id)
}

/// Tells the clients that watch.
fn publish(tx: &Tx<'_>, organization: i64, id: &str) -> Result<(), ApiError> {
    if !tx.is_watched() {
        return Ok(());
    }
    let sql = format!("SELECT {COLUMNS} {FROM} WHERE m.id = ?1");
    if let Some(message) = tx.find(&sql, [id], |row| Ok(summary(row)))?.transpose()? {
        tx.publish(Some(organization), || Notification::Message(message.shortened()));
    }
    Ok(())
}

pub(crate) fn delete(tx: &Tx<'_>, organization: i64, id: &str) -> Result<(), ApiError> {
    let sql = "DELETE FROM message WHERE organization = ?1 AND id = ?2";
    tx.change("message", sql, (organization, id))
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
    let sql = "SELECT recipient, created_at, email, authentication FROM message
               WHERE organization = ?1 AND id = ?2";
    Ok(reader.find(sql, (organization, id), |row| {
        Ok(Message {
            recipient: row.get(0)?,
            created_at: row.get(1)?,
            email: row.get(2)?,
            authentication: row.get(3)?,
        })
    })?)
}

/// The email and the recipient of a message that an organization sent.
pub(crate) fn email_and_recipient(
    reader: Reader<'_>,
    id: &str,
) -> Result<Option<(String, String)>, ApiError> {
    let sql = "SELECT email, recipient FROM message WHERE id = ?1 AND email IS NOT NULL";
    Ok(reader.find(sql, [id], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

/// The size of the source of a received message, in bytes, without reading it.
pub(crate) fn source_size(reader: Reader<'_>, id: &str) -> Result<usize, ApiError> {
    let sql = "SELECT octet_length(bytes) FROM message m JOIN body b ON b.id = m.source
               WHERE m.id = ?1";
    let size: Option<i64> = reader.find(sql, [id], |row| row.get(0))?;
    Ok(size.unwrap_or(0) as usize)
}

/// The source of a received message.
pub(crate) fn source(reader: Reader<'_>, id: &str) -> Result<Option<Vec<u8>>, ApiError> {
    let sql = "SELECT bytes FROM message m JOIN body b ON b.id = m.source WHERE m.id = ?1";
    Ok(reader.find(sql, [id], |row| row.get(0))?)
}

/// The ID of the newest message of an organization.
pub(crate) fn newest(reader: Reader<'_>, organization: i64) -> Result<Option<String>, ApiError> {
    let sql = "SELECT id FROM message WHERE organization = ?1 ORDER BY id DESC LIMIT 1";
    Ok(reader.find(sql, [organization], |row| row.get(0))?)
}

/// Sorts after every ID of a message.
const PAST_EVERY_ID: &str = "msg`";

/// What selects messages.
#[derive(Clone, Default)]
pub(crate) struct Search {
    /// The complete address of the recipient; case-insensitive.
    pub(crate) to: Option<String>,
    /// The complete address of the sender; case-insensitive.
    pub(crate) from: Option<String>,
    /// A part of the subject, in lower case.
    pub(crate) subject: Option<String>,
    /// Words of the message.
    pub(crate) terms: Option<Terms>,
    pub(crate) after: Option<Position>,
    /// Selects messages older than this one.
    pub(crate) cursor: Option<String>,
    /// Selects messages newer than this one.
    pub(crate) since: Option<String>,
    /// Whether it looks at the other organizations instead.
    pub(crate) elsewhere: bool,
}

impl Search {
    pub(crate) fn new(filter: &MessageFilter) -> Result<Self, ApiError> {
        Ok(Self {
            to: address("to", filter.to.as_deref())?,
            from: address("from", filter.from.as_deref())?,
            subject: filter.subject.as_ref().map(|text| text.to_lowercase()),
            terms: filter.search.as_deref().map(Terms::new),
            after: Position::read("after", filter.after.as_deref())?,
            ..Self::default()
        })
    }

    /// Whether a message for this recipient can be one that is searched for.
    pub(crate) fn may_match(&self, recipient: &str) -> bool {
        self.to.as_deref().is_none_or(|to| to.eq_ignore_ascii_case(recipient))
    }

    /// Returns the newest `count` matching messages of an organization, newest first.
    pub(crate) fn find(
        &self,
        reader: Reader<'_>,
        organization: i64,
        count: usize,
    ) -> Result<Vec<MessageSummary>, ApiError> {
        let after = self.after.as_ref().and_then(|after| after.id("msg_"));
        // `None` is before all.
        let after = after.as_deref().max(self.since.as_deref()).unwrap_or_default();
        let before = self.cursor.as_deref().unwrap_or(PAST_EVERY_ID);
        let (text, limit) = match self.terms {
            Some(_) => (
                "coalesce((SELECT substr(coalesce(text, html), 1, 65536) FROM email_content
                           WHERE email = m.email), m.text)",
                MAX_SEARCHED as i64,
            ),
            None => ("NULL", i64::MAX),
        };
        // SQLite does not use the index for an optional condition (`?4 IS NULL OR …`).
        let to = if self.to.is_some() { "m.recipient = ?4" } else { "?4 IS NULL" };
        let of = if self.elsewhere { "<>" } else { "=" };
        let sql = format!(
            "SELECT {COLUMNS}, {text} AS searched {FROM}
             WHERE m.organization {of} ?1 AND m.id > ?2 AND m.id < ?3 AND {to}
             ORDER BY m.id DESC LIMIT ?5"
        );
        let mut statement = reader.statement(&sql)?;
        let mut rows = statement.query((organization, after, before, &self.to, limit))?;
        let mut found = Vec::new();
        while found.len() < count
            && let Some(row) = rows.next()?
        {
            let message = summary(row)?;
            // The server's clock never goes backwards, so all further messages are older.
            if matches!(self.after, Some(Position::Time(time)) if message.created_at <= time.into())
            {
                break;
            }
            if self.matches(&message, row)? {
                found.push(message.shortened());
            }
        }
        Ok(found)
    }

    fn matches(&self, message: &MessageSummary, row: &Row<'_>) -> Result<bool, ApiError> {
        let is_from = |from: &String| match Mailbox::parse(&message.from) {
            Ok(mailbox) => mailbox.address.as_str().eq_ignore_ascii_case(from),
            Err(_) => message.from.eq_ignore_ascii_case(from),
        };
        let subject = |part: &String| message.subject.to_lowercase().contains(part);
        let is_wanted =
            self.subject.as_ref().is_none_or(subject) && self.from.as_ref().is_none_or(is_from);
        let Some(terms) = self.terms.as_ref().filter(|_| is_wanted) else { return Ok(is_wanted) };
        let text = row.get_ref("searched")?.as_bytes_or_null().map_err(ApiError::internal)?;
        let text = String::from_utf8_lossy(text.unwrap_or_default());
        let MessageSummary { id, email_id, from, recipient, subject, preview, .. } = message;
        let email = email_id.as_deref().unwrap_or_default();
        Ok(terms.are_in([id, email, from, recipient, subject, preview, &text]))
    }
}

/// The end of an error message about a message that another organization has.
pub(crate) fn has_it(reader: Reader<'_>, id: &str) -> Result<String, ApiError> {
    let sql = "SELECT organization FROM message WHERE id = ?1";
    let owner: Option<i64> = reader.find(sql, [id], |row| row.get(0))?;
    owner.map_or_else(|| Ok(String::new()), |owner| organizations::has_it(reader, owner))
}

/// The messages of an email, in the order of its recipients.
pub(crate) fn of_email(reader: Reader<'_>, email: &str) -> Result<Vec<MessageSummary>, ApiError> {
    let sql = format!("SELECT {COLUMNS} {FROM} WHERE m.email = ?1 ORDER BY m.id");
    let mut statement = reader.statement(&sql)?;
    let mut rows = statement.query([email])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(summary(row)?.shortened());
    }
    Ok(found)
}

/// The columns that [`summary`] reads.
const COLUMNS: &str = "m.id, m.recipient, m.email, m.created_at, e.fields, m.sender, m.subject,
    m.preview, m.attachments";
const FROM: &str = "FROM message m LEFT JOIN email e ON e.id = m.email";

fn summary(row: &Row<'_>) -> Result<MessageSummary, ApiError> {
    let email_id: Option<String> = row.get(2)?;
    let (from, subject, preview, attachments) = match row.get::<_, Option<String>>(4)? {
        Some(fields) => {
            let fields: EmailFields = serde_json::from_str(&fields).map_err(ApiError::internal)?;
            (fields.from, fields.subject, fields.preview, fields.attachments)
        }
        None => {
            let text = |column| row.get::<_, Option<String>>(column);
            let [from, subject, preview] =
                [text(5)?, text(6)?, text(7)?].map(Option::unwrap_or_default);
            (from, subject, preview, row.get::<_, i64>(8)? as usize)
        }
    };
    Ok(MessageSummary {
        id: row.get(0)?,
        direction: Direction::of(email_id.as_ref()),
        email_id,
        from,
        recipient: row.get(1)?,
        subject,
        preview,
        attachments,
        created_at: row.get::<_, Millis>(3)?.into(),
    })
}
