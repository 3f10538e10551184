//! Emails as a list of the control interface has them.

use rusqlite::Row;
use serde_json::Value;

use super::read;
use crate::control::emails::{EmailFilter, EmailSummary};
use crate::control::query::{Position, address};
use crate::model::address::Mailbox;
use crate::model::error::ApiError;
use crate::model::status::Status;
use crate::model::terms::{MAX_SEARCHED, Terms};
use crate::store::Reader;

/// Sorts after every ID of an email.
const PAST_EVERY_ID: &str = "eml`";

/// Lists the matching emails of an organization, newest first: one page and one more.
pub(crate) fn list(
    reader: Reader<'_>,
    organization: i64,
    filter: &EmailFilter,
    limit: usize,
    cursor: Option<&str>,
) -> Result<Vec<EmailSummary>, ApiError> {
    let EmailFilter { status, search, .. } = filter;
    let address = address("address", filter.address.as_deref())?;
    let after = Position::read("after", filter.after.as_deref())?;
    let before = Position::read("before", filter.before.as_deref())?;
    let terms = search.as_deref().map(Terms::new);
    let (text, searched) = match terms {
        Some(_) => (
            "(SELECT substr(coalesce(text, html), 1, 65536) FROM email_content WHERE email = email.id)",
            MAX_SEARCHED as i64,
        ),
        None => ("NULL", i64::MAX),
    };
    let sql = format!(
        "SELECT status, data, {text} AS searched FROM email
         WHERE organization = ?1 AND id > ?2 AND id < ?3 AND (?4 IS NULL OR status = ?4)
         ORDER BY id DESC LIMIT ?5"
    );
    let [first, last] = [&after, &before].map(|position| position.as_ref()?.id("eml_"));
    let last = last.as_deref().unwrap_or(PAST_EVERY_ID);
    let last = cursor.map_or(last, |cursor| last.min(cursor));
    let status = status.map(Status::as_str);
    let mut statement = reader.statement(&sql)?;
    let mut rows = statement.query((
        organization,
        first.unwrap_or_default(),
        last,
        status,
        searched,
    ))?;
    let mut found = Vec::new();
    while found.len() <= limit
        && let Some(row) = rows.next()?
    {
        let email = read(row)?.shown;
        // The server's clock never goes backwards, so all further emails are older.
        if matches!(after, Some(Position::Time(time)) if email.created_at <= time.into()) {
            break;
        }
        let is_late =
            matches!(before, Some(Position::Time(time)) if email.created_at >= time.into());
        if !is_late && is_wanted(filter, address.as_deref(), terms.as_ref(), &email, row)? {
            found.push(email);
        }
    }
    Ok(found)
}

/// Whether an email has the texts that are looked for.
fn is_wanted(
    filter: &EmailFilter,
    address: Option<&str>,
    terms: Option<&Terms>,
    email: &EmailSummary,
    row: &Row<'_>,
) -> Result<bool, ApiError> {
    let EmailFilter { subject, tag, .. } = filter;
    let has_subject = |part: &String| email.subject.to_lowercase().contains(&part.to_lowercase());
    let has_tag = |wanted: &String| match wanted.split_once('=') {
        Some((name, value)) => email
            .tags
            .get(name)
            .is_some_and(|tag| tag_text(tag) == value),
        None => email.tags.contains_key(wanted),
    };
    let is_it = |mailbox: &String, wanted: &str| {
        Mailbox::parse(mailbox)
            .is_ok_and(|mailbox| mailbox.address.as_str().eq_ignore_ascii_case(wanted))
    };
    let is_wanted = subject.as_ref().is_none_or(has_subject)
        && tag.as_ref().is_none_or(has_tag)
        && address.is_none_or(|wanted| mailboxes(email).any(|one| is_it(one, wanted)));
    let Some(terms) = terms.filter(|_| is_wanted) else {
        return Ok(is_wanted);
    };
    let text: Option<String> = row.get("searched")?;
    let tags = email
        .tags
        .iter()
        .map(|(name, value)| format!("{name}={}", tag_text(value)));
    let tags = tags.collect::<Vec<_>>().join(" ");
    let optional = [
        text.as_deref(),
        email.last_event.as_deref(),
        email.template_id.as_deref(),
    ];
    let EmailSummary {
        id,
        subject,
        status,
        ..
    } = email;
    let texts = [id, subject, status.as_str(), &tags].into_iter();
    let texts = texts.chain(optional.into_iter().flatten());
    Ok(terms.are_in(texts.chain(mailboxes(email).map(String::as_str))))
}

fn mailboxes(email: &EmailSummary) -> impl Iterator<Item = &String> {
    [&email.to, &email.cc, &email.bcc]
        .into_iter()
        .flatten()
        .chain([&email.from])
}

/// The value of a tag: a text as it is, anything else as JSON.
fn tag_text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
