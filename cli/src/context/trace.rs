//! Prints each attempt of a request for `--verbose`, and with `-vv` its headers and body.
//! Secrets are masked before anything is printed: by the name of the field or header, by the form
//! of a key, and those that this run knows. A body that looks like JSON but cannot be parsed is not
//! printed at all, because nothing in it can be masked. `masked_message` masks a message for a
//! report. `clients.rs` connects `attempt` with the SDK.

use reqwest::header::HeaderValue;
use serde_json::Value;
use svc_sdk::Attempt;

use crate::output::Tracer;
use crate::settings::key::masked;

/// The part of a body that is shown, in bytes.
const MAX_SHOWN_BODY: usize = 4096;

/// Prints the two lines of `--verbose` for an attempt, the request and its result; with `-vv`, after
/// each its headers and its body.
pub(super) fn attempt(tracer: &Tracer, attempt: &Attempt<'_>) {
    tracer.trace(&format!("> {} {}", attempt.method, masked(attempt.url)));
    if tracer.shows_bodies {
        let request = attempt.request();
        let body = request
            .body()
            .unwrap_or_else(|error| format!("({error})").into());
        message(tracer, '>', request.headers.iter().cloned(), &body);
    }

    let status = match (attempt.status, attempt.failure) {
        (Some(status), _) => status.as_u16().to_string(),
        (None, Some(kind)) => format!("no response ({kind})"),
        (None, None) => "no response".to_owned(),
    };
    let id = attempt.request_id.map(|id| format!(", request id {id}"));
    let retry = attempt
        .retry_in
        .map(|wait| format!(", retrying in {} ms", wait.as_millis()));
    tracer.trace(&format!(
        "< {status} in {} ms, attempt {}{}{}",
        attempt.elapsed.as_millis(),
        attempt.number,
        id.unwrap_or_default(),
        retry.unwrap_or_default(),
    ));
    if tracer.shows_bodies {
        let headers = attempt.response_headers().into_iter().flatten();
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = headers.map(|(name, value)| (name.to_string(), text(value)));
        message(tracer, '<', headers, attempt.response_body());
    }
}

/// Prints the headers and the body of a message, without its secrets.
fn message(
    tracer: &Tracer,
    mark: char,
    headers: impl Iterator<Item = (String, String)>,
    body: &[u8],
) {
    let (headers, text) = masked_message(headers, body);
    for (name, value) in headers {
        tracer.trace(&format!("{mark} {name}: {value}"));
    }

    let text = tracer.without_secrets(&text);
    let shown = beginning(&text);
    shown
        .lines()
        .for_each(|line| tracer.trace(&format!("{mark} {line}")));
    if shown.len() < text.len() {
        tracer.trace(&format!("{mark} … ({} bytes in all)", body.len()));
    }
}

/// The part of a body that is shown.
pub fn beginning(text: &str) -> &str {
    let mut boundaries = text.char_indices().map(|(at, _)| at);
    let end = boundaries.find(|at| *at >= MAX_SHOWN_BODY);
    &text[..end.unwrap_or(text.len())]
}

/// The headers and the body of a message, without its secrets.
pub fn masked_message(
    headers: impl Iterator<Item = (String, String)>,
    body: &[u8],
) -> (Vec<(String, String)>, String) {
    let mask = |(name, value): (String, String)| {
        // The key itself is masked by the SDK, after its documented prefix.
        let is_secret = is_secret_name(&name) && !value.ends_with("***");
        let value = if is_secret {
            "***".to_owned()
        } else {
            masked(&value).into_owned()
        };
        (name, value)
    };

    let starts_as_json = matches!(body.trim_ascii_start().first(), Some(b'{' | b'[' | b'"'));
    let text = match serde_json::from_slice::<Value>(body) {
        Ok(mut value) => {
            redact(&mut value);
            value.to_string()
        }
        // The service may have cut it, and it may contain a secret.
        Err(_) if starts_as_json => format!("({} bytes, not valid JSON)", body.len()),
        Err(_) => masked(&String::from_utf8_lossy(body)).into_owned(),
    };
    (headers.map(mask).collect(), text)
}

/// Replaces the secrets in JSON: the values of fields with such a name, and what looks like a key or
/// a signing secret.
fn redact(value: &mut Value) {
    match value {
        Value::String(text) => *text = masked(text).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| {
            if is_secret_name(name) && !value.is_null() {
                *value = "***".into();
            } else {
                redact(value);
            }
        }),
        _ => {}
    }
}

fn is_secret_name(name: &str) -> bool {
    const PARTS: [&str; 9] = [
        "secret",
        "password",
        "passwd",
        "pwd",
        "passphrase",
        "token",
        "credential",
        "cookie",
        "authorization",
    ];

    let name = name.to_ascii_lowercase();
    let is_key = name.ends_with("key") && !name.starts_with("idempotency");
    is_key || PARTS.iter().any(|part| name.contains(part))
}
