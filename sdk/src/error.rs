//! `Error`, the only error type of this crate: what went wrong (`ErrorKind`), whether the service
//! may have processed the request (`Outcome`), and what the response said (`ErrorReport`).
//! `Display` and `Debug` contain no API key and nothing of the content of a request or response;
//! the service's own text has accessors. The errors of responses are made in `error/response.rs`,
//! those of connections in `engine/attempt.rs`. One file, because it is one type with its methods.

mod kind;
mod limits;
mod report;
mod response;

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode};

pub use kind::{ErrorKind, InvalidInput, Outcome};
pub(crate) use report::ErrorReport;
pub use report::FieldProblem;
pub(crate) use response::{reported_kind, response_error};

use crate::operation::{Operation, ScopeRule};
use crate::scope::Scope;

/// The error of every fallible operation of this crate.
///
/// It answers three questions:
///
/// - What went wrong? [`kind`](Self::kind) for a `match`, or a predicate such as
///   [`is_not_found`](Self::is_not_found).
/// - May the service have processed the request? [`outcome`](Self::outcome).
/// - Is it safe and sensible to repeat the call? [`is_retryable`](Self::is_retryable). The
///   client has already retried what it safely can, see [`attempts`](Self::attempts).
///
/// For the details of a response, see [`status`](Self::status), [`code`](Self::code),
/// [`message`](Self::message), [`fields`](Self::fields) and
/// [`request_id`](Self::request_id).
///
/// `Display` and `Debug` contain the operation, the HTTP status, the service's error code,
/// the names of invalid fields, the request id and the required scope. They never contain an
/// API key or the content of a request or response, so they are safe to log. The service's own message may quote the
/// request. It is therefore only available through [`message`](Self::message),
/// [`fields`](Self::fields) and [`body`](Self::body).
///
/// Cloning is cheap. The guide
/// <https://github.com/svc-tools/svc/blob/main/docs/guides/errors-and-retries.md> shows common
/// ways to handle errors.
///
/// ```
/// #
/// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
/// use svc_sdk::{ErrorKind, Outcome};
///
/// match client.emails().get("eml_1").await {
///     Ok(email) => println!("{:?}", email.status),
///     Err(error) if error.is_not_found() => println!("no such email"),
///     Err(error) => {
///         if let ErrorKind::MissingScope { required: Some(scope), .. } = error.kind() {
///             eprintln!("use a key with the scope {scope}");
///         }
///         if error.outcome() == Outcome::Unknown {
///             eprintln!("the request may have been processed");
///         }
///         return Err(error);
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

pub(crate) type Cause = Box<dyn StdError + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Inner {
    pub(crate) kind: ErrorKind,
    pub(crate) outcome: Outcome,
    pub(crate) operation: Option<Operation>,
    pub(crate) status: Option<StatusCode>,
    pub(crate) report: ErrorReport,
    pub(crate) request_id: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) attempts: u32,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) source: Option<Arc<dyn StdError + Send + Sync>>,
    pub(crate) idempotent: bool,
    /// Whether the call is idempotent, or has an idempotency key that the service honors.
    pub(crate) retry_safe: bool,
    /// Whether the pause that the service asked for is too long for this call, so nothing was sent.
    pub(crate) held_back: bool,
}

impl Error {
    /// Creates an error, for example to test how a program handles it. For the error of a
    /// response, see [`from_response`](Self::from_response).
    ///
    /// ```
    /// use svc_sdk::{Error, ErrorKind, Outcome};
    ///
    /// let error = Error::new(ErrorKind::Timeout, Outcome::Unknown);
    /// assert!(error.is_timeout());
    /// ```
    pub fn new(kind: ErrorKind, outcome: Outcome) -> Self {
        let mut report = ErrorReport::default();
        if let ErrorKind::InvalidInput(invalid) | ErrorKind::RecipientGuard(invalid) = &kind {
            report.fields.push(FieldProblem::from(invalid));
        }
        Self(Arc::new(Inner {
            kind,
            outcome,
            operation: None,
            status: None,
            report,
            request_id: None,
            retry_after: None,
            attempts: 0,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            source: None,
            idempotent: false,
            retry_safe: false,
            held_back: false,
        }))
    }

    /// Sets the operation that failed. `None` stands for a raw request that matches no documented
    /// operation.
    #[must_use]
    pub fn with_operation(self, operation: impl Into<Option<Operation>>) -> Self {
        let operation = operation.into();
        let idempotent = operation.is_some_and(Operation::is_idempotent);
        self.with(|inner| {
            inner.operation = operation;
            (inner.idempotent, inner.retry_safe) = (idempotent, idempotent);
        })
    }

    /// The cause of the error.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Whether the service may have processed the request.
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// The operation that was called. `None` for a raw request that matches no documented
    /// operation, and if the client could not be built.
    pub fn operation(&self) -> Option<Operation> {
        self.0.operation
    }

    /// The scope that the operation requires according to the service's reference. `None` if there is none or it is not documented.
    pub fn required_scope(&self) -> Option<Scope> {
        self.operation().and_then(Operation::required_scope)
    }

    /// The HTTP status of the response. `None` if there was no response.
    pub fn status(&self) -> Option<StatusCode> {
        self.0.status
    }

    /// The service's error code, such as `domain_not_verified`, if the response contains
    /// one.
    pub fn code(&self) -> Option<&str> {
        self.0.report.code.as_deref()
    }

    /// The service's error message, if the response contains one. It may quote the request:
    /// show it to the user, but keep it out of logs.
    pub fn message(&self) -> Option<&str> {
        self.0.report.message.as_deref()
    }

    /// The problems of individual fields of the request, reported by the service or, for
    /// [`InvalidInput`](ErrorKind::InvalidInput) and
    /// [`RecipientGuard`](ErrorKind::RecipientGuard), by this client. Their names are those of the
    /// reporter: this client says `to[0]`, in a batch `emails[0].to[0]`, a service perhaps `to` or
    /// `/to/0`.
    pub fn fields(&self) -> &[FieldProblem] {
        &self.0.report.fields
    }

    /// The id that the service assigned to the request, for support inquiries.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// How long the service asked to wait before a retry (`Retry-After`).
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Number of attempts made; 0 if the client rejected the call before sending.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// The headers of the response; empty if there was no response.
    pub fn headers(&self) -> &HeaderMap {
        &self.0.headers
    }

    /// The first 64 KiB of the response body, unmodified.
    pub fn body(&self) -> &[u8] {
        &self.0.body
    }

    /// Whether repeating the same call later may succeed and cannot have an effect twice.
    ///
    /// True for transient failures (rate limit, connection, timeout, most server errors) if
    /// the request was not processed, the operation is
    /// [idempotent](Operation::is_idempotent), or the call had an idempotency key that the
    /// service [honors](crate::ClientBuilder::service_honors_idempotency_key) and is repeated
    /// with the same key.
    pub fn is_retryable(&self) -> bool {
        self.is_transient() && (self.0.retry_safe || self.0.outcome != Outcome::Unknown)
    }
}

/// Defines predicates, each true for these kinds.
macro_rules! predicates {
    ($( $(#[$meta:meta])* $name:ident: $($kind:ident)|+; )+) => {
        impl Error {
            $(
                $(#[$meta])*
                pub fn $name(&self) -> bool {
                    matches!(self.0.kind, $(ErrorKind::$kind { .. })|+)
                }
            )+
        }
    };
}

predicates! {
    /// True if the resource does not exist (HTTP 404 or 410).
    is_not_found: NotFound;
    /// True if the service did not accept the API key (HTTP 401).
    is_unauthorized: Unauthorized;
    /// True if the API key lacks the scope that the operation requires.
    is_missing_scope: MissingScope;
    /// True if the service limited the request rate (HTTP 429) and the retries or the
    /// deadline were used up.
    is_rate_limited: RateLimited;
    /// True if the deadline passed.
    is_timeout: Timeout;
    /// True if no connection was established, TLS and proxy included. The last attempt was not
    /// sent.
    is_connect: Connect | Tls | Proxy;
    /// True if the request conflicts with existing data (HTTP 409).
    is_conflict: Conflict;
    /// True if the service failed (HTTP 5xx).
    is_server_error: Server;
    /// True if a list has more items than the client could get.
    is_incomplete_list: IncompleteList | PageRepeated;
    /// True if the client rejected a parameter before sending.
    is_invalid_input: InvalidInput;
}

impl Error {
    /// Whether the same request may succeed the next time.
    pub(crate) fn is_transient(&self) -> bool {
        match (&self.0.kind, self.0.status) {
            (
                ErrorKind::RateLimited
                | ErrorKind::Connect
                | ErrorKind::ConnectionLost
                | ErrorKind::Timeout,
                _,
            ) => true,
            // Not with 407: it demands credentials.
            (ErrorKind::Proxy, status) => status.is_none(),
            (ErrorKind::Server, status) => status != Some(StatusCode::NOT_IMPLEMENTED),
            (ErrorKind::Rejected, status) => matches!(
                status,
                Some(StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY)
            ),
            _ => false,
        }
    }

    pub(crate) fn config(problem: impl Into<String>) -> Self {
        Self::new(ErrorKind::config(problem), Outcome::NotSent)
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    pub(crate) fn with_source(self, source: impl Into<Cause>) -> Self {
        self.with(|inner| inner.source = Some(Arc::from(source.into())))
    }

    pub(crate) fn with_response_parts(
        self,
        status: StatusCode,
        headers: HeaderMap,
        mut body: Bytes,
    ) -> Self {
        if body.len() > KEPT_BODY {
            // A slice would keep the whole response in memory.
            body = Bytes::copy_from_slice(&body[..KEPT_BODY]);
        }
        self.with(|inner| {
            inner.status = Some(status);
            inner.request_id = request_id(&headers).map(str::to_owned);
            inner.headers = headers;
            inner.body = body;
        })
    }
}

impl From<InvalidInput> for Error {
    fn from(invalid: InvalidInput) -> Self {
        Self::new(ErrorKind::InvalidInput(invalid), Outcome::NotSent)
    }
}

/// The id that the service assigned to a request, from the first of the usual headers.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<&str> {
    let mut ids = REQUEST_ID_HEADERS
        .iter()
        .filter_map(|name| headers.get(name)?.to_str().ok());
    // A request id is shown in errors and spans. Longer values are not ids.
    ids.find(|id| id.len() <= MAX_REQUEST_ID_LEN)
}

static REQUEST_ID_HEADERS: [HeaderName; 4] = [
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("request-id"),
    HeaderName::from_static("x-amzn-requestid"),
    HeaderName::from_static("cf-ray"),
];

const MAX_REQUEST_ID_LEN: usize = 256;

/// Size of the response body that an error keeps.
const KEPT_BODY: usize = 64 * 1024;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(operation) = self.0.operation {
            write!(f, "{operation}: ")?;
        }
        write!(f, "{}", self.0.kind)?;
        if let Some(status) = self.0.status {
            write!(f, " (HTTP {}", status.as_u16())?;
            if let Some(code) = self.0.report.shown_code() {
                write!(f, ", {code}")?;
            }
            f.write_str(")")?;
        }

        let mut fields: Vec<&str> = self
            .fields()
            .iter()
            .filter_map(FieldProblem::shown)
            .collect();
        fields.dedup();
        let is_own = matches!(
            self.0.kind,
            ErrorKind::InvalidInput(_) | ErrorKind::RecipientGuard(_)
        );
        if is_own && fields.len() == 1 {
            // The kind names it.
            fields.clear();
        }
        if let Some((first, more)) = fields.split_first() {
            write!(f, ": {first}")?;
            more.iter()
                .take(MAX_SHOWN_FIELDS - 1)
                .try_for_each(|field| write!(f, ", {field}"))?;
            if fields.len() > MAX_SHOWN_FIELDS {
                write!(f, " and {} more", fields.len() - MAX_SHOWN_FIELDS)?;
            }
        }

        // If the service says why, the scope is not the reason.
        let unexplained = self.0.report.code.is_none() && self.0.report.message.is_none();
        match (&self.0.kind, self.operation().map(Operation::scope_rule)) {
            (ErrorKind::Forbidden, Some(ScopeRule::Needs(scope))) if unexplained => {
                write!(f, "; the operation requires the scope {scope}")?;
            }
            (
                ErrorKind::Forbidden | ErrorKind::MissingScope { required: None, .. },
                Some(ScopeRule::NotDocumented),
            ) => f.write_str(UNDOCUMENTED_SCOPE)?,
            _ => {}
        }

        if let Some(id) = &self.0.request_id {
            write!(f, "; request id {id}")?;
        }
        if self.0.attempts > 1 {
            write!(f, "; after {} attempts", self.0.attempts)?;
        }
        if self.0.held_back {
            f.write_str(HELD_BACK)?;
        }
        if self.0.outcome == Outcome::Unknown && !self.0.idempotent {
            f.write_str("; the request may have been processed")?;
        }
        if self.code() == Some("idempotency_mismatch") {
            f.write_str(REUSED_KEY)?;
        }
        match next_step(&self.0.kind) {
            Some(step) => write!(f, "; {step}"),
            None => Ok(()),
        }
    }
}

const HELD_BACK: &str = "; not sent, because this client and its clones wait for longer than this \
                         call may take: for the pause that the service asked for, or for the rate \
                         that is set on the client";

const UNDOCUMENTED_SCOPE: &str = "; the scope that the operation requires is not documented, see the \
                                  service's message";

const REUSED_KEY: &str = "; the idempotency key was used with another body: send the same body with \
                          it, also the same date, or use a new key";

/// How many invalid fields `Display` names.
const MAX_SHOWN_FIELDS: usize = 5;

/// The next step after an error, if its kind alone tells.
fn next_step(kind: &ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::Unauthorized => "check that the key is active and meant for this service",
        ErrorKind::MissingScope {
            required: Some(_), ..
        } => "use a key with that scope",
        ErrorKind::RateLimited => "retry later",
        ErrorKind::Connect => "check the base URL and the network",
        ErrorKind::Proxy => {
            "check the proxy's URL and credentials: `proxy` on the builder, or HTTPS_PROXY, \
             HTTP_PROXY, ALL_PROXY and NO_PROXY"
        }
        ErrorKind::Tls => "check the service's certificate and the trusted roots",
        _ => return None,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_at_most_the_visible_part_of_the_body_in_memory() {
        for (length, is_kept) in [(KEPT_BODY, true), (KEPT_BODY + 1, false)] {
            let body = Bytes::from(vec![b'x'; length]);
            let error = Error::new(ErrorKind::Invalid, Outcome::Refused);
            let error = error.with_response_parts(
                StatusCode::UNPROCESSABLE_ENTITY,
                HeaderMap::new(),
                body.clone(),
            );
            assert_eq!(error.body().len(), KEPT_BODY);
            assert_eq!(body.is_unique(), !is_kept);
        }
    }
}
