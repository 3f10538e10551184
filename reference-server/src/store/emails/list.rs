//! Emails as a list of the control interface has them.

use rusqlite::Row;
use serde_json::Value;

use super::{COLUMNS, read};
use crate::control::emails::EmailSummary;
use crate::model::address::Mailbox;
use crate::model::error::ApiError;
use crate::model::status::Status;
use crate::model::terms::{MAX_SEARCHED, Terms};
use crate::model::time::Millis;
use crate::store::Reader;

/// The range of emails to read: their IDs, both exclusive, and the time that they are newer than.
pub(crate) struct Range<'a> {
    pub(crate) after: &'a str,
    pub(crate) before: &'a str,
    pub(crate) newer_than: Option<Millis>,
}

/// Sorts after every ID of an email.
pub(crate) const PAST_EVERY_ID: &str = "eml`";

/// What a search looks for in the texts of an email.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// A complete address, of the sender or of any recipient; case-insensitive.
    pub(crate) address: Option<String>,
    /// A part of the subject, in lower case.
    pub(crate) subject: Option<String>,
    /// `name` or `name=value`.
    pub(crate) tag: Option<String>,
    /// Words of the email.
    pub(crate) terms: Option<Terms>,
}

impl Wanted {
    fn matches(&self, email: &EmailSummary, row: &Row<'_>) -> Result<bool, ApiError> {
        let has_address = |wanted: &String| {
            mailboxes(email).any(|mailbox| {
                Mailbox::parse(mailbox)
                    .is_ok_and(|mailbox| mailbox.address.as_str().eq_ignore_ascii_case(wanted))
            })
        };
        let has_tag = |wanted: &String| match wanted.split_once('=') {
            Some((name, value)) => email.tags.get(name).is_some_and(|tag| tag_text(tag) == value),
            None => email.tags.contains_key(wanted),
        };
        let is_wanted =
            self.subject.as_ref().is_none_or(|part| email.subject.to_lowercase().contains(part))
                && self.tag.as_ref().is_none_or(has_tag)
                && self.address.as_ref().is_none_or(has_address);
        let Some(terms) = self.terms.as_ref().filter(|_| is_wanted) else { return Ok(is_wanted) };
        let text: Option<String> = row.get("searched")?;
        let tags = email.tags.iter().map(|(name, value)| format!("{name}={}", tag_text(value)));
        let tags = tags.collect::<Vec<_>>().join(" ");
        let optional = [text.as_deref(), email.last_event.as_deref(), email.template_id.as_deref()];
        let EmailSummary { id, subject, status, .. } = email;
        let texts = [id, subject, status.as_str(), &tags].into_iter();
        let texts = texts.chain(optional.into_iter().flatten());
        Ok(terms.are_in(texts.chain(mailboxes(email).map(String::as_str))))
    }
}

fn mailboxes(email: &EmailSummary) -> impl Iterator<Item = &String> {
    [&email.to, &email.cc, &email.bcc].into_iter().flatten().chain([&email.from])
}

/// The value of a tag: a text as it is, anything else as JSON.
fn tag_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Reads the emails of an organization that match, newest first, until `take` returns `false`.
pub(crate) fn each(
    reader: Reader<'_>,
    organization: i64,
    range: &Range<'_>,
    status: Option<Status>,
    wanted: &Wanted,
    mut take: impl FnMut(EmailSummary) -> bool,
) -> Result<(), ApiError> {
    let (text, limit) = match wanted.terms {
        Some(_) => (
            "(SELECT substr(coalesce(text, html), 1, 65536) FROM email_content WHERE email = email.id)",
            MAX_SEARCHED as i64,
        ),
        None => ("NULL", i64::MAX),
    };
    let sql = format!(
        "SELECT {COLUMNS}, {text} AS searched FROM email
         WHERE organization = ?1 AND id > ?2 AND id < ?3 AND (?4 IS NULL OR status = ?4)
         ORDER BY id DESC LIMIT ?5"
    );
    let mut statement = reader.statement(&sql)?;
    let params = (organization, range.after, range.before, status.map(Status::as_str), limit);
    let mut rows = statement.query(params)?;
    while let Some(row) = rows.next()? {
        let email = EmailSummary::from(&read(row)?);
        // The server's clock never goes backwards, so all further emails are older.
        if range.newer_than.is_some_and(|time| email.created_at <= time.into())
            || wanted.matches(&email, row)? && !take(email)
        {
            break;
        }
    }
    Ok(())
}
