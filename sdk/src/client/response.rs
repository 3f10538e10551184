//! What comes back.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use super::Shared;
use super::call::Request;
use crate::answer::{Extra, Record, Unreadable, read_list, read_object};
use crate::email::{BatchResponse, WebhookTest};
use crate::extraction::{KeyScope, Me};
use crate::{Error, ErrorKind, List, Outcome, Scopes};

/// A value with the HTTP answer around it.
#[derive(Clone)]
#[non_exhaustive]
pub struct Response<T> {
    /// What the call gives.
    pub value: T,
    /// The HTTP status.
    pub status: u16,
    /// The answer's headers.
    pub headers: HeaderMap,
    /// The id that the service gave to this request, for its support.
    pub request_id: Option<String>,
    /// How many times the request was tried.
    pub attempts: u32,
    /// How long it took, all attempts and waits included.
    pub elapsed: Duration,
}

/// Shows no header's value: it may be a cookie.
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

/// A deletion that is done.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Deleted {
    /// Whether the service said 404 to a repeated try, after a first one whose
    /// answer was lost: the resource is gone, most likely by that first try.
    pub already_gone: bool,
    /// What the service answered, such as `ok`; mostly empty.
    pub extra: Extra,
}

/// The answer to a raw request.
#[derive(Clone)]
#[non_exhaustive]
pub struct RawResponse {
    /// The HTTP status, 2xx.
    pub status: u16,
    /// The answer's headers.
    pub headers: HeaderMap,
    /// The id that the service gave to this request.
    pub request_id: Option<String>,
    /// The body as it came.
    pub body: Bytes,
}

impl RawResponse {
    /// The body as a value of your own type.
    ///
    /// # Errors
    ///
    /// When it is not JSON of that type.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.body)
    }

    /// The body as text, what is not UTF-8 replaced.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }
}

/// Shows no content.
impl fmt::Debug for RawResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawResponse")
            .field("status", &self.status)
            .field("request_id", &self.request_id)
            .field("body", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// A success as it came, and what was asked.
pub(crate) struct Answer<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) request: &'a Request,
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) attempts: u32,
    pub(crate) elapsed: Duration,
    /// A 404 to a repeated deletion.
    pub(crate) already_gone: bool,
}

impl Answer<'_> {
    fn request_id(&self) -> Option<String> {
        request_id(self.shared, &self.headers)
    }

    /// The service said success: whatever is wrong with the answer, the
    /// request was processed.
    fn unreadable(&self, unreadable: Unreadable) -> Error {
        let begins_with = |text: &[u8]| self.body.trim_ascii_start().starts_with(text);
        let problem = if self.body.trim_ascii().is_empty() {
            "it is empty".to_owned()
        } else if begins_with(b"<") {
            "html, not json; check the base address".to_owned()
        } else if self.headers.contains_key(CONTENT_ENCODING) {
            "it is compressed, which was not asked for".to_owned()
        } else {
            unreadable.0
        };
        self.error(ErrorKind::InvalidResponse { problem }, Outcome::Unknown)
    }

    fn error(&self, kind: ErrorKind, outcome: Outcome) -> Error {
        let headers = self.headers.clone();
        Error::new(kind, outcome)
            .with_target(self.request.target)
            .with_attempts(self.attempts)
            .with_answer(self.status, headers, self.request_id(), self.body.clone())
    }
}

pub(crate) fn request_id(shared: &Shared, headers: &HeaderMap) -> Option<String> {
    shown_request_id(shared, headers).map(str::to_owned)
}

pub(crate) fn shown_request_id<'a>(shared: &Shared, headers: &'a HeaderMap) -> Option<&'a str> {
    let names = &shared.settings.request_id_headers;
    let ids = names.iter().filter_map(|name| headers.get(name)?.to_str().ok());
    // Errors and spans show it: what is longer is no id.
    { ids }.find(|id| id.len() <= LONGEST_ID)
}

const LONGEST_ID: usize = 256;

/// What a call can give. Nobody else implements it.
pub(crate) trait FromAnswer: Sized {
    fn from_answer(answer: &Answer<'_>) -> Result<Self, Error>;
}

impl<T: FromAnswer> FromAnswer for Response<T> {
    fn from_answer(answer: &Answer<'_>) -> Result<Self, Error> {
        Ok(Self {
            value: T::from_answer(answer)?,
            status: answer.status,
            headers: answer.headers.clone(),
            request_id: answer.request_id(),
            attempts: answer.attempts,
            elapsed: answer.elapsed,
        })
    }
}

impl FromAnswer for RawResponse {
    fn from_answer(answer: &Answer<'_>) -> Result<Self, Error> {
        Ok(Self {
            status: answer.status,
            headers: answer.headers.clone(),
            request_id: answer.request_id(),
            body: answer.body.clone(),
        })
    }
}

impl FromAnswer for Deleted {
    fn from_answer(answer: &Answer<'_>) -> Result<Self, Error> {
        // Any body is as good as none (`docs/undocumented/both-services.md#delete-bodies`).
        let extra = Extra::new(answer.body.clone(), &[]);
        Ok(Self { already_gone: answer.already_gone, extra })
    }
}

impl FromAnswer for BatchResponse {
    fn from_answer(answer: &Answer<'_>) -> Result<Self, Error> {
        Self::read(&answer.body, answer.request.expected).map_err(|bad| answer.unreadable(bad))
    }
}

impl FromAnswer for WebhookTest {
    fn from_answer(answer: &Answer<'_>) -> Result<Self, Error> {
        Self::read(&answer.body).map_err(|bad| answer.unreadable(bad))
    }
}

impl<T: Record> FromAnswer for List<T> {
    fn from_answer(answer: &Answer<'_>) -> Result<Self, Error> {
        read_list(&answer.body).map_err(|bad| answer.unreadable(bad))
    }
}

macro_rules! resources {
    ($($name:ty),+ $(,)?) => {
        $( impl FromAnswer for $name {
            fn from_answer(answer: &Answer<'_>) -> Result<Self, Error> {
                read_object(&answer.body).map_err(|bad| answer.unreadable(bad))
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

impl FromAnswer for Me {
    fn from_answer(answer: &Answer<'_>) -> Result<Self, Error> {
        let me: Self = read_object(&answer.body).map_err(|bad| answer.unreadable(bad))?;
        if let Some(scope) = me.auth.scope.as_ref().and_then(KeyScope::scope) {
            answer.shared.scopes.learn(Scopes::NONE.with(scope));
        }
        match &answer.request.organization {
            Some(expected) if *expected != me.organization.id => {
                let kind = ErrorKind::WrongOrganization {
                    expected: expected.clone(),
                    actual: me.organization.id,
                };
                Err(answer.error(kind, Outcome::Refused))
            }
            _ => Ok(me),
        }
    }
}
