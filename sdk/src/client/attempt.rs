//! A single attempt of a call: sends the request, reads the response, and classifies
//! failures.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::call::{Options, Request};
use super::exchange::{self, BoxError, Incoming, Progress};
use super::payload::JSON;
use super::response::request_id;
use super::retry::{Failure, parse_retry_after};
use super::shared::Shared;
use super::time::{Duration, Instant, now, timeout_at};
use crate::error::ErrorReport;
use crate::{Error, ErrorKind, Operation, Outcome, Scope, Scopes};

/// A response with a 2xx status.
pub(crate) struct Success {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

pub(crate) struct Failed {
    pub(crate) failure: Failure,
    pub(crate) error: Error,
}

impl Failed {
    /// A failure that a retry would not fix.
    pub(crate) fn permanent(error: Error) -> Self {
        Self { failure: Failure::Permanent, error }
    }
}

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Builds the request headers, which are the same for every attempt of a call.
pub(crate) fn headers(shared: &Shared, request: &Request, options: &Options) -> HeaderMap {
    let mut headers = match request.payload.content_type() {
        Some(content_type) if content_type == JSON => shared.json_headers.clone(),
        Some(content_type) => {
            let mut headers = shared.headers.clone();
            headers.insert(CONTENT_TYPE, content_type);
            headers
        }
        // Methods that may have a body declare that there is none (RFC 9110 §8.6); some
        // servers respond with 411 otherwise.
        None if matches!(request.method, Method::POST | Method::PUT | Method::PATCH) => {
            let mut headers = shared.headers.clone();
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
            headers
        }
        None => shared.headers.clone(),
    };
    if let Some(key) = &options.idempotency_key {
        headers.insert(IDEMPOTENCY_KEY, key.clone());
    }
    for (name, value) in &options.headers {
        headers.insert(name, value.clone());
    }
    headers
}

pub(crate) async fn attempt(
    shared: &Shared,
    request: &Request,
    options: &Options,
    deadline: Instant,
) -> Result<Success, Failed> {
    let progress = Arc::new(Progress::default());
    let mut headers = headers(shared, request, options);
    if let Some(key) = shared.provided_key().map_err(Failed::permanent)? {
        headers.insert(&shared.key_header, key);
    }
    let sent = exchange::send(shared, request, headers, &progress);
    let mut response = match timeout_at(deadline, sent).await {
        Ok(response) => response?,
        Err(_) => return Err(timed_out(&progress)),
    };
    let status = response.status;
    let headers = std::mem::take(&mut response.headers);
    if response.redirected {
        // The response comes from another URL, and perhaps from another method: most
        // redirects of a POST turn it into a GET.
        let error = Error::new(ErrorKind::Redirected, Outcome::Unknown);
        let id = request_id(shared, &headers);
        let error = error.with_response_parts(status, headers, id, Bytes::new());
        return Err(Failed::permanent(error));
    }
    if !(200..300).contains(&status) {
        // The error body is useful, but the status alone decides. If the body is slow,
        // endless or truncated, the request still failed with this status.
        let mut body = BytesMut::new();
        let until = deadline.min(Instant::now() + ERROR_BODY_TIMEOUT);
        let _ = timeout_at(until, read_into(&mut body, &mut response, MAX_ERROR_BODY)).await;
        body.truncate(usize::try_from(MAX_ERROR_BODY).unwrap_or(usize::MAX));
        return Err(error_response(shared, request, status, headers, body.freeze()));
    }
    let problem =
        match timeout_at(deadline, read(&mut response, shared.settings.max_response_size)).await {
            Ok(Ok(body)) => return Ok(Success { status, headers, body }),
            Ok(Err(problem)) => problem,
            Err(_) => ReadProblem::TimedOut,
        };
    Err(problem.into_failed(shared, status, headers))
}

/// The part of an error response's body that is read.
const MAX_ERROR_BODY: u64 = 1024 * 1024;
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);

async fn read(response: &mut Incoming, limit: u64) -> Result<Bytes, ReadProblem> {
    let length = response.length();
    if length.is_some_and(|length| length > limit) {
        return Err(ReadProblem::TooLarge { limit });
    }
    let Some(first) = response.chunk().await.map_err(ReadProblem::Lost)? else {
        return Ok(Bytes::new());
    };
    // Usually there is one chunk, which needs no copy.
    if first.len() as u64 <= limit && length == Some(first.len() as u64) {
        return Ok(first);
    }
    let mut body = BytesMut::from(first);
    read_into(&mut body, response, limit).await?;
    Ok(body.freeze())
}

/// Appends the rest of the response to `body`, and stops once `body` is longer than the
/// limit.
async fn read_into(
    body: &mut BytesMut,
    response: &mut Incoming,
    limit: u64,
) -> Result<(), ReadProblem> {
    while body.len() as u64 <= limit {
        match response.chunk().await.map_err(ReadProblem::Lost)? {
            Some(chunk) => body.extend_from_slice(&chunk),
            None => return Ok(()),
        }
    }
    Err(ReadProblem::TooLarge { limit })
}

enum ReadProblem {
    TooLarge { limit: u64 },
    Lost(BoxError),
    TimedOut,
}

impl ReadProblem {
    /// Maps a failure to read the body of a 2xx response. The request was processed.
    fn into_failed(self, shared: &Shared, status: u16, headers: HeaderMap) -> Failed {
        let id = request_id(shared, &headers);
        let (failure, kind, source) = match self {
            Self::TooLarge { limit } => {
                (Failure::Permanent, ErrorKind::ResponseTooLarge { limit }, None)
            }
            Self::Lost(error) => (Failure::Ambiguous, ErrorKind::ConnectionLost, Some(error)),
            Self::TimedOut => (Failure::Permanent, ErrorKind::Timeout, None),
        };
        let mut error = Error::new(kind, Outcome::Unknown);
        if let Some(source) = source {
            error = error.with_source(source);
        }
        Failed { failure, error: error.with_response_parts(status, headers, id, Bytes::new()) }
    }
}

fn timed_out(progress: &Progress) -> Failed {
    let outcome = if progress.is_incomplete() { Outcome::NotSent } else { Outcome::Unknown };
    Failed::permanent(Error::new(ErrorKind::Timeout, outcome))
}

/// Maps a response whose status is not 2xx to an error.
fn error_response(
    shared: &Shared,
    request: &Request,
    status: u16,
    headers: HeaderMap,
    body: Bytes,
) -> Failed {
    let id = request_id(shared, &headers);
    let operation = request.target.operation();
    let error = response_error(operation, shared.scopes.get(), id, status, headers, body);
    Failed { failure: Failure::Status(status), error }
}

/// The error of a response whose status is not 2xx.
fn response_error(
    operation: Option<Operation>,
    granted: Option<Scopes>,
    id: Option<String>,
    status: u16,
    headers: HeaderMap,
    body: Bytes,
) -> Error {
    let report = ErrorReport::read(&body);
    let (kind, outcome) = classify(operation, granted, status, &report);
    let header = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    // Compare with the service's own clock if the response contains it.
    let date = header(DATE).and_then(|date| httpdate::parse_http_date(date).ok());
    let retry_after =
        header(RETRY_AFTER).and_then(|value| parse_retry_after(value, date.unwrap_or_else(now)));
    Error::new(kind, outcome)
        .with_report(report)
        .with_retry_after(retry_after)
        .with_response_parts(status, headers, id, body)
}

impl Error {
    /// Creates the error that a call returns for a response whose status is not 2xx, to test
    /// how a program handles it. Kind, outcome, code, message, fields and `Retry-After` are
    /// read from the response as the client reads them.
    ///
    /// ```
    /// use svc_sdk::{Error, ErrorKind, Operation, StatusCode};
    ///
    /// let error = Error::from_response(
    ///     Operation::EmailsSend,
    ///     StatusCode::FORBIDDEN,
    ///     Default::default(),
    ///     r#"{"error":{"code":"domain_not_verified","message":"shop.example"}}"#,
    /// );
    /// assert_eq!(error.kind(), &ErrorKind::Forbidden);
    /// assert_eq!(error.code(), Some("domain_not_verified"));
    /// ```
    pub fn from_response(
        operation: Operation,
        status: StatusCode,
        headers: HeaderMap,
        body: impl Into<Bytes>,
    ) -> Self {
        let id = headers.get("x-request-id").and_then(|id| id.to_str().ok().map(str::to_owned));
        response_error(Some(operation), None, id, status.as_u16(), headers, body.into())
            .with_operation(operation)
            .with_attempts(1)
    }
}

fn classify(
    operation: Option<Operation>,
    granted: Option<Scopes>,
    status: u16,
    report: &ErrorReport,
) -> (ErrorKind, Outcome) {
    let kind = match status {
        400 | 422 => ErrorKind::Invalid,
        401 => ErrorKind::Unauthorized,
        403 if report.about_scope => {
            let documented = operation.and_then(Operation::required_scope);
            let required: Option<Scope> = documented.or(report.named_scope);
            ErrorKind::MissingScope { required, granted }
        }
        403 => ErrorKind::Forbidden,
        404 | 410 => ErrorKind::NotFound,
        409 => ErrorKind::Conflict,
        413 => ErrorKind::TooLarge,
        429 => ErrorKind::RateLimited,
        400..500 => ErrorKind::Rejected,
        300..400 => ErrorKind::Redirected,
        500..600 => ErrorKind::Server,
        100..200 => ErrorKind::InvalidResponse { problem: "unexpected 1xx status".to_owned() },
        _ => ErrorKind::InvalidResponse { problem: "not a valid HTTP status".to_owned() },
    };
    let outcome = match status {
        // After 303 (see other), for example, the request was processed.
        307 | 308 | 400..500 => Outcome::Refused,
        _ => Outcome::Unknown,
    };
    (kind, outcome)
}
