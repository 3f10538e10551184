//! Reads the response after a 2xx: `Received` is the response before it is decoded, and each type that a call
//! can return implements `FromResponse`. A 2xx alone is not a success. A body that reports a
//! failure becomes `ErrorKind::Rejected`; a body that cannot be read becomes an error whose outcome
//! is unknown, because the request was processed. Fields are read in `decode.rs`, lists in
//! `list.rs`.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::de::Error as _;
use serde_json::Value;

use crate::bounds::{Reading, check_bounds};
use crate::decode::{DecodeError, Extra, Resource, parse_list, parse_value, read_object};
use crate::dialect::Dialect;
use crate::error::{Error, ErrorKind, ErrorReport, Outcome, reported_kind, request_id};
use crate::fields::{Fields, find, flag, is_nothing, plain};
use crate::list::{List, has_array, read_list};
use crate::names::debug_fields;
use crate::operation::Operation;
use crate::verdict::{
    ResultCode, is_refused, names_failure, reports_failure, result_code, says_success,
};

/// A decoded value with the HTTP response it came from. Returned by
/// [`Call::with_response`](crate::Call::with_response).
#[derive(Clone)]
#[non_exhaustive]
pub struct Response<T> {
    /// The decoded value.
    pub value: T,
    /// The HTTP status.
    pub status: StatusCode,
    /// The response's headers.
    pub headers: HeaderMap,
    /// The id that the service assigned to the request, for support inquiries.
    pub request_id: Option<String>,
    /// Number of attempts made.
    pub attempts: u32,
    /// Duration of the call, including all attempts and the pauses between them.
    pub elapsed: Duration,
}

impl<T> Response<T> {
    /// Creates a response, for example for a test: without headers, after one attempt.
    pub fn new(value: T, status: StatusCode) -> Self {
        Self {
            value,
            status,
            headers: HeaderMap::new(),
            request_id: None,
            attempts: 1,
            elapsed: Duration::ZERO,
        }
    }
}

/// Omits the headers, which may contain cookies.
impl<T: fmt::Debug> fmt::Debug for Response<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("value", &self.value)
            .field("status", &self.status)
            .field("request_id", &self.request_id)
            .field("attempts", &self.attempts)
            .field("elapsed", &self.elapsed)
            .finish_non_exhaustive()
    }
}

/// The result of a successful deletion.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Deleted {
    /// True if a retry got 404 after an earlier attempt had an unknown outcome: most likely
    /// that attempt deleted the resource.
    pub already_gone: bool,
    /// The fields of the response body, such as `ok`; usually empty.
    pub extra: Extra,
}

/// The response to a raw request. Returned by [`EmailClient::raw`](crate::EmailClient::raw)
/// and [`ExtractionClient::raw`](crate::ExtractionClient::raw).
#[derive(Clone)]
#[non_exhaustive]
pub struct RawResponse {
    /// The HTTP status, 2xx.
    pub status: StatusCode,
    /// The response's headers.
    pub headers: HeaderMap,
    /// The id that the service assigned to the request, for support inquiries.
    pub request_id: Option<String>,
    /// The body, unmodified.
    pub body: Bytes,
}

impl RawResponse {
    /// Creates a response, for example for a test, without headers.
    pub fn new(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            headers: HeaderMap::new(),
            request_id: None,
            body: body.into(),
        }
    }

    pub(super) fn received(status: StatusCode, headers: HeaderMap, body: Bytes) -> Self {
        Self {
            status,
            request_id: request_id(&headers).map(str::to_owned),
            headers,
            body,
        }
    }

    /// Decodes the body as JSON.
    ///
    /// # Errors
    ///
    /// If the body is not JSON of the type `T`, is nested deeper than 64 levels, or would take more
    /// than twelve times its size in memory.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        check_bounds(&self.body, Reading::Once).map_err(serde_json::Error::custom)?;
        serde_json::from_slice(&self.body)
    }

    /// The body as text. Invalid UTF-8 is replaced by U+FFFD.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }
}

debug_fields!(RawResponse: status, request_id);

/// A successful response, before its body is decoded.
pub(crate) struct Received {
    pub(super) response: RawResponse,
    pub(super) operation: Option<Operation>,
    /// Whether the request only read something.
    pub(super) is_read: bool,
    /// The value of the key's header in the request.
    pub(crate) api_key: HeaderValue,
    pub(super) attempts: u32,
    pub(super) elapsed: Duration,
    /// See [`Deleted::already_gone`].
    pub(super) already_gone: bool,
    pub(crate) dialect: Arc<Dialect>,
}

impl Deref for Received {
    type Target = RawResponse;

    fn deref(&self) -> &RawResponse {
        &self.response
    }
}

impl Received {
    /// The error of a body that cannot be decoded. The status was 2xx, so the request was
    /// processed.
    pub(crate) fn decode_error(&self, problem: DecodeError) -> Error {
        let problem = if self.body.trim_ascii().is_empty() {
            "the body is empty".to_owned()
        } else if self.is_html() {
            HTML.to_owned()
        } else if self.headers.contains_key(CONTENT_ENCODING) {
            "the body is compressed although the request did not allow it".to_owned()
        } else {
            problem.0
        };
        self.error(ErrorKind::InvalidResponse { problem }, Outcome::Unknown)
    }

    /// Whether the request changed something that exists.
    fn is_change(&self) -> bool {
        !self.is_read && !self.operation.is_some_and(Operation::creates)
    }

    /// Whether the body is a web page, whatever its type says.
    fn is_html(&self) -> bool {
        self.body.trim_ascii_start().starts_with(b"<")
    }

    /// Whether the body may be a text such as `ok`: not JSON that was cut, and no web page.
    pub(crate) fn may_be_text(&self) -> bool {
        let body = self.body.trim_ascii();
        !body.is_empty()
            && !body.starts_with(b"{")
            && !body.starts_with(b"[")
            && !body.starts_with(b"<")
            && std::str::from_utf8(body).is_ok()
            && !self.headers.contains_key(CONTENT_ENCODING)
    }

    /// Whether the body reports a failure in spite of the status.
    fn fails(&self) -> bool {
        matches!(parse_value(&self.body), Ok(Value::Object(fields)) if reports_failure(&fields))
    }

    /// The error of a body that reports a failure in spite of the status.
    pub(crate) fn reported_failure(&self) -> Error {
        let report = ErrorReport::read(&self.body);
        let kind = reported_kind(self.operation, &report, &self.dialect);
        self.error(kind, Outcome::Refused)
            .with(|error| error.report = report)
    }

    /// The error of a body that neither shows what was changed nor says whether it was.
    fn unclear(&self) -> Error {
        let problem = "the body does not say whether the request succeeded".to_owned();
        self.decode_error(DecodeError(problem))
    }

    /// An error with what the body says, if that is JSON.
    pub(crate) fn error(&self, kind: ErrorKind, outcome: Outcome) -> Error {
        let report = match parse_value(&self.body) {
            Ok(Value::Object(fields)) => ErrorReport::from_object(&fields),
            _ => ErrorReport::default(),
        };
        Error::new(kind, outcome)
            .with_operation(self.operation)
            .with(|error| (error.attempts, error.report) = (self.attempts, report))
            .with_response_parts(self.status, self.headers.clone(), self.body.clone())
    }

    pub(super) fn with_value<T>(&self, value: T) -> Response<T> {
        Response {
            value,
            status: self.status,
            headers: self.headers.clone(),
            request_id: self.request_id.clone(),
            attempts: self.attempts,
            elapsed: self.elapsed,
        }
    }
}

const HTML: &str = "the body is HTML, not JSON; check the base URL";

/// A type that a call returns, read from its response.
pub(crate) trait FromResponse: Sized {
    fn from_response(response: &Received) -> Result<Self, Error>;
}

impl<T: Resource> FromResponse for T {
    fn from_response(response: &Received) -> Result<Self, Error> {
        let value = match parse_value(&response.body) {
            Ok(value) => value,
            // Some services confirm a change with `ok`.
            Err(_) if response.is_change() && response.may_be_text() => Value::Null,
            Err(bad) => return Err(response.decode_error(bad)),
        };
        let fields = value.as_object();
        let is_refused = value == Value::Bool(false) || fields.is_some_and(is_refused);
        let is_failure = fields.is_some_and(reports_failure);
        // It says nothing against a change, or has a documented field, perhaps of another type.
        let is_clear = fields.is_none_or(|fields| {
            fields.values().all(is_nothing) || says_success(fields) || names_field::<T>(fields)
        });
        // `{"status": "error", "message": "…"}` has no resource with that status.
        let is_bare = is_failure && fields.is_some_and(is_bare::<T>);
        let resource: Self = read_object(value, &response.dialect);
        let is_blank = is_bare || !resource.is_identified() && resource.is_blank();
        if (is_refused && !response.is_read) || (is_failure && is_blank) {
            return Err(response.reported_failure());
        }
        if is_blank && response.is_change() && !is_clear {
            return Err(response.unclear());
        }

        // What a creation or a read responds with has at least one known field; an update, for
        // example, may have an empty response.
        if is_blank && !response.is_read && !response.is_change() {
            return Err(response.error(ErrorKind::MissingId, Outcome::Unknown));
        }
        if is_blank && response.is_read {
            let problem = format!("the body does not contain {}", Self::NOUN);
            return Err(response.decode_error(DecodeError(problem)));
        }

        Ok(resource)
    }
}

fn names_field<T: Resource>(fields: &Fields) -> bool {
    let mut names = T::FIELDS.iter();
    names.any(|name| find(fields, &[&plain(name)]).is_some())
}

/// Whether an object has nothing of the resource but perhaps a status.
fn is_bare<T: Resource>(fields: &Fields) -> bool {
    let holds_object = fields.values().any(Value::is_object);
    let mut own = T::FIELDS.iter().filter(|name| **name != "status");
    !holds_object && own.all(|name| find(fields, &[&plain(name)]).is_none())
}

impl FromResponse for RawResponse {
    fn from_response(response: &Received) -> Result<Self, Error> {
        Ok(response.response.clone())
    }
}

impl FromResponse for Deleted {
    fn from_response(response: &Received) -> Result<Self, Error> {
        // The body of a deletion is not documented. A page of a proxy or a report of a failure
        // is not the response to a successful one.
        if response.is_html() {
            return Err(response.decode_error(DecodeError(HTML.to_owned())));
        }

        let mut extra = Extra::default();
        match parse_value(&response.body) {
            Ok(Value::Object(fields)) => {
                let deleted = find(&fields, &["deleted"]).map(|(_, value)| flag(value));
                if reports_failure(&fields) || deleted == Some(Some(false)) {
                    return Err(response.reported_failure());
                }
                if result_code(&fields) == Some(ResultCode::Unclear) && deleted.is_none() {
                    return Err(response.unclear());
                }
                extra = Extra(fields);
            }
            Ok(Value::Bool(false)) => return Err(response.reported_failure()),
            Err(bad) if response.body.trim_ascii().starts_with(b"{") => {
                return Err(response.decode_error(bad));
            }
            _ => {}
        }

        Ok(Self {
            already_gone: response.already_gone,
            extra,
        })
    }
}

impl<T: Resource> FromResponse for List<T> {
    fn from_response(response: &Received) -> Result<Self, Error> {
        let body = parse_list(&response.body).map_err(|bad| response.decode_error(bad))?;
        // `{"code": 10404, "msg": "…", "data": null}` is no empty list.
        let code = body.as_object().and_then(result_code);
        let has_items = has_array(&body);
        let list = match read_list(body, &response.headers, &response.dialect) {
            Ok(list) => list,
            Err(_) if response.fails() => return Err(response.reported_failure()),
            Err(bad) => return Err(response.decode_error(bad)),
        };

        match code {
            _ if names_failure(&list.extra) => Err(response.reported_failure()),
            Some(ResultCode::Failure) => Err(response.reported_failure()),
            Some(ResultCode::Unclear) if !has_items => Err(response.unclear()),
            _ => Ok(list),
        }
    }
}
