//! Emails as a list of the control interface has them.

use rusqlite::Row;

use super::{Meta, Stored};
use crate::control::emails::EmailSummary;
use crate::model::error::ApiError;
use crate::model::status::Status;
use crate::model::time::Millis;
use crate::model::timestamp::Timestamp;
use crate::store::Reader;

impl From<&Stored> for EmailSummary {
    fn from(email: &Stored) -> Self {
        let times = [email.created_at, email.updated_at];
        let (id, meta) = (email.id.clone(), email.meta.clone());
        Self::new(id, meta, email.status, email.last_event.clone(), email.scheduled_at, times)
    }
}

impl EmailSummary {
    fn new(
        id: String,
        meta: Meta,
        status: Status,
        last_event: Option<String>,
        scheduled_at: Option<Millis>,
        [created_at, updated_at]: [Millis; 2],
    ) -> Self {
        Self {
            id,
            status,
            from: meta.from,
            to: meta.to,
            cc: meta.cc,
            bcc: meta.bcc,
            reply_to: meta.reply_to,
            subject: meta.subject,
            tags: meta.tags,
            scheduled_at: scheduled_at.map(Timestamp::from),
            template_id: meta.template_id,
            created_at: created_at.into(),
            updated_at: updated_at.into(),
            last_event,
        }
    }
}

/// The range of emails to read: their IDs, both exclusive, and the time that they are newer than.
pub(crate) struct Range<'a> {
    pub(crate) after: &'a str,
    pub(crate) before: &'a str,
    pub(crate) newer_than: Option<Millis>,
}

impl Range<'_> {
    /// Whether this email and all older ones are outside of it: the server's clock never goes
    /// backwards.
    pub(super) fn ends_before(&self, email: &EmailSummary) -> bool {
        self.newer_than.is_some_and(|time| email.created_at <= time.into())
    }
}

/// Sorts after every ID of an email.
pub(crate) const PAST_EVERY_ID: &str = "eml`";

/// Whether a list of the emails with this status may read many with another one.
pub(crate) fn may_scan(status: Option<Status>) -> bool {
    status == Some(Status::Delivered)
}

/// The columns of an email `e` that [`summary`] reads.
pub(super) const COLUMNS: &str =
    "e.id, e.status, e.last_event, e.scheduled_at, e.created_at, e.updated_at, e.meta";

fn list_statement(status: Option<Status>) -> String {
    let (index, condition) = match status {
        None => ("email_organization", "?4 IS NULL"),
        Some(Status::Delivered) => ("email_organization", "status = ?4"),
        Some(_) => ("email_status", "status <> 'delivered' AND status = ?4"),
    };
    format!(
        "SELECT {COLUMNS} FROM email e INDEXED BY {index}
         WHERE {condition} AND organization = ?1 AND id > ?2 AND id < ?3 ORDER BY id DESC"
    )
}

/// Reads emails of an organization, newest first, until `take` returns `false`.
pub(crate) fn each(
    reader: Reader<'_>,
    organization: i64,
    range: &Range<'_>,
    status: Option<Status>,
    mut take: impl FnMut(EmailSummary) -> Result<bool, ApiError>,
) -> Result<(), ApiError> {
    let mut statement = reader.statement(&list_statement(status))?;
    let params = (organization, range.after, range.before, status.map(Status::as_str));
    let mut rows = statement.query(params)?;
    while let Some(row) = rows.next()? {
        if !take(summary(row)?)? {
            break;
        }
    }
    Ok(())
}

/// Reads an email from its [`COLUMNS`].
pub(super) fn summary(row: &Row<'_>) -> Result<EmailSummary, ApiError> {
    let meta = row.get_ref(6)?.as_str().map_err(ApiError::internal)?;
    let meta: Meta = serde_json::from_str(meta).map_err(ApiError::internal)?;
    let status = Status::from_text(row.get_ref(1)?.as_str().map_err(ApiError::internal)?);
    let times = [row.get(4)?, row.get(5)?];
    Ok(EmailSummary::new(row.get(0)?, meta, status, row.get(2)?, row.get(3)?, times))
}
