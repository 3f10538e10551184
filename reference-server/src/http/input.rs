//! [`Input`]: the path parameters, query, headers and body of a request, and how a JSON body is
//! parsed. `Input::receive` reads the body within the limits of size and time, and reserves memory
//! for what has arrived. An error of the body is kept until a handler asks for the body, because a
//! 404 comes first. `object` parses JSON and names the field that is wrong. No error repeats a
//! value, which is the user's content.

use std::collections::HashMap;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use http::HeaderValue;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http_body_util::BodyExt as _;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};
use tower_http::timeout::{TimeoutBody, TimeoutError};

use crate::app::Shared;
use crate::http::speak::translate_query;
use crate::model::error::{Code, Failure};
use crate::runtime::memory::{REQUESTS, Reserved, SMALL};
use crate::settings::Limits;

pub(crate) struct Input {
    pub(crate) app: Shared,
    pub(crate) parts: Parts,
    params: Vec<(String, String)>,
    /// An error of the body counts only once the handler asks for it: it follows a 404
    /// (`docs/undocumented/README.md#order-of-checks`).
    body: Result<Bytes, Failure>,
    /// Kept until the request is handled.
    _memory: Reserved,
}

impl Input {
    /// Receives the body of a request.
    pub(crate) async fn receive(
        app: Shared,
        parts: Parts,
        params: Vec<(String, String)>,
        body: Body,
    ) -> Self {
        let (body, memory) = match receive_all(app.settings.limits, body).await {
            Ok(received) => (Ok(received.bytes), received.memory),
            Err(error) => (Err(error), None),
        };
        Self {
            app,
            parts,
            params,
            body,
            _memory: memory,
        }
    }

    /// A path parameter, decoded.
    pub(crate) fn param(&self, name: &str) -> &str {
        let found = self.params.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    /// The first path parameter, which is the ID of the resource.
    pub(crate) fn id(&self) -> String {
        self.params
            .first()
            .map_or_else(String::new, |(_, value)| value.clone())
    }

    /// The value of a header, if it is valid text.
    pub(crate) fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.parts.headers.get(name)?.to_str().ok()
    }

    /// The query parameters. For a repeated parameter, the last value wins.
    pub(crate) fn query(&self) -> HashMap<String, String> {
        let query = self.parts.uri.query().unwrap_or_default();
        let mut query = url::form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect();
        translate_query(&self.app.settings.dialect, &mut query);
        query
    }

    /// The raw body.
    pub(crate) fn bytes(&self) -> Result<Bytes, Failure> {
        self.body.clone()
    }

    /// The raw body of a request that does not declare it as something other than JSON.
    pub(crate) fn json_bytes(&self) -> Result<Bytes, Failure> {
        let bytes = self.bytes()?;
        let unsupported = |what| Err(Failure::new(Code::UnsupportedMediaType, what));
        let headers = &self.parts.headers;
        if headers
            .get_all(CONTENT_ENCODING)
            .iter()
            .any(|encoding| encoding != "identity")
        {
            return unsupported("compressed bodies are not supported");
        }
        if headers.get_all(CONTENT_TYPE).iter().all(is_json) {
            return Ok(bytes);
        }
        unsupported("the body must be JSON; send `Content-Type: application/json`")
    }
}

fn too_large(max: usize) -> Failure {
    let text = format!("the body is larger than {max} bytes");
    Failure::new(Code::PayloadTooLarge, text).with(|details| details.limit = Some(max))
}

/// A body, and the memory that is reserved for it.
struct Received {
    bytes: Bytes,
    memory: Reserved,
}

/// How much memory is reserved at once for a body that arrives, in bytes.
const RESERVED_AT_ONCE: usize = 1 << 20;

/// Receives a body, with limits on its size and duration. Memory is reserved for what has arrived, so
/// that no request waits for the slow body of another one.
async fn receive_all(limits: Limits, body: Body) -> Result<Received, Failure> {
    let max = limits.max_body_bytes;
    let announced = body
        .size_hint()
        .upper()
        .and_then(|size| usize::try_from(size).ok());
    if announced.is_some_and(|size| size > max) {
        return Err(too_large(max));
    }

    let deadline = Instant::now() + limits.body_timeout;
    let mut body = Box::pin(TimeoutBody::new(limits.body_idle_timeout, body));
    // Pages that nothing has arrived for take no memory.
    let mut bytes = Vec::with_capacity(announced.unwrap_or_default());
    let mut memory: Reserved = None;
    let mut reserved = SMALL;
    loop {
        let Ok(next) = timeout_at(deadline, body.frame()).await else {
            return Err(late());
        };
        let frame = match next {
            None => break,
            Some(Ok(frame)) => frame,
            Some(Err(error)) if error.is::<TimeoutError>() => return Err(late()),
            Some(Err(_)) => {
                let message = "the body is shorter than announced";
                return Err(Failure::new(Code::InvalidRequest, message));
            }
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };

        if bytes.len() + data.len() > max {
            return Err(too_large(max));
        }
        while bytes.len() + data.len() > reserved {
            REQUESTS
                .extend(&mut memory, RESERVED_AT_ONCE, WAIT_FOR_MEMORY)
                .await?;
            reserved += RESERVED_AT_ONCE;
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Received {
        bytes: bytes.into(),
        memory,
    })
}

/// How long a body waits for the memory of others.
const WAIT_FOR_MEMORY: Duration = Duration::from_secs(10);

fn late() -> Failure {
    Failure::new(Code::RequestTimeout, "the body did not arrive in time")
}

fn is_json(content_type: &HeaderValue) -> bool {
    let content_type = content_type.to_str().unwrap_or_default();
    let essence = content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

/// Parses a JSON object. Returns 400 for invalid JSON and 422 for an invalid field.
pub(crate) fn object<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Failure> {
    // serde does not validate strings in fields that it skips.
    if std::str::from_utf8(bytes).is_err() {
        let message = "the body is not valid JSON: it is not UTF-8";
        return Err(Failure::new(Code::InvalidJson, message));
    }
    if has_too_many_values(bytes) {
        let message = format!("the body has more than {MAX_VALUES} values");
        return Err(Failure::new(Code::PayloadTooLarge, message)
            .with(|details| details.limit = Some(MAX_VALUES)));
    }
    // A derived `Deserialize` also accepts an array of the field values.
    let is_object = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    if is_object && let Ok(value) = serde_json::from_slice(bytes) {
        return Ok(value);
    }
    check_syntax(bytes)?;
    if !is_object {
        return Err(Failure::field("", "must be an object"));
    }
    // Parses the body again, in a slower way that tracks the path, to find the invalid field.
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Ok(_) => Err(Failure::field("", "is invalid")),
        Err(error) => Err(invalid_field(error, "a field of this request", "")),
    }
}

/// Maximum number of values in a JSON body: strings, numbers, lists and objects
/// (`docs/undocumented/README.md#size-limits`). Each takes more memory than text.
const MAX_VALUES: usize = 250_000;

/// Counts what separates values, before they are parsed.
fn has_too_many_values(bytes: &[u8]) -> bool {
    let (mut values, mut in_string, mut escaped) = (0, false, false);
    for byte in bytes {
        if in_string {
            (in_string, escaped) = (escaped || *byte != b'"', !escaped && *byte == b'\\');
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b',' | b'[' | b'{' => values += 1,
            _ => {}
        }
    }
    values > MAX_VALUES
}

/// Returns 400 with the position of the syntax error, if there is one.
pub(crate) fn check_syntax(bytes: &[u8]) -> Result<(), Failure> {
    let Err(error) = serde_json::from_slice::<serde_json::Value>(bytes) else {
        return Ok(());
    };
    let text = if bytes.is_empty() {
        "the body is empty; expected JSON".to_owned()
    } else if error.to_string().starts_with("recursion limit exceeded") {
        "the body is nested too deeply; the limit is 127 levels".to_owned()
    } else {
        let (line, column) = (error.line(), error.column());
        format!("the body is not valid JSON: error at line {line} column {column}")
    };
    Err(Failure::new(Code::InvalidJson, text))
}

/// 422 for an invalid field of `what`, which has the `known` fields and those of the type.
pub(super) fn invalid_field(
    error: serde_path_to_error::Error<serde_json::Error>,
    what: &str,
    known: &str,
) -> Failure {
    let path = Some(error.path().to_string())
        .filter(|path| path != ".")
        .unwrap_or_default();
    let text = error.into_inner().to_string();
    let quoted = text.split('`').nth(1).unwrap_or_default();
    let expected = expected(&text);
    if text.starts_with("missing field") {
        let dot = if path.is_empty() { "" } else { "." };
        return Failure::field(format!("{path}{dot}{quoted}"), "is required");
    }
    if text.starts_with("unknown field") {
        // The name is the client's; repeat it only if it can be a field's name.
        let field = if is_name(quoted) { quoted } else { "" };
        let others = expected
            .as_deref()
            .unwrap_or_default()
            .trim_start_matches("one of ");
        let known = [known, others]
            .into_iter()
            .filter(|known| !known.is_empty());
        let known = known.collect::<Vec<_>>().join(", ");
        return Failure::field(field, format!("is not {what}; it has {known}"));
    }
    if text.starts_with("duplicate field") {
        return Failure::field(quoted, "is given more than once");
    }
    let expected = match expected.as_deref() {
        Some("a map") => "an object",
        Some("a sequence") => "a list",
        Some("i64") => "an integer",
        Some(other) => other,
        None if text.starts_with("must ") => return Failure::field(path, text),
        None => "of another type",
    };
    Failure::field(path, format!("must be {expected}"))
}

/// What serde expected, from the text of its error. What precedes it quotes the value, which is user
/// content.
fn expected(error: &str) -> Option<String> {
    let (_, expected) = error.rsplit_once("expected ")?;
    Some(expected.split(" at line ").next()?.replace('`', ""))
}

/// Whether a text can be the name of a field or of a query parameter.
pub(super) fn is_name(text: &str) -> bool {
    text.len() <= 40
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Maximum size of a name, in bytes.
const MAX_NAME: usize = 1_000;

/// Returns 422 if the name is missing, blank or long.
pub(crate) fn required_name(name: Option<String>) -> Result<String, Failure> {
    match name {
        None => Err(Failure::field("name", "is required")),
        Some(name) if name.trim().is_empty() => Err(Failure::field("name", "must not be empty")),
        Some(name) => {
            Failure::at_most("name", name.len(), MAX_NAME, "bytes")?;
            Ok(name)
        }
    }
}
