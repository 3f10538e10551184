//! [`Input`]: the organization, path parameters, query, headers and body of a request, and how a JSON
//! body is parsed. `Input::receive` reads the body within the limits of size and time, and reserves memory
//! for what has arrived. An error of the body is kept until a handler asks for the body, because a
//! 404 comes first. `object` parses JSON and names the field that is wrong. No error repeats a
//! value, which is the user's content.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use http::HeaderValue;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde_json::Value;
use svc_sdk::Dialect;
use tokio::time::{Instant, timeout_at};
use tower_http::timeout::{TimeoutBody, TimeoutError};

use crate::app::Shared;
use crate::http::speak::read_query;
use crate::model::{Code, Failure, Result, typed};
use crate::runtime::memory::{REQUESTS, Reserved, SMALL};
use crate::settings::Limits;
use crate::store::{NO_ORGANIZATION, Reader, Tx};

pub(crate) struct Input {
    pub(crate) app: Shared,
    /// The organization that the request is about, or [`NO_ORGANIZATION`] if it is about the server.
    pub(crate) organization: i64,
    pub(crate) parts: Parts,
    params: Vec<(String, String)>,
    /// An error of the body counts only once the handler asks for it: it follows a 404
    /// (`docs/undocumented/README.md#order-of-checks`).
    body: Result<Bytes>,
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
            organization: NO_ORGANIZATION,
            parts,
            params,
            body,
            _memory: memory,
        }
    }

    pub(crate) fn dialect(&self) -> &Dialect {
        &self.app.settings.dialect
    }

    /// Reads data of the organization.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(Reader<'_>, i64) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let organization = self.organization;
        self.app
            .store
            .read(move |reader| read(reader, organization))
            .await
    }

    /// Changes data of the organization.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&mut Tx<'_>, &Shared, i64) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let app = Arc::clone(&self.app);
        let organization = self.organization;
        self.app
            .store
            .write(move |tx| write(tx, &app, organization))
            .await
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
        read_query(self.dialect(), &self.parts.uri)
    }

    /// The raw body.
    pub(crate) fn bytes(&self) -> Result<Bytes> {
        self.body.clone()
    }

    /// The raw body of a request that does not declare it as something other than JSON.
    pub(crate) fn json_bytes(&self) -> Result<Bytes> {
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
async fn receive_all(limits: Limits, body: Body) -> Result<Received> {
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
pub(crate) fn object<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    // serde does not validate strings in fields that it skips.
    if std::str::from_utf8(bytes).is_err() {
        let message = "the body is not valid JSON: it is not UTF-8";
        return Err(Failure::new(Code::InvalidJson, message));
    }
    if Outline::of(bytes).values > MAX_VALUES {
        let message = format!("the body has more than {MAX_VALUES} values");
        return Err(Failure::new(Code::PayloadTooLarge, message)
            .with(|details| details.limit = Some(MAX_VALUES)));
    }

    // A derived `Deserialize` also accepts an array of the field values.
    let is_object = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    if is_object && let Ok(value) = serde_json::from_slice(bytes) {
        return Ok(value);
    }

    let value = check_syntax(bytes)?;
    if !is_object {
        return Err(Failure::field("", "must be an object"));
    }

    // Reads the value again, in a slower way, to find the invalid field.
    match typed::read::<T>(value, "a field of this request", &[]) {
        Ok(_) => Err(Failure::field(
            "",
            "has a field that is given more than once",
        )),
        Err(failure) => Err(failure),
    }
}

/// Maximum number of values in a JSON body: strings, numbers, lists and objects
/// (`docs/undocumented/README.md#size-limits`). Each takes more memory than text.
const MAX_VALUES: usize = 250_000;

/// Maximum number of levels: that of `serde_json`.
const MAX_JSON_LEVELS: usize = 127;

/// The facts about JSON that are known before it is parsed.
#[derive(Default)]
struct Outline {
    /// The number of what separates values.
    values: usize,
    /// How deep lists and objects are nested.
    levels: usize,
}

impl Outline {
    fn of(bytes: &[u8]) -> Self {
        let mut outline = Self::default();
        let mut level = 0_usize;
        let mut in_string = false;
        let mut escaped = false;
        for byte in bytes {
            if in_string {
                (in_string, escaped) = (escaped || *byte != b'"', !escaped && *byte == b'\\');
                continue;
            }
            match byte {
                b'"' => in_string = true,
                b',' => outline.values += 1,
                b'[' | b'{' => {
                    outline.values += 1;
                    level += 1;
                    outline.levels = outline.levels.max(level);
                }
                b']' | b'}' => level = level.saturating_sub(1),
                _ => {}
            }
        }

        outline
    }
}

/// Parses JSON, or returns 400 with the position of the syntax error.
pub(crate) fn check_syntax(bytes: &[u8]) -> Result<Value> {
    let error = match serde_json::from_slice(bytes) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let text = if bytes.is_empty() {
        "the body is empty; expected JSON".to_owned()
    } else if Outline::of(bytes).levels > MAX_JSON_LEVELS {
        format!("the body is nested too deeply; the limit is {MAX_JSON_LEVELS} levels")
    } else {
        let line = error.line();
        let column = error.column();
        format!("the body is not valid JSON: error at line {line} column {column}")
    };
    Err(Failure::new(Code::InvalidJson, text))
}

/// Maximum size of a name, in bytes.
const MAX_NAME: usize = 1_000;

/// Returns 422 if the name is missing, blank or long.
pub(crate) fn required_name(name: Option<String>) -> Result<String> {
    match name {
        None => Err(Failure::field("name", "is required")),
        Some(name) if name.trim().is_empty() => Err(Failure::field("name", "must not be empty")),
        Some(name) => {
            Failure::at_most("name", name.len(), MAX_NAME, "bytes")?;
            Ok(name)
        }
    }
}
