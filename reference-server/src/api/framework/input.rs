//! [`Input`]: the path parameters, query, headers and body of a request. The body is
//! read on demand, with limits on its size and duration.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use http::HeaderValue;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tower_http::timeout::{TimeoutBody, TimeoutError};

use crate::app::Shared;
use crate::model::error::{ApiError, Code};
use crate::runtime::memory::{REQUESTS, Reserved};
use crate::store::request_log::BodyRecorder;

pub(crate) struct Input {
    pub(crate) app: Shared,
    pub(crate) parts: Parts,
    params: Vec<(String, String)>,
    /// `Body` is not `Sync`; the mutex makes `Input` so. It is never locked.
    body: Mutex<Body>,
    /// Kept until the request is handled.
    memory: Reserved,
}

impl Input {
    pub(crate) fn new(
        app: Shared,
        parts: Parts,
        params: Vec<(String, String)>,
        body: Body,
    ) -> Self {
        Self { app, parts, params, body: Mutex::new(body), memory: None }
    }

    /// A path parameter, decoded.
    pub(crate) fn param(&self, name: &str) -> &str {
        let found = self.params.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    /// The first path parameter, which is the ID of the resource.
    pub(crate) fn id(&self) -> &str {
        self.params.first().map_or("", |(_, value)| value)
    }

    /// The value of a header, if it is valid text.
    pub(crate) fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.parts.headers.get(name)?.to_str().ok()
    }

    /// The query parameters. For a repeated parameter, the last value wins.
    pub(crate) fn query(&self) -> HashMap<String, String> {
        let query = self.parts.uri.query().unwrap_or_default();
        url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()
    }

    /// Reads the raw body and checks that the request declares it as JSON.
    pub(crate) async fn json_bytes(&mut self) -> Result<Bytes, ApiError> {
        let bytes = self.bytes().await?;
        self.expect_json()?;
        Ok(bytes)
    }

    /// Reads the raw body.
    pub(crate) async fn bytes(&mut self) -> Result<Bytes, ApiError> {
        let limits = self.app.settings.limits;
        let too_large = || {
            let text = format!("the body is larger than {} bytes", limits.max_body_bytes);
            ApiError::new(Code::PayloadTooLarge, text)
                .with(|details| details.limit = Some(limits.max_body_bytes))
        };
        let late = || ApiError::new(Code::RequestTimeout, "the body did not arrive in time");
        let body = std::mem::take(self.body.get_mut().unwrap_or_else(PoisonError::into_inner));
        // The size of a chunked body is not known.
        let size = body.size_hint().upper().and_then(|size| usize::try_from(size).ok());
        if size.is_some_and(|size| size > limits.max_body_bytes) {
            return Err(too_large());
        }
        self.memory = REQUESTS.reserve(size.unwrap_or(limits.max_body_bytes)).await;
        let body = Limited::new(body, limits.max_body_bytes);
        let body = Box::pin(TimeoutBody::new(limits.body_idle_timeout, body)).collect();
        let body = match timeout(limits.body_timeout, body).await.map_err(|_| late())? {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => return Err(too_large()),
            Err(error) if error.is::<TimeoutError>() => return Err(late()),
            Err(_) => {
                let message = "the body is shorter than announced";
                return Err(ApiError::new(Code::InvalidRequest, message));
            }
        };
        if let Some(recorder) = self.parts.extensions.get::<BodyRecorder>() {
            recorder.record(&body);
        }
        Ok(body)
    }

    /// Returns 415 if the request declares its body as something other than JSON.
    pub(super) fn expect_json(&self) -> Result<(), ApiError> {
        let unsupported = |what| Err(ApiError::new(Code::UnsupportedMediaType, what));
        let headers = &self.parts.headers;
        if headers.get_all(CONTENT_ENCODING).iter().any(|encoding| encoding != "identity") {
            return unsupported("compressed bodies are not supported");
        }
        if headers.get_all(CONTENT_TYPE).iter().all(is_json) {
            return Ok(());
        }
        unsupported("the body must be JSON; send `Content-Type: application/json`")
    }
}

fn is_json(content_type: &HeaderValue) -> bool {
    let content_type = content_type.to_str().unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

/// Parses a JSON object. Returns 400 for invalid JSON and 422 for an invalid field.
pub(crate) fn object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let is_object = check_text(bytes)?;
    if is_object && let Ok(value) = serde_json::from_slice(bytes) {
        return Ok(value);
    }
    check_syntax(bytes, is_object)?;
    // Parses the body again, in a slower way that tracks the path, to find the invalid field.
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Ok(_) => Err(ApiError::field("", "is invalid")),
        Err(error) => Err(invalid_field(error.path().to_string(), &error.into_inner())),
    }
}

/// Checks what needs no parser. Returns whether the body can be an object.
fn check_text(bytes: &[u8]) -> Result<bool, ApiError> {
    // serde does not validate strings in fields that it skips.
    if std::str::from_utf8(bytes).is_err() {
        return Err(ApiError::new(
            Code::InvalidJson,
            "the body is not valid JSON: it is not UTF-8",
        ));
    }
    if has_too_many_values(bytes) {
        let message = format!("the body has more than {MAX_VALUES} values");
        return Err(ApiError::new(Code::PayloadTooLarge, message)
            .with(|details| details.limit = Some(MAX_VALUES)));
    }
    // A derived `Deserialize` also accepts an array of the field values.
    Ok(bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{'))
}

fn check_syntax(bytes: &[u8], is_object: bool) -> Result<(), ApiError> {
    if let Err(error) = serde_json::from_slice::<serde_json::Value>(bytes) {
        return Err(not_json(bytes, &error));
    }
    if !is_object {
        return Err(ApiError::field("", "must be an object"));
    }
    Ok(())
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

/// 400 with the position of the syntax error.
pub(crate) fn not_json(bytes: &[u8], error: &serde_json::Error) -> ApiError {
    let text = if bytes.is_empty() {
        "the body is empty; expected JSON".to_owned()
    } else if error.to_string().starts_with("recursion limit exceeded") {
        "the body is nested too deeply; the limit is 127 levels".to_owned()
    } else {
        format!(
            "the body is not valid JSON: error at line {} column {}",
            error.line(),
            error.column()
        )
    };
    ApiError::new(Code::InvalidJson, text)
}

/// 422 for the field at this path.
fn invalid_field(path: String, error: &serde_json::Error) -> ApiError {
    let path = if path == "." { String::new() } else { path };
    let text = error.to_string();
    let quoted = |text: &str| text.split('`').nth(1).map(str::to_owned);
    if text.starts_with("missing field") {
        let name = quoted(&text).unwrap_or_default();
        let field = if path.is_empty() { name } else { format!("{path}.{name}") };
        return ApiError::field(field, "is required");
    }
    if text.starts_with("unknown field") {
        let name = quoted(&text).unwrap_or_default();
        // The name is the client's; repeat it only if it can be a field's name.
        let field = if is_name(&name) { name } else { path };
        let known = expected(&text).unwrap_or_default();
        let known = known.trim_start_matches("one of ");
        return ApiError::field(field, format!("is not a field of this request; it has {known}"));
    }
    if text.starts_with("duplicate field") {
        return ApiError::field(quoted(&text).unwrap_or(path), "is given more than once");
    }
    let expected = expected(&text).unwrap_or_else(|| "of another type".to_owned());
    let expected = match expected.as_str() {
        "a map" => "an object",
        "a sequence" => "a list",
        "i64" => "an integer",
        other => other,
    };
    ApiError::field(path, format!("must be {expected}"))
}

/// What serde expected, from the text of its error. What precedes it quotes the value, which is user
/// content.
pub(crate) fn expected(error: &str) -> Option<String> {
    let (_, expected) = error.rsplit_once("expected ")?;
    Some(expected.split(" at line ").next()?.replace('`', ""))
}

/// Whether a text can be the name of a field or of a query parameter.
pub(super) fn is_name(text: &str) -> bool {
    text.len() <= 40 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
