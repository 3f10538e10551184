//! Whether the service accepted an email: one rule for single sends and the items of a batch.
//!
//! Accepted is what has an id and no mark of failure; refused is what has a mark of failure;
//! anything else is unknown. A message alone is neither.

use http::HeaderMap;
use http::header::LOCATION;
use serde_json::Value;

use crate::decode::read_fields;
use crate::dialect::{Dialect, Point};
use crate::email::email_record::EmailRecord;
use crate::fields::{Fields, flag, integer, plain};

/// What a response says about an email.
pub(crate) enum Verdict {
    /// It has an id, and no mark of failure.
    Accepted(EmailRecord),
    /// It has a mark of failure.
    Refused,
    /// It has neither an id nor a mark of failure.
    Unknown(EmailRecord),
}

/// Judges the fields of a response, or of an item of a batch, which has no headers.
pub(crate) fn judge(fields: &Fields, headers: &HeaderMap, dialect: &Dialect) -> Verdict {
    if is_marked(fields) {
        return Verdict::Refused;
    }
    let mut email: EmailRecord = read_fields(fields, dialect);
    let is_elsewhere = dialect
        .pinned(Point::IdPlace)
        .is_some_and(|place| place != "field");
    if email.id.is_empty() || is_elsewhere {
        email.id = id_in_headers(headers, dialect).unwrap_or_default();
    }
    match email.id.is_empty() {
        false => Verdict::Accepted(email),
        true => Verdict::Unknown(email),
    }
}

/// The id in the dialect's header or in `Location`.
fn id_in_headers(headers: &HeaderMap, dialect: &Dialect) -> Option<String> {
    const USUAL: [&str; 5] = [
        "x-message-id",
        "x-email-id",
        "message-id",
        "x-resource-id",
        "x-id",
    ];
    let text = |name: &str| {
        let text = headers.get(name)?.to_str().ok()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    let place = dialect.pinned(Point::IdPlace);
    let named = || text(dialect.choice(Point::IdHeader));
    match place {
        Some("header") => named(),
        Some("location") => last_segment(&text(LOCATION.as_str())?, false),
        Some(_) => None,
        None => named()
            .or_else(|| USUAL.iter().find_map(|name| text(name)))
            .or_else(|| last_segment(&text(LOCATION.as_str())?, true)),
    }
}

/// The last segment of a URL. Unless the dialect says that it is the id, it must be that of an email.
fn last_segment(url: &str, of_an_email: bool) -> Option<String> {
    let path = url.split(['?', '#']).next()?.trim_end_matches('/');
    let (parent, id) = path.rsplit_once('/')?;
    let parent = parent.rsplit('/').next()?.to_ascii_lowercase();
    let is_of_an_email = ["email", "emails", "message", "messages"].contains(&parent.as_str());
    if id.is_empty() || (of_an_email && !is_of_an_email) {
        return None;
    }
    let id = percent_encoding::percent_decode_str(id)
        .decode_utf8()
        .ok()?;
    Some(id.into_owned())
}

/// Whether the response to a send has a mark of failure, at the top or inside.
pub(crate) fn is_marked(fields: &Fields) -> bool {
    let is_marked_itself = fields.iter().any(|(name, value)| {
        let name = plain(name);
        is_denied(&name, value) || is_error(&name, value) || is_failing_status(&name, value)
    });
    is_marked_itself
        || fields
            .iter()
            .filter(|(name, _)| !is_content(name))
            .any(|(_, value)| match value {
                Value::Object(inner) => is_marked(inner),
                Value::Array(items) => match &items[..] {
                    [Value::Object(only)] => is_marked(only),
                    _ => false,
                },
                _ => false,
            })
}

/// Whether the body of a response that is not to a send reports a failure: `{"error": …}`,
/// `{"success": false}`, `{"status": "error"}`. Its resource may have a status of its own.
pub(crate) fn reports_failure(fields: &Fields) -> bool {
    is_refused(fields)
        || has_error(fields)
        || fields.iter().any(|(name, value)| {
            plain(name) == "status"
                && value
                    .as_str()
                    .is_some_and(|word| matches!(plain(word).as_str(), "error" | "fail"))
        })
}

/// Whether a field says that the request was not successful.
pub(crate) fn is_refused(fields: &Fields) -> bool {
    fields
        .iter()
        .any(|(name, value)| is_denied(&plain(name), value))
}

/// Whether a field reports an error.
fn has_error(fields: &Fields) -> bool {
    fields
        .iter()
        .any(|(name, value)| is_error(&plain(name), value))
}

fn is_denied(name: &str, value: &Value) -> bool {
    const ASSENTS: [&str; 8] = [
        "success",
        "ok",
        "accepted",
        "succeeded",
        "successful",
        "issuccess",
        "isok",
        "isaccepted",
    ];
    ASSENTS.contains(&name) && flag(value) == Some(false)
}

fn is_error(name: &str, value: &Value) -> bool {
    const ERRORS: [&str; 12] = [
        "error",
        "errors",
        "errorcode",
        "errormessage",
        "errordescription",
        "errordetail",
        "errordetails",
        "errortype",
        "exception",
        "fault",
        "faultcode",
        "faultstring",
    ];
    ERRORS.contains(&name) && says_something(value)
}

/// An accepted email must not be sent again because of `"error": ""` or `"ErrorCode": 0`.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is_set) => *is_set,
        Value::Number(code) => code.as_f64() != Some(0.0),
        Value::String(text) => {
            !matches!(text.trim(), "" | "0") && !text.trim().eq_ignore_ascii_case("false")
        }
        Value::Array(items) => items.iter().any(says_something),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// Whether a field that holds a status holds one of a failure: a number from 400 on, or a word.
fn is_failing_status(name: &str, value: &Value) -> bool {
    const STATUSES: [&str; 17] = [
        "status",
        "statuscode",
        "statustext",
        "httpstatus",
        "httpstatuscode",
        "httpcode",
        "responsecode",
        "responsestatus",
        "code",
        "state",
        "result",
        "resultcode",
        "outcome",
        "deliverystatus",
        "emailstatus",
        "messagestatus",
        "lastevent",
    ];
    if !STATUSES.contains(&name) {
        // `{"object": "error"}`
        return matches!(name, "object" | "type" | "kind") && value.as_str() == Some("error");
    }
    match value {
        Value::String(text) => is_failing_word(text),
        // `google.rpc.Status`: zero is success.
        Value::Object(status) if name == "status" => {
            let code = status.get("code").and_then(integer);
            code.is_some_and(|code| (1..100).contains(&code))
        }
        _ => integer(value).is_some_and(|number| number >= 400),
    }
}

/// Whether a word, or a number with a phrase as in `422 Unprocessable`, says that something failed.
fn is_failing_word(text: &str) -> bool {
    const WORDS: [&str; 28] = [
        "error",
        "errored",
        "fail",
        "failed",
        "failure",
        "rejected",
        "reject",
        "refused",
        "invalid",
        "denied",
        "declined",
        "dropped",
        "suppressed",
        "blocked",
        "bounced",
        "bounce",
        "undeliverable",
        "undelivered",
        "discarded",
        "aborted",
        "forbidden",
        "unauthorized",
        "blacklisted",
        "unaccepted",
        "unsuccessful",
        "complained",
        "cancelled",
        "canceled",
    ];
    let first = text.split_whitespace().next().unwrap_or_default();
    if first.parse::<u64>().is_ok_and(|number| number >= 400) {
        return true;
    }
    let text = text.to_ascii_lowercase();
    let mut words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let is_denial = text.starts_with("no_") || text.starts_with("no ");
    !is_denial && words.any(|word| WORDS.contains(&word))
}

/// Fields with what the request had, which the service may send back, and links.
fn is_content(name: &str) -> bool {
    const CONTENT: [&str; 8] = [
        "links",
        "tags",
        "headers",
        "variables",
        "metadata",
        "attachments",
        "customdata",
        "customargs",
    ];
    CONTENT.contains(&plain(name).as_str())
}
