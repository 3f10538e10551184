//! The checks of the recipient guard in an `Email` before it becomes a request. `admit` returns the
//! email as it may be sent, with its recipients replaced if the guard redirects, or the first field
//! that is not allowed. It works with lists of what is allowed: a header or an additional field
//! that is not known to name no recipient is refused, and so is a line end in a text that may
//! become a header. Which addresses are allowed, and how many, is decided in `engine/guard.rs`.

use serde_json::Value;

use super::attachment::Attachment;
use super::message::{Email, ScheduledAt};
use crate::engine::{ActiveGuard, breaks_line, refuse, shown};
use crate::error::{Error, InvalidInput};
use crate::fields::plain;

/// Headers of an email that name no recipients, for any service. There is no complete list of those
/// that do.
const KNOWN_HEADERS: [&str; 26] = [
    "auto-submitted",
    "comments",
    "content-language",
    "feedback-id",
    "importance",
    "in-reply-to",
    "keywords",
    "list-archive",
    "list-help",
    "list-id",
    "list-owner",
    "list-post",
    "list-subscribe",
    "list-unsubscribe",
    "list-unsubscribe-post",
    "message-id",
    "organization",
    "precedence",
    "priority",
    "references",
    "reply-to",
    "sensitivity",
    "x-auto-response-suppress",
    "x-campaign",
    "x-entity-ref-id",
    "x-priority",
];

/// Additional fields of attachments that place them in the message, without case and separators.
const KNOWN_ATTACHMENT_FIELDS: [&str; 4] = ["contentid", "cid", "disposition", "inline"];

const UNKNOWN_FIELD: &str = "an additional field, which may name recipients or a list of them; \
                             only documented fields are allowed";
const UNKNOWN_HEADER: &str = "not one of the headers that are known to name no recipients, which \
                              the guide lists; use `to`, `cc` and `bcc` for recipients";
const NOT_A_TEXT: &str = "must be a text";
const LINE_END: &str =
    "contains a line end or another control character, which may start another header";

/// Returns the email as it may be sent. `prefix` is its place in a batch.
pub(super) fn admit(guard: &ActiveGuard, email: &Email, prefix: &str) -> Result<Email, Error> {
    let place = |refused: InvalidInput| {
        let field = format!("{prefix}{}", refused.field);
        refuse(InvalidInput::new(field, refused.problem))
    };

    check_fields(email).map_err(place)?;
    let mut email = email.clone();
    if let Some(address) = guard.redirect() {
        redirect(&mut email, address);
    }
    for (field, list) in [("to", &email.to), ("cc", &email.cc), ("bcc", &email.bcc)] {
        for (index, recipient) in list.iter().enumerate() {
            if let Some(problem) = guard.problem_with(recipient) {
                return Err(place(InvalidInput::new(
                    format!("{field}[{index}]"),
                    problem,
                )));
            }
        }
    }

    Ok(email)
}

/// Checks everything but the recipients, so that nothing else can name one.
fn check_fields(email: &Email) -> Result<(), InvalidInput> {
    if let Some(name) = email.extra.keys().next() {
        return Err(InvalidInput::new(shown(name), UNKNOWN_FIELD));
    }

    for (name, value) in &email.headers {
        let field = format!("headers.{}", shown(name));
        if !KNOWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(InvalidInput::new(field, UNKNOWN_HEADER));
        }
        match value {
            Value::String(text) => one_line(field, text)?,
            _ => return Err(InvalidInput::new(field, NOT_A_TEXT)),
        }
    }

    let scheduled_at = email.scheduled_at.as_ref().map(ScheduledAt::as_str);
    for (field, text) in [
        ("from", Some(email.from.as_str())),
        ("subject", Some(email.subject.as_str())),
        ("templateId", email.template_id.as_deref()),
        ("scheduledAt", scheduled_at),
    ] {
        one_line(field, text.unwrap_or_default())?;
    }

    for (index, address) in email.reply_to.iter().enumerate() {
        one_line(format!("replyTo[{index}]"), address)?;
    }

    for (index, file) in email.attachments.iter().enumerate() {
        check_attachment(file)
            .map_err(|invalid| invalid.within(&format!("attachments[{index}]")))?;
    }

    check_values("tags", &email.tags.clone().into(), &breaks_line)?;
    // A text of several lines is usual in a template's body.
    let breaks_text = |c| breaks_line(c) && !matches!(c, '\r' | '\n');
    check_values("variables", &email.variables.clone().into(), &breaks_text)
}

/// Checks fields of an attachment that the reference does not have: allowed are those that place it in the
/// message, which many services take.
fn check_attachment(file: &Attachment) -> Result<(), InvalidInput> {
    one_line("filename", &file.filename)?;
    one_line(
        "contentType",
        file.content_type.as_deref().unwrap_or_default(),
    )?;
    for (name, value) in &*file.extra {
        if !KNOWN_ATTACHMENT_FIELDS.contains(&plain(name).as_str()) {
            return Err(InvalidInput::new(shown(name), UNKNOWN_FIELD));
        }
        match value {
            Value::String(text) => one_line(shown(name), text)?,
            Value::Bool(_) => {}
            _ => return Err(InvalidInput::new(shown(name), NOT_A_TEXT)),
        }
    }
    Ok(())
}

/// A service may make a header of a name.
fn plain_name(field: &str, name: &str) -> Result<(), InvalidInput> {
    let is_plain = |c: char| c.is_ascii_graphic() && c != ':';
    if name.chars().all(is_plain) {
        return Ok(());
    }
    let problem =
        "a name that a header could not have; use ASCII characters without spaces and `:`";
    Err(InvalidInput::new(field.to_owned(), problem))
}

fn one_line(
    field: impl Into<std::borrow::Cow<'static, str>>,
    text: &str,
) -> Result<(), InvalidInput> {
    if text.contains(breaks_line) {
        Err(InvalidInput::new(field, LINE_END))
    } else {
        Ok(())
    }
}

/// Checks every text in a value for characters that no text may have, and the names in its objects.
fn check_values(
    field: &str,
    value: &Value,
    is_bad: &dyn Fn(char) -> bool,
) -> Result<(), InvalidInput> {
    match value {
        Value::String(text) if text.contains(is_bad) => {
            Err(InvalidInput::new(field.to_owned(), LINE_END))
        }
        Value::Array(items) => items
            .iter()
            .try_for_each(|item| check_values(field, item, is_bad)),
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            let field = format!("{field}.{}", shown(name));
            plain_name(&field, name)?;
            check_values(&field, value, is_bad)
        }),
        _ => Ok(()),
    }
}

/// Replaces the recipients, and names them in headers.
fn redirect(email: &mut Email, address: &str) {
    let originals = [
        (
            "X-Original-To",
            std::mem::replace(&mut email.to, vec![address.to_owned()]),
        ),
        ("X-Original-Cc", std::mem::take(&mut email.cc)),
        ("X-Original-Bcc", std::mem::take(&mut email.bcc)),
    ];
    for (name, list) in originals {
        email
            .headers
            .retain(|known, _| !known.eq_ignore_ascii_case(name));
        if !list.is_empty() {
            let list = list
                .iter()
                .map(|text| shown(text))
                .collect::<Vec<_>>()
                .join(", ");
            email.headers.insert(name.to_owned(), list.into());
        }
    }
}
