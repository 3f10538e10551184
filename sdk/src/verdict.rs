//! Whether the service accepted an email: one rule for single sends and the items of a batch.
//!
//! Accepted is what has an id and no mark of failure; refused is what has a mark of failure;
//! anything else is unknown. A message alone is neither.

use http::HeaderMap;
use serde_json::Value;

use crate::decode::read_fields;
use crate::dialect::{Dialect, Point};
use crate::email::email_record::EmailRecord;
use crate::fields::{Fields, find, flag, integer, is_nothing, plain};
use crate::words::WORDS;

/// The verdict of a response about an email.
pub(crate) enum Verdict {
    /// An id, and no mark of failure.
    Accepted(EmailRecord),
    /// A mark of failure.
    Refused,
    /// Neither an id nor a mark of failure.
    Unknown(EmailRecord),
}

/// Judges the fields of a response, or of an item of a batch, which has no headers.
pub(crate) fn judge(fields: &Fields, headers: &HeaderMap, dialect: &Dialect) -> Verdict {
    if is_marked(fields) {
        return Verdict::Refused;
    }

    let mut email: EmailRecord = read_fields(fields.clone(), dialect);
    // An item of a batch has no headers: its id is in a field, wherever that of a single send is.
    let is_item = headers.is_empty();
    let is_elsewhere = !is_item
        && dialect
            .pinned(Point::IdPlace)
            .is_some_and(|place| place != "field");
    if email.id.is_empty() || is_elsewhere {
        email.id = id_in_headers(headers, dialect).unwrap_or_default();
    }
    if !email.id.is_empty() {
        Verdict::Accepted(email)
    } else {
        Verdict::Unknown(email)
    }
}

/// The id in the dialect's header, or in the URL of `Location` or a header like it.
fn id_in_headers(headers: &HeaderMap, dialect: &Dialect) -> Option<String> {
    let text = |name: &str| {
        let text = headers.get(name)?.to_str().ok()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };

    let place = dialect.pinned(Point::IdPlace);
    let named = || text(dialect.choice(Point::IdHeader));
    let in_url = |of_an_email: bool| {
        let mut urls = WORDS.id_urls.iter().filter_map(|name| text(name));
        urls.find_map(|url| last_segment(&url, of_an_email))
    };

    match place {
        Some("header") => {
            let value = named()?;
            let is_url = value.starts_with('/') || value.contains("://");
            if is_url {
                last_segment(&value, false)
            } else {
                Some(value)
            }
        }
        Some("location") => in_url(false),
        Some(_) => None,
        None => named()
            .or_else(|| WORDS.id_headers.iter().find_map(|name| text(name)))
            .or_else(|| in_url(true)),
    }
}

/// The last segment of a URL. Unless the dialect says that it is the id, it must be that of an email.
fn last_segment(url: &str, of_an_email: bool) -> Option<String> {
    let path = url.split(['?', '#']).next()?.trim_end_matches('/');
    let (parent, id) = path.rsplit_once('/')?;
    let parent = parent.rsplit('/').next()?.to_ascii_lowercase();
    let is_of_an_email = matches!(parent.as_str(), "email" | "emails" | "message" | "messages");
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
/// `{"success": false}`, `{"status": "error"}`, `{"code": 10404, "msg": "…", "data": null}`. Its
/// resource may have a status of its own.
pub(crate) fn reports_failure(fields: &Fields) -> bool {
    names_failure(fields) || result_code(fields) == Some(ResultCode::Failure)
}

/// Like [`reports_failure`], of fields beside a list, where a code may be of anything.
pub(crate) fn names_failure(fields: &Fields) -> bool {
    is_refused(fields)
        || has_error(fields)
        || fields.iter().any(|(name, value)| {
            let word = value.as_str().map(plain);
            match plain(name).as_str() {
                "status" => matches!(word.as_deref(), Some("error" | "fail")),
                "stat" | "result" => {
                    matches!(
                        word.as_deref(),
                        Some("error" | "fail" | "failed" | "failure")
                    )
                }
                _ => false,
            }
        })
}

/// Whether the body of a change that shows no resource says that it succeeded. A message is no such
/// word: it may be any sentence.
pub(crate) fn says_success(fields: &Fields) -> bool {
    fields.iter().any(|(name, value)| {
        let name = plain(name);
        let is_word = |value: &Value| value.as_str().is_some_and(is_success_word);
        match name.as_str() {
            "message" | "msg" | "status" | "stat" | "result" | "state" | "returntext" => {
                is_word(value)
            }
            // SOAP has a header in an envelope.
            _ if value.is_object() => value.as_object().is_some_and(says_success),
            _ => {
                let is_assent = WORDS.assents.contains(&name.as_str()) || is_success_word(&name);
                is_assent && flag(value) == Some(true)
            }
        }
    }) || result_code(fields) == Some(ResultCode::Success)
}

fn is_success_word(text: &str) -> bool {
    WORDS.success_words.contains(&plain(text).as_str())
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

/// The code of a body without a result, as in `{"code": 0, "msg": "ok", "data": null}`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ResultCode {
    Success,
    Failure,
    /// Services differ in what a small number or another word means.
    Unclear,
}

/// `None` if the body has no code, or has a result beside it, such as a resource with a code of its
/// own.
pub(crate) fn result_code(fields: &Fields) -> Option<ResultCode> {
    let (_, code) = find(fields, &WORDS.result_codes)?;
    if fields.iter().any(|(name, value)| is_result(name, value)) {
        return None;
    }

    let message = find(fields, &["msg", "message", "errmsg", "errormessage"]);
    let says_success = message
        .and_then(|(_, message)| message.as_str())
        .is_some_and(is_success_word);
    Some(match integer(code) {
        Some(0 | 100..400) => ResultCode::Success,
        Some(number) if !(0..100).contains(&number) => ResultCode::Failure,
        None if code.as_str().is_some_and(is_failing_word) => ResultCode::Failure,
        None if code.as_str().is_some_and(is_success_word) => ResultCode::Success,
        _ if says_success => ResultCode::Success,
        _ => ResultCode::Unclear,
    })
}

/// Whether a field is more than what an envelope has: it holds something, or names something.
fn is_result(name: &str, value: &Value) -> bool {
    match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        value => !is_nothing(value) && matches!(name, "id" | "name" | "email" | "url"),
    }
}

fn is_denied(name: &str, value: &Value) -> bool {
    let is_denial = WORDS.denials.contains(&name) && *value == Value::Bool(true);
    is_denial || WORDS.assents.contains(&name) && flag(value) == Some(false)
}

fn is_error(name: &str, value: &Value) -> bool {
    WORDS.error_names.contains(&name) && says_something(value)
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

/// Whether a field that holds a status holds one of a failure: a number from 400 on, a negative one,
/// or a word.
fn is_failing_status(name: &str, value: &Value) -> bool {
    if !WORDS.status_names.contains(&name) {
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
        _ => integer(value).is_some_and(|number| !(0..400).contains(&number)),
    }
}

/// Whether a word, or a number with a phrase as in `422 Unprocessable`, says that something failed.
fn is_failing_word(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or_default();
    if first.parse::<u64>().is_ok_and(|number| number >= 400) {
        return true;
    }
    let text = text.to_ascii_lowercase();
    let mut words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let is_denial = text.starts_with("no_") || text.starts_with("no ");
    !is_denial && words.any(|word| WORDS.failing_words.contains(&word))
}

/// Fields with what the request had, which the service may send back, and links.
fn is_content(name: &str) -> bool {
    WORDS.content_fields.contains(&plain(name).as_str())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;

    #[derive(Debug, PartialEq)]
    enum Expected {
        Accepted,
        Refused,
        Unknown,
    }

    fn verdict(value: &Value) -> Expected {
        let fields = value.as_object().expect("an object");
        match judge(fields, &HeaderMap::new(), &Dialect::default()) {
            Verdict::Accepted(_) => Expected::Accepted,
            Verdict::Refused => Expected::Refused,
            Verdict::Unknown(_) => Expected::Unknown,
        }
    }

    #[test]
    fn a_verdict_needs_an_id_or_a_mark_of_failure() {
        for accepted in [
            json!({"index": 0, "status": 202, "message_id": "m", "message": "Queued. Thank you."}),
            json!({"ErrorCode": 0, "Message": "OK", "MessageID": "m"}),
            json!({"id": "m", "error": ""}),
            json!({"id": "m", "error": null, "errors": [], "success": "true"}),
            json!({"id": "m", "tags": {"status": "failed"}, "status": "queued"}),
            json!({"success": true, "id": "req_1", "data": {"id": "m"}}),
            json!({"data": {"type": "emails", "id": "m", "attributes": {"status": "queued"}}}),
            json!({"name": "emails/m", "state": "QUEUED"}),
            json!({"emailId": 7}),
        ] {
            assert_eq!(verdict(&accepted), Expected::Accepted, "{accepted}");
        }
        for refused in [
            json!({"id": "m", "success": false}),
            json!({"id": "m", "ok": "false"}),
            json!({"id": "m", "accepted": 0}),
            json!({"id": "m", "status": "rejected"}),
            json!({"id": "m", "status": "REJECTED_BY_POLICY"}),
            json!({"id": "m", "statusCode": 422}),
            json!({"id": "m", "code": "422"}),
            json!({"id": "m", "error": {"message": "no"}}),
            json!({"ErrorCode": 300, "MessageID": "m"}),
            json!({"result": {"id": "m", "success": false}}),
            json!({"code": -1, "id": "m"}),
            json!({"id": "m", "discarded": true}),
            json!({"errcode": 40001, "errmsg": "invalid credential", "id": "m"}),
            json!({"code": 230_013, "msg": "sender not verified", "data": {}}),
        ] {
            assert_eq!(verdict(&refused), Expected::Refused, "{refused}");
        }
        for unknown in [
            json!({}),
            json!({"message": "no such recipient"}),
            json!({"status": 202, "message": "accepted for delivery"}),
            json!({"id": null, "status": "queued"}),
            json!({"code": 3, "msg": "later", "data": null}),
            json!({"code": 3, "msg": "blocked", "id": "0"}),
        ] {
            assert_eq!(verdict(&unknown), Expected::Unknown, "{unknown}");
        }
    }

    #[test]
    fn the_id_is_found_in_headers() {
        let read = |name: &str, value: &str, dialect: &Dialect| {
            let name: http::HeaderName = name.parse().expect("a name");
            let headers = HeaderMap::from_iter([(name, value.parse().expect("a value"))]);
            match judge(&Map::new(), &headers, dialect) {
                Verdict::Accepted(email) => email.id,
                _ => String::new(),
            }
        };

        let found = Dialect::default();
        assert_eq!(read("x-message-id", "m", &found), "m");
        assert_eq!(read("location", "/api/v1/emails/m%2F1?x=1", &found), "m/1");
        assert_eq!(read("location", "/status/queue", &found), "");
        let pinned = Dialect::with(["id-place=location"]).expect("a choice");
        assert_eq!(read("location", "https://x.test/queue/m", &pinned), "m");
        assert_eq!(
            read("operation-location", "https://x.test/messages/m", &found),
            "m"
        );
        let choices = ["id-place=header", "id-header=x-status"];
        let pinned = Dialect::with(choices).expect("choices");
        assert_eq!(read("x-status", "https://x.test/queue/m", &pinned), "m");
        assert_eq!(read("x-status", "<m@x.test>", &pinned), "<m@x.test>");
    }

    #[test]
    fn the_code_of_an_envelope_says_what_it_says_for_certain() {
        for (body, expected) in [
            (
                json!({"code": 0, "msg": "ok", "data": null}),
                Some(ResultCode::Success),
            ),
            (
                json!({"code": 200, "message": "Gone"}),
                Some(ResultCode::Success),
            ),
            (
                json!({"code": 1, "msg": "success"}),
                Some(ResultCode::Success),
            ),
            (json!({"code": "OK"}), Some(ResultCode::Success)),
            (
                json!({"code": 10_404, "msg": "not found", "data": null}),
                Some(ResultCode::Failure),
            ),
            (
                json!({"code": "401", "data": {}}),
                Some(ResultCode::Failure),
            ),
            (json!({"errcode": -1}), Some(ResultCode::Failure)),
            (json!({"code": "invalid_key"}), Some(ResultCode::Failure)),
            (
                json!({"code": 1, "msg": "gone", "data": null}),
                Some(ResultCode::Unclear),
            ),
            (
                json!({"code": "A0230", "msg": "?"}),
                Some(ResultCode::Unclear),
            ),
            (json!({"code": 10_404, "id": "7"}), None),
            (json!({"code": 10_404, "data": {"id": "7"}}), None),
            (json!({"message": "ok"}), None),
        ] {
            let fields = body.as_object().expect("an object");
            assert_eq!(result_code(fields), expected, "{body}");
        }
    }

    /// Fields of which the oracle knows what they say.
    fn answer() -> impl Strategy<Value = Value> {
        let field = prop_oneof![
            Just(("id", json!("m"))),
            Just(("message_id", json!(7))),
            Just(("message", json!("words"))),
            prop::sample::select(vec![json!(true), json!(false), json!("false"), json!(1)])
                .prop_map(|value| ("success", value)),
            prop::sample::select(vec![
                json!(null),
                json!(""),
                json!([]),
                json!("no"),
                json!({"a": 1})
            ])
            .prop_map(|value| ("error", value)),
            prop::sample::select(vec!["queued", "sent", "rejected", "FAILED", "new"])
                .prop_map(|word| ("status", json!(word))),
            (0u16..600).prop_map(|number| ("statusCode", json!(number))),
            (0u16..3).prop_map(|number| ("ErrorCode", json!(number))),
            Just(("tags", json!({"status": "failed"}))),
        ];
        let fields = prop::collection::vec(field, 0..6);
        let object = fields.prop_map(|fields| {
            let fields = fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value));
            Value::Object(fields.collect())
        });
        object.prop_recursive(3, 4, 1, |inner| {
            let name = prop::sample::select(vec!["data", "result", "email"]);
            (name, inner).prop_map(|(name, inner)| json!({ name: inner }))
        })
    }

    /// Says by itself what an answer means.
    fn oracle(value: &Value) -> Expected {
        let mut has_id = false;
        let mut has_mark = false;
        let mut objects = vec![value];
        while let Some(object) = objects.pop() {
            for (name, value) in object.as_object().into_iter().flatten() {
                match name.as_str() {
                    "id" | "message_id" => has_id = true,
                    "success" => has_mark |= *value == json!(false) || *value == json!("false"),
                    "error" => {
                        has_mark |= ![json!(null), json!(""), json!([])].contains(value);
                    }
                    "status" => {
                        let words = ["rejected", "FAILED"];
                        has_mark |= words.iter().any(|word| value == word);
                    }
                    "statusCode" => has_mark |= value.as_u64() >= Some(400),
                    "ErrorCode" => has_mark |= *value != json!(0),
                    "data" | "result" | "email" => objects.push(value),
                    _ => {}
                }
            }
        }

        match (has_mark, has_id) {
            (true, _) => Expected::Refused,
            (false, true) => Expected::Accepted,
            (false, false) => Expected::Unknown,
        }
    }

    proptest! {
        #[test]
        fn a_verdict_is_never_guessed(value in answer()) {
            prop_assert_eq!(verdict(&value), oracle(&value), "{}", value);
        }
    }
}
