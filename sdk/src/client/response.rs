//! Responses: the public types, and how each return type is decoded.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, StatusCode};

use super::Shared;
use super::call::Request;
use crate::decode::{DecodeError, Extra, Record, read_list, read_object};
use crate::email::{BatchResponse, WebhookTest};
use crate::extraction::{KeyScope, Me};
use crate::{Error, ErrorKind, List, Outcome, Scopes};

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
#[derive(Clone, Debug, PartialEq)]
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
    /// Decodes the body as JSON.
    ///
    /// # Errors
    ///
    /// If the body is not JSON of the type `T`.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.body)
    }

    /// The body as text. Invalid UTF-8 is replaced by U+FFFD.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }
}

/// Omits the content.
impl fmt::Debug for RawResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawResponse")
            .field("status", &self.status)
            .field("request_id", &self.request_id)
            .field("body", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// A successful response with the request that it answers.
pub(crate) struct ResponseParts<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) request: &'a Request,
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) attempts: u32,
    pub(crate) elapsed: Duration,
    /// See [`Deleted::already_gone`].
    pub(crate) already_gone: bool,
}

impl ResponseParts<'_> {
    fn status(&self) -> StatusCode {
        // Only a 2xx status gets here.
        StatusCode::from_u16(self.status).unwrap_or_default()
    }

    fn request_id(&self) -> Option<String> {
        request_id(self.shared, &self.headers)
    }

    /// The error of a body that cannot be decoded. The status was 2xx, so the request was
    /// processed.
    fn decode_error(&self, problem: DecodeError) -> Error {
        let begins_with = |text: &[u8]| self.body.trim_ascii_start().starts_with(text);
        let problem = if self.body.trim_ascii().is_empty() {
            "the body is empty".to_owned()
        } else if begins_with(b"<") {
            "the body is HTML, not JSON; check the base URL".to_owned()
        } else if self.headers.contains_key(CONTENT_ENCODING) {
            "the body is compressed although the request did not allow it".to_owned()
        } else {
            problem.0
        };
        self.error(ErrorKind::InvalidResponse { problem }, Outcome::Unknown)
    }

    fn error(&self, kind: ErrorKind, outcome: Outcome) -> Error {
        let headers = self.headers.clone();
        Error::new(kind, outcome)
            .with_target(self.request.target)
            .with_attempts(self.attempts)
            .with_response_parts(self.status, headers, self.request_id(), self.body.clone())
    }
}

pub(crate) fn request_id(shared: &Shared, headers: &HeaderMap) -> Option<String> {
    request_id_str(shared, headers).map(str::to_owned)
}

pub(crate) fn request_id_str<'a>(shared: &Shared, headers: &'a HeaderMap) -> Option<&'a str> {
    let names = &shared.settings.request_id_headers;
    let ids = names.iter().filter_map(|name| headers.get(name)?.to_str().ok());
    // A request id is shown in errors and spans. Longer values are not ids.
    { ids }.find(|id| id.len() <= MAX_REQUEST_ID_LEN)
}

const MAX_REQUEST_ID_LEN: usize = 256;

/// Types that a call can return. This trait is private, so the set is closed.
pub(crate) trait FromResponse: Sized {
    fn from_response(response: &ResponseParts<'_>) -> Result<Self, Error>;
}

impl<T: FromResponse> FromResponse for Response<T> {
    fn from_response(response: &ResponseParts<'_>) -> Result<Self, Error> {
        Ok(Self {
            value: T::from_response(response)?,
            status: response.status(),
            headers: response.headers.clone(),
            request_id: response.request_id(),
            attempts: response.attempts,
            elapsed: response.elapsed,
        })
    }
}

impl FromResponse for RawResponse {
    fn from_response(response: &ResponseParts<'_>) -> Result<Self, Error> {
        Ok(Self {
            status: response.status(),
            headers: response.headers.clone(),
            request_id: response.request_id(),
            body: response.body.clone(),
        })
    }
}

impl FromResponse for Deleted {
    fn from_response(response: &ResponseParts<'_>) -> Result<Self, Error> {
        // The body of a deletion is not documented
        // (`docs/undocumented/both-services.md#delete-bodies`).
        let extra = Extra::new(response.body.clone(), &[]);
        Ok(Self { already_gone: response.already_gone, extra })
    }
}

impl FromResponse for BatchResponse {
    fn from_response(response: &ResponseParts<'_>) -> Result<Self, Error> {
        Self::read(&response.body, response.request.batch_size)
            .map_err(|bad| response.decode_error(bad))
    }
}

impl FromResponse for WebhookTest {
    fn from_response(response: &ResponseParts<'_>) -> Result<Self, Error> {
        Self::read(&response.body).map_err(|bad| response.decode_error(bad))
    }
}

impl<T: Record> FromResponse for List<T> {
    fn from_response(response: &ResponseParts<'_>) -> Result<Self, Error> {
        read_list(&response.body).map_err(|bad| response.decode_error(bad))
    }
}

macro_rules! resources {
    ($($name:ty),+ $(,)?) => {
        $( impl FromResponse for $name {
            fn from_response(response: &ResponseParts<'_>) -> Result<Self, Error> {
                read_object(&response.body).map_err(|bad| response.decode_error(bad))
            }
        } )+
    };
}

resources!(
    crate::email::EmailRecord,
    crate::email::Audience,
    crate::email::Contact,
    crate::email::Domain,
    crate::email::Verification,
    crate::email::Webhook,
    crate::extraction::Webhook,
);

impl FromResponse for Me {
    fn from_response(response: &ResponseParts<'_>) -> Result<Self, Error> {
        let me: Self = read_object(&response.body).map_err(|bad| response.decode_error(bad))?;
        if let Some(scope) = me.auth.scope.as_ref().and_then(KeyScope::scope) {
            response.shared.scopes.learn(Scopes::NONE.with(scope));
        }
        match &response.request.organization {
            Some(expected) if *expected != me.organization.id => {
                let kind = ErrorKind::WrongOrganization {
                    expected: expected.clone(),
                    actual: me.organization.id,
                };
                Err(response.error(kind, Outcome::Refused))
            }
            _ => Ok(me),
        }
    }
}
