//! What can happen to a call.

use std::borrow::Cow;
use std::fmt;

use crate::{Scope, Scopes};

/// What happened. Every variant says when it happens, what to do, and whether
/// the request may have been processed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// It cannot be done like this: the base address is no address, the key is
    /// empty, a certificate cannot be read, async code was to wait on its
    /// thread. Nothing was sent.
    #[error("{problem}")]
    Config {
        /// What is wrong, without secrets.
        problem: String,
    },
    /// The input breaks a documented limit or cannot be sent; the error names
    /// the field and the limit. Nothing was sent. The checks of documented
    /// limits can be turned off (`local_checks(false)`).
    #[error("{0}")]
    InvalidInput(InvalidInput),
    /// The key is missing, revoked or malformed (401). Check the key; a scope
    /// is never the reason. Not processed.
    #[error("the key was not accepted")]
    Unauthorized,
    /// The key lacks the scope that the operation needs: the service answered
    /// 403 and spoke of scope or permission, or the client, told to check
    /// scopes, refused before sending. Use a key that has it. Not processed.
    #[error("{}", MissingScope { required: *required, granted: *granted })]
    MissingScope {
        /// The scope that the operation needs: documented, or else named by the
        /// service; `None` when neither says (`emails.cancel`).
        required: Option<Scope>,
        /// What the key is known to have; `None` when that is not known.
        granted: Option<Scopes>,
    },
    /// Any other 403, such as a sender domain that is not verified: see
    /// [`code`](crate::Error::code) and [`message`](crate::Error::message).
    /// Not processed.
    #[error("refused by the service")]
    Forbidden,
    /// The service has no such resource (404, 410). Not processed.
    #[error("not found")]
    NotFound,
    /// It conflicts with what the service holds (409), such as a duplicate.
    /// Not processed.
    #[error("in conflict with what the service holds")]
    Conflict,
    /// The request's content is not acceptable (400, 422): see
    /// [`fields`](crate::Error::fields). Not processed.
    #[error("the service did not accept the request's content")]
    Invalid,
    /// The request is larger than the service takes (413). Not processed.
    #[error("larger than the service takes")]
    TooLarge,
    /// Too many requests (429), after all retries. Wait for
    /// [`retry_after`](crate::Error::retry_after). Not processed.
    #[error("too many requests")]
    RateLimited,
    /// Any other 4xx. Not processed.
    #[error("rejected by the service")]
    Rejected,
    /// The service failed (5xx). It may have processed the request: the
    /// outcome is unknown.
    #[error("the service failed")]
    Server,
    /// The service answered with a redirect, which is never followed: the key
    /// belongs to the configured address alone. Check the base address.
    #[error("redirected elsewhere, which is not followed; check the base address")]
    Redirected,
    /// No connection was made: name look-up, TCP or proxy failed. Certainly
    /// not processed.
    #[error("no connection to the service")]
    Connect,
    /// The TLS handshake failed, mostly a certificate that is not trusted.
    /// Certainly not processed.
    #[error("no secure connection to the service")]
    Tls,
    /// The connection broke after the request may have gone out. The outcome
    /// says whether it may have been processed.
    #[error("the connection to the service was lost")]
    ConnectionLost,
    /// The call's deadline passed. The outcome says whether the request may
    /// have been processed.
    #[error("the deadline passed")]
    Timeout,
    /// The answer cannot be read: it says success and is not what an answer
    /// can be, and then it was processed, or it is not even HTTP, and then the
    /// base address is likely wrong.
    #[error("the answer cannot be read: {problem}")]
    InvalidResponse {
        /// What is wrong with it, without its content.
        problem: String,
    },
    /// The answer's body is larger than the client takes (16 MiB unless set
    /// otherwise). The request may have been processed.
    #[error("the answer is larger than {limit} bytes")]
    ResponseTooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// An attachment could not be read, or changed its length while it was
    /// read; the request was broken off before its end.
    #[error("attachment {} of email {}: {problem}", .attachment + 1, .email + 1)]
    Attachment {
        /// The email's place in the batch, from 0.
        email: usize,
        /// The attachment's place in the email, from 0.
        attachment: usize,
        /// What is wrong, without the file's name or content.
        problem: &'static str,
    },
    /// A layer of the caller's own failed. The outcome says whether the
    /// request may have been processed.
    #[error("a layer around the request failed")]
    Layer,
    /// The service answered a page that it had answered before, so going on
    /// would never end. What was read until then is valid; it was a read, and
    /// nothing was changed.
    #[error("the service gave the same page again")]
    PageRepeated,
    /// The key belongs to another organization than the expected one. Use
    /// that one's key; nothing was changed.
    #[error("the key belongs to organization {actual}, not to {expected}")]
    WrongOrganization {
        /// The id that was expected.
        expected: String,
        /// The id that the service named.
        actual: String,
    },
}

impl ErrorKind {
    /// A name for logs and programs, such as `missing_scope`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Config { .. } => "config",
            Self::InvalidInput(_) => "invalid_input",
            Self::Unauthorized => "unauthorized",
            Self::MissingScope { .. } => "missing_scope",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Invalid => "invalid",
            Self::TooLarge => "too_large",
            Self::RateLimited => "rate_limited",
            Self::Rejected => "rejected",
            Self::Server => "server",
            Self::Redirected => "redirected",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::ConnectionLost => "connection_lost",
            Self::Timeout => "timeout",
            Self::InvalidResponse { .. } => "invalid_response",
            Self::ResponseTooLarge { .. } => "response_too_large",
            Self::Attachment { .. } => "attachment",
            Self::Layer => "layer",
            Self::PageRepeated => "page_repeated",
            Self::WrongOrganization { .. } => "wrong_organization",
        }
    }
}

/// What became of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The service certainly did not get it whole.
    NotSent,
    /// The service got it and refused it.
    Refused,
    /// The request may have been processed. Look before sending it again.
    Unknown,
}

impl Outcome {
    /// `not_sent`, `refused` or `unknown`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotSent => "not_sent",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A field whose value was refused before anything was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidInput {
    /// The field by the documents' name, such as `to`, `attachments[2].filename`
    /// or, in a batch, `emails[7].subject`.
    pub field: Cow<'static, str>,
    /// What is wrong with it, without its value.
    pub problem: Cow<'static, str>,
    /// The documented limit that it breaks, if it is about one.
    pub limit: Option<u64>,
    /// How many there were.
    pub actual: Option<u64>,
}

impl InvalidInput {
    /// A field that cannot be sent as it is.
    pub fn new(field: impl Into<Cow<'static, str>>, problem: impl Into<Cow<'static, str>>) -> Self {
        Self { field: field.into(), problem: problem.into(), limit: None, actual: None }
    }

    /// A field that breaks a limit; `unit` says of what, such as `recipients`.
    pub fn over(field: impl Into<Cow<'static, str>>, unit: &str, limit: u64, actual: u64) -> Self {
        Self {
            field: field.into(),
            problem: format!("{actual} {unit}, the limit is {limit}").into(),
            limit: Some(limit),
            actual: Some(actual),
        }
    }

    pub(crate) fn within(mut self, outer: &str) -> Self {
        self.field = format!("{outer}.{}", self.field).into();
        self
    }
}

impl fmt::Display for InvalidInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl std::error::Error for InvalidInput {}

struct MissingScope {
    required: Option<Scope>,
    granted: Option<Scopes>,
}

impl fmt::Display for MissingScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.required {
            Some(scope) => write!(f, "the key lacks the scope {scope}")?,
            None => f.write_str("the key lacks a scope")?,
        }
        match self.granted {
            Some(granted) => write!(f, ", it has {granted}"),
            None => Ok(()),
        }
    }
}
