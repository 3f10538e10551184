//! The one error of this crate.

mod kind;
mod report;

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;

pub use kind::{ErrorKind, InvalidInput, Outcome};
pub(crate) use report::ErrorReport;
pub use report::FieldProblem;

use crate::{Operation, Scope, ScopeRule};

/// Why a call did not give its answer, and whether it may have been processed.
///
/// `Display` and `Debug` name the operation, the status, the service's error
/// code, the request id and the scope; they never hold a secret or content.
/// The service's own words may repeat what was sent to it, so they are kept
/// apart: [`message`](Self::message), [`fields`](Self::fields),
/// [`body`](Self::body).
///
/// ```
/// # #[cfg(feature = "client")]
/// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
/// use svc_sdk::{ErrorKind, Outcome};
///
/// match client.emails().get("eml_1").await {
///     Ok(email) => println!("{:?}", email.status),
///     Err(error) if error.is_not_found() => println!("no such email"),
///     Err(error) => {
///         if let ErrorKind::MissingScope { required, .. } = error.kind() {
///             println!("the key needs {required:?}");
///         }
///         if error.outcome() == Outcome::Unknown {
///             println!("it may have been processed");
///         }
///         return Err(error);
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct Error(Box<Inner>);

pub(crate) type Cause = Box<dyn StdError + Send + Sync>;

struct Inner {
    kind: ErrorKind,
    outcome: Outcome,
    target: Option<Target>,
    status: Option<u16>,
    report: ErrorReport,
    request_id: Option<String>,
    retry_after: Option<Duration>,
    attempts: u32,
    headers: HeaderMap,
    body: Bytes,
    source: Option<Cause>,
    /// Repeating the call does no harm.
    harmless: bool,
}

/// What was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Operation(Operation),
    /// A raw request whose method and path the documents do not show.
    Raw,
}

impl Target {
    pub(crate) fn operation(self) -> Option<Operation> {
        match self {
            Self::Operation(operation) => Some(operation),
            Self::Raw => None,
        }
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, outcome: Outcome) -> Self {
        Self(Box::new(Inner {
            kind,
            outcome,
            target: None,
            status: None,
            report: ErrorReport::default(),
            request_id: None,
            retry_after: None,
            attempts: 0,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            source: None,
            harmless: false,
        }))
    }

    /// What happened, in one word, for a `match`.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Whether the request may have been processed.
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// The documented operation that was called; `None` for a raw request that
    /// the documents do not show, and for a client that could not be built.
    pub fn operation(&self) -> Option<Operation> {
        self.0.target.and_then(Target::operation)
    }

    /// The scope that the documents name for the operation.
    pub fn required_scope(&self) -> Option<Scope> {
        self.operation().and_then(Operation::required_scope)
    }

    /// The answer's HTTP status, where there was an answer.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// The service's error code, such as `domain_not_verified`.
    pub fn code(&self) -> Option<&str> {
        self.0.report.code.as_deref()
    }

    /// The service's own words. They may repeat what was sent: show them to
    /// the user, keep them out of logs.
    pub fn message(&self) -> Option<&str> {
        self.0.report.message.as_deref()
    }

    /// What the service said about single fields of the request.
    pub fn fields(&self) -> &[FieldProblem] {
        &self.0.report.fields
    }

    /// The id that the service gave to this request, for its support.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// How long the service asked to wait (`Retry-After`).
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// How many times the request was tried; 0 when it was refused locally.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// The answer's headers; empty where there was no answer.
    pub fn headers(&self) -> &HeaderMap {
        &self.0.headers
    }

    /// The first 64 KiB of the answer's body, as they came.
    pub fn body(&self) -> &[u8] {
        &self.0.body
    }

    /// Whether the same call, made again later, may well succeed and does no
    /// harm: it was not processed, or repeating the operation is harmless.
    pub fn is_retryable(&self) -> bool {
        let passing = match &self.0.kind {
            ErrorKind::RateLimited
            | ErrorKind::Connect
            | ErrorKind::ConnectionLost
            | ErrorKind::Timeout => true,
            ErrorKind::Server => !matches!(self.0.status, Some(501 | 505)),
            ErrorKind::Rejected => matches!(self.0.status, Some(408 | 425)),
            _ => false,
        };
        passing && (self.0.harmless || self.0.outcome != Outcome::Unknown)
    }

    /// The service has no such resource (404).
    pub fn is_not_found(&self) -> bool {
        matches!(self.0.kind, ErrorKind::NotFound)
    }

    /// The key was missing or not accepted (401).
    pub fn is_unauthorized(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Unauthorized)
    }

    /// The key lacks the scope that the operation needs.
    pub fn is_missing_scope(&self) -> bool {
        matches!(self.0.kind, ErrorKind::MissingScope { .. })
    }

    /// Too many requests (429), after all retries.
    pub fn is_rate_limited(&self) -> bool {
        matches!(self.0.kind, ErrorKind::RateLimited)
    }

    /// The deadline passed.
    pub fn is_timeout(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Timeout)
    }

    /// No connection was made; the request was certainly not sent.
    pub fn is_connect(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Connect | ErrorKind::Tls)
    }

    /// The request was refused before anything was sent.
    pub fn is_invalid_input(&self) -> bool {
        matches!(self.0.kind, ErrorKind::InvalidInput { .. })
    }
}

#[cfg(feature = "client")]
impl Error {
    pub(crate) fn config(problem: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config { problem: problem.into() }, Outcome::NotSent)
    }

    pub(crate) fn with_target(mut self, target: Target) -> Self {
        self.0.target = Some(target);
        self.0.harmless = target.operation().is_some_and(Operation::is_idempotent);
        self
    }

    /// Where the caller knows better about a raw request.
    pub(crate) fn with_harmless(mut self, harmless: bool) -> Self {
        self.0.harmless = harmless;
        self
    }

    pub(crate) fn with_source(mut self, source: impl Into<Cause>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    pub(crate) fn with_attempts(mut self, attempts: u32) -> Self {
        self.0.attempts = attempts;
        self
    }

    pub(crate) fn with_retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.0.retry_after = retry_after;
        self
    }

    /// An attempt before this one may have been processed, so the call may
    /// have been.
    pub(crate) fn after(mut self, may_be_done: bool) -> Self {
        if may_be_done {
            self.0.outcome = Outcome::Unknown;
        }
        self
    }

    pub(crate) fn with_report(mut self, report: ErrorReport) -> Self {
        self.0.report = report;
        self
    }

    pub(crate) fn with_answer(
        mut self,
        status: u16,
        headers: HeaderMap,
        request_id: Option<String>,
        mut body: Bytes,
    ) -> Self {
        if body.len() > KEPT_BODY {
            // A part of it would keep all of it in memory.
            body = Bytes::copy_from_slice(&body[..KEPT_BODY]);
        }
        self.0.status = Some(status);
        self.0.headers = headers;
        self.0.request_id = request_id;
        self.0.body = body;
        self
    }
}

impl From<InvalidInput> for Error {
    fn from(invalid: InvalidInput) -> Self {
        Self::new(ErrorKind::InvalidInput(invalid), Outcome::NotSent)
    }
}

/// How much of an answer's body an error keeps.
#[cfg(feature = "client")]
const KEPT_BODY: usize = 64 * 1024;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.target {
            Some(Target::Operation(operation)) => write!(f, "{operation}: ")?,
            Some(Target::Raw) => f.write_str("raw request: ")?,
            None => {}
        }
        write!(f, "{}", self.0.kind)?;
        if let Some(status) = self.0.status {
            write!(f, " (http {status}")?;
            if let Some(code) = self.0.report.shown_code() {
                write!(f, ", {code}")?;
            }
            f.write_str(")")?;
        }
        match (&self.0.kind, self.operation().map(Operation::scope_rule)) {
            (ErrorKind::Forbidden, Some(ScopeRule::Needs(scope))) => {
                write!(f, "; the operation needs the scope {scope}")?;
            }
            (
                ErrorKind::Forbidden | ErrorKind::MissingScope { required: None, .. },
                Some(ScopeRule::NotDocumented),
            ) => f.write_str(
                "; which scope the operation needs is not documented, \
                 the service's message is the best hint",
            )?,
            _ => {}
        }
        if let Some(id) = &self.0.request_id {
            write!(f, "; request id {id}")?;
        }
        if self.0.attempts > 1 {
            write!(f, "; after {} attempts", self.0.attempts)?;
        }
        if self.0.outcome == Outcome::Unknown && !self.0.harmless {
            f.write_str("; it may have been processed")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("outcome", &self.0.outcome)
            .field("operation", &self.operation())
            .field("status", &self.0.status)
            .field("code", &self.0.report.shown_code())
            .field("request_id", &self.0.request_id)
            .field("retry_after", &self.0.retry_after)
            .field("attempts", &self.0.attempts)
            .field("source", &self.0.source)
            .finish_non_exhaustive()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(all(test, feature = "client"))]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_no_more_in_memory_than_it_shows() {
        for (length, is_kept) in [(KEPT_BODY, true), (KEPT_BODY + 1, false)] {
            let body = Bytes::from(vec![b'x'; length]);
            let error = Error::new(ErrorKind::Invalid, Outcome::Refused);
            let error = error.with_answer(422, HeaderMap::new(), None, body.clone());
            assert_eq!(error.body().len(), KEPT_BODY);
            assert_eq!(body.is_unique(), !is_kept);
        }
    }
}
