//! A single attempt of a call: sends the request, reads the response, and classifies
//! failures. What was certainly not sent is judged by reqwest alone; everything else may have
//! been processed.

use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::io;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use tokio::time::{Duration, Instant, timeout_at};
use url::Url;

use super::body::{body, length};
use super::limits;
use super::payload::{JSON, Options, Payload, Request};
use super::shared::Shared;
use crate::dialect::{Dialect, Point};
use crate::error::{Error, ErrorKind, ErrorReport, Outcome};
use crate::operation::Operation;
use crate::scope::Scope;

/// A response with a 2xx status.
pub(super) struct Success {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

pub(super) struct Failed {
    pub(super) failure: Failure,
    pub(super) error: Error,
}

/// What a failed attempt means for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The request certainly did not reach the service.
    NotSent,
    /// The service refused it, because it limits the rate (429).
    Limited,
    /// It may succeed the next time. It may also have been processed.
    Transient,
    /// A retry would fail as well.
    Permanent,
}

impl Failed {
    fn permanent(error: Error) -> Self {
        Self {
            failure: Failure::Permanent,
            error,
        }
    }

    fn timed_out() -> Self {
        let error = Error::new(ErrorKind::Timeout, Outcome::Unknown);
        Self {
            failure: Failure::Transient,
            error,
        }
    }
}

/// The headers of a request, without the key and what hooks add.
pub(super) fn headers(shared: &Shared, request: &Request, options: &Options) -> HeaderMap {
    let mut headers = shared.headers.clone();
    match &request.payload {
        Payload::Empty => {
            // Methods that may have a body declare that there is none (RFC 9110 §8.6); some
            // servers respond with 411 otherwise.
            if matches!(request.method, Method::POST | Method::PUT | Method::PATCH) {
                headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
            }
        }
        Payload::Bytes(_, content_type) => {
            headers.insert(CONTENT_TYPE, content_type.clone());
        }
        Payload::Files(pieces) => {
            headers.insert(CONTENT_TYPE, JSON);
            headers.insert(CONTENT_LENGTH, length(pieces).into());
        }
    }
    if let Some(key) = &options.idempotency_key {
        headers.insert(HeaderName::from_static("idempotency-key"), key.clone());
    }
    for (name, value) in &options.headers {
        headers.insert(name, value.clone());
    }
    headers
}

pub(super) async fn attempt(
    shared: &Shared,
    request: &Request,
    options: &Options,
    url: &Url,
    key: &HeaderValue,
    end: Instant,
) -> Result<Success, Failed> {
    let http = shared.http.current().map_err(Failed::permanent)?;
    let mut outgoing = reqwest::Request::new(request.method.clone(), url.clone());
    *outgoing.headers_mut() = headers(shared, request, options);
    if !shared.hooks.is_empty() {
        let headers = outgoing.headers_mut();
        let length = headers.get(CONTENT_LENGTH).cloned();
        shared.hooks.iter().for_each(|hook| hook(headers));
        // They delimit the body: a wrong value would let the server read two requests.
        headers.remove(TRANSFER_ENCODING);
        headers.remove(CONTENT_LENGTH);
        headers.extend(length.map(|length| (CONTENT_LENGTH, length)));
    }
    outgoing
        .headers_mut()
        .insert(&shared.key_header, key.clone());
    *outgoing.body_mut() = match &request.payload {
        Payload::Empty => None,
        Payload::Bytes(bytes, _) => Some(bytes.clone().into()),
        Payload::Files(pieces) => Some(reqwest::Body::wrap(body(pieces))),
    };
    let sent = timeout_at(end, http.execute(outgoing))
        .await
        .map_err(|_| Failed::timed_out())?;
    let mut response = sent.map_err(classify_error)?;
    if response.url() != url {
        // The application's own HTTP client followed a redirect, perhaps with another method.
        let headers = std::mem::take(response.headers_mut());
        let error = Error::new(ErrorKind::Redirected, Outcome::Unknown);
        let error = error.with_response_parts(response.status(), headers, Bytes::new());
        return Err(Failed::permanent(error));
    }
    receive(shared, request, response, end).await
}

/// Reads the response. If the status is not 2xx, it alone decides: the body is useful, but if it is
/// slow, endless or truncated, the request still failed with this status.
async fn receive(
    shared: &Shared,
    request: &Request,
    mut response: reqwest::Response,
    end: Instant,
) -> Result<Success, Failed> {
    let status = response.status();
    let headers = std::mem::take(response.headers_mut());
    let mut body = BytesMut::new();
    if !status.is_success() {
        let end = end.min(Instant::now() + ERROR_BODY_TIMEOUT);
        let _ = timeout_at(end, read(&mut body, &mut response, MAX_ERROR_BODY)).await;
        body.truncate(MAX_ERROR_BODY as usize);
        let failure = match status.as_u16() {
            429 => Failure::Limited,
            408 | 425 | 500 | 502 | 503 | 504 => Failure::Transient,
            _ => Failure::Permanent,
        };
        let (operation, granted) = (request.operation, shared.known_scopes());
        let dialect = &shared.settings.dialect;
        let error = response_error(operation, granted, status, headers, body.freeze(), dialect);
        return Err(Failed { failure, error });
    }
    let limit = shared.settings.max_response_size;
    let is_complete = match response
        .content_length()
        .is_some_and(|length| length > limit)
    {
        true => Ok(Ok(false)),
        false => timeout_at(end, read(&mut body, &mut response, limit)).await,
    };
    // The request was processed, whatever became of the response.
    let (failure, kind) = match &is_complete {
        Ok(Ok(true)) => {
            return Ok(Success {
                status,
                headers,
                body: body.freeze(),
            });
        }
        Ok(Ok(false)) => (Failure::Permanent, ErrorKind::response_too_large(limit)),
        Ok(Err(_)) => (Failure::Transient, ErrorKind::ConnectionLost),
        Err(_) => (Failure::Transient, ErrorKind::Timeout),
    };
    let error = Error::new(kind, Outcome::Unknown);
    let error = error.with_response_parts(status, headers, Bytes::new());
    Err(match is_complete {
        Ok(Err(lost)) => Failed {
            failure,
            error: error.with_source(lost.without_url()),
        },
        _ => Failed { failure, error },
    })
}

/// Appends the response to `body`. Returns false once it is longer than the limit.
async fn read(
    body: &mut BytesMut,
    response: &mut reqwest::Response,
    limit: u64,
) -> Result<bool, reqwest::Error> {
    while body.len() as u64 <= limit {
        match response.chunk().await? {
            Some(chunk) => body.extend_from_slice(&chunk),
            None => return Ok(true),
        }
    }
    Ok(false)
}

/// The part of an error response's body that is read.
const MAX_ERROR_BODY: u64 = 1024 * 1024;
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Classifies an error of a request without a response.
fn classify_error(error: reqwest::Error) -> Failed {
    // Of the body.
    if let Some(error) = causes(&error).find_map(<dyn StdError>::downcast_ref::<Error>) {
        return Failed::permanent(error.clone());
    }
    if error.is_builder() {
        let error = Error::config("the request cannot be built").with_source(error.without_url());
        return Failed::permanent(error);
    }
    let (failure, kind, outcome) = if error.is_connect() {
        let kind = if is_tls(&error) {
            ErrorKind::Tls
        } else {
            ErrorKind::Connect
        };
        (Failure::NotSent, kind, Outcome::NotSent)
    } else if error.is_timeout() {
        (Failure::Transient, ErrorKind::Timeout, Outcome::Unknown)
    } else {
        (
            Failure::Transient,
            ErrorKind::ConnectionLost,
            Outcome::Unknown,
        )
    };
    Failed {
        failure,
        error: Error::new(kind, outcome).with_source(error.without_url()),
    }
}

/// Whether a connection failed because of TLS. The platform's library does not tell.
fn is_tls(error: &reqwest::Error) -> bool {
    #[cfg(feature = "rustls")]
    return causes(error).any(<dyn StdError>::is::<rustls::Error>);
    #[cfg(not(feature = "rustls"))]
    causes(error).any(|_| false)
}

fn causes<'a>(error: &'a reqwest::Error) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(error.source(), |&error| {
        // An I/O error does not return its inner error from `source`.
        match error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(inner) => Some(inner as &(dyn StdError + 'static)),
            None => error.source(),
        }
    })
}

/// The error of a response whose status is not 2xx.
fn response_error(
    operation: Option<Operation>,
    granted: Option<BTreeSet<Scope>>,
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    dialect: &Dialect,
) -> Error {
    let report = ErrorReport::read(&body);
    let (kind, outcome) = classify_status(operation, granted, status.as_u16(), &report, dialect);
    let retry_after = limits::retry_after(&headers, status == StatusCode::TOO_MANY_REQUESTS);
    Error::new(kind, outcome)
        .with(|error| (error.report, error.retry_after) = (report, retry_after))
        .with_response_parts(status, headers, body)
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
        response_error(
            Some(operation),
            None,
            status,
            headers,
            body.into(),
            &Dialect::default(),
        )
        .with_operation(operation)
        .with(|error| error.attempts = 1)
    }
}

fn classify_status(
    operation: Option<Operation>,
    granted: Option<BTreeSet<Scope>>,
    status: u16,
    report: &ErrorReport,
    dialect: &Dialect,
) -> (ErrorKind, Outcome) {
    let is_scope_status = status == 403 || dialect.choice(Point::ScopeStatus) == status.to_string();
    let kind = match status {
        400 | 422 => ErrorKind::Invalid,
        401 | 403 if is_scope_status && report.about_scope => {
            let documented = operation.and_then(Operation::required_scope);
            ErrorKind::MissingScope {
                required: documented.or(report.named_scope),
                granted,
            }
        }
        401 => ErrorKind::Unauthorized,
        403 => ErrorKind::Forbidden,
        404 | 410 => ErrorKind::NotFound,
        409 => ErrorKind::Conflict,
        413 => ErrorKind::TooLarge,
        429 => ErrorKind::RateLimited,
        400..500 => ErrorKind::Rejected,
        300..400 => ErrorKind::Redirected,
        500..600 => ErrorKind::Server,
        100..200 => ErrorKind::invalid_response("unexpected 1xx status"),
        _ => ErrorKind::invalid_response("not a valid HTTP status"),
    };
    let outcome = match status {
        // Some servers and proxies answer it after work began.
        408 => Outcome::Unknown,
        // After 303 (see other), for example, the request was processed.
        307 | 308 | 400..500 => Outcome::Refused,
        _ => Outcome::Unknown,
    };
    (kind, outcome)
}
