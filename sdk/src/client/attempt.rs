//! One attempt: what is sent, what comes back, and where it failed.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tokio::time::{Duration, Instant, timeout_at};

use super::body::{self, Progress};
use super::call::{Options, Request};
use super::payload::JSON;
use super::response::request_id;
use super::retry::{Failure, parse_retry_after};
use super::shared::Shared;
use crate::error::ErrorReport;
use crate::{Error, ErrorKind, Operation, Outcome, Scope};

/// What came back with a status of success.
pub(crate) struct Success {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

pub(crate) struct Failed {
    pub(crate) failure: Failure,
    pub(crate) error: Error,
}

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The headers of every attempt of this call.
pub(crate) fn headers(shared: &Shared, request: &Request, options: &Options) -> HeaderMap {
    let mut headers = match request.payload.content_type() {
        Some(content_type) if content_type == JSON => shared.json_headers.clone(),
        Some(content_type) => {
            let mut headers = shared.headers.clone();
            headers.insert(CONTENT_TYPE, content_type);
            headers
        }
        // What may have a body says that it has none (RFC 9110 §8.6); some
        // servers answer 411 otherwise.
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
    let mut outgoing =
        reqwest::Request::new(request.method.clone(), shared.url(request).into_owned());
    *outgoing.headers_mut() = headers(shared, request, options);
    *outgoing.body_mut() = body::body(&request.payload, &progress);
    // Our own client follows no redirect, and what comes through layers has
    // lost its address.
    let asked = (!shared.own_http && !shared.has_layers()).then(|| outgoing.url().clone());

    let mut answer = match timeout_at(deadline, execute(shared, outgoing, &progress)).await {
        Ok(answer) => answer?,
        Err(_) => return Err(timed_out(&progress)),
    };
    let status = answer.status().as_u16();
    let headers = std::mem::take(answer.headers_mut());
    if asked.is_some_and(|asked| asked != *answer.url()) {
        // Another address answered, and perhaps another request: a POST that
        // is redirected mostly becomes a GET.
        let error = Error::new(ErrorKind::Redirected, Outcome::Unknown);
        let id = request_id(shared, &headers);
        let error = error.with_answer(status, headers, id, Bytes::new());
        return Err(Failed { failure: Failure::Final, error });
    }
    if !answer.status().is_success() {
        // What a refusal says is worth having, but its status is what counts:
        // one that is slow, endless or cut off is a refusal all the same.
        let mut body = BytesMut::new();
        let until = deadline.min(Instant::now() + REFUSAL_PATIENCE);
        let _ = timeout_at(until, read_into(&mut body, &mut answer, LONGEST_REFUSAL)).await;
        body.truncate(usize::try_from(LONGEST_REFUSAL).unwrap_or(usize::MAX));
        return Err(refused(shared, request, status, headers, body.freeze()));
    }
    let problem = match timeout_at(deadline, read(&mut answer, shared.settings.answer_limit)).await
    {
        Ok(Ok(body)) => return Ok(Success { status, headers, body }),
        Ok(Err(problem)) => problem,
        Err(_) => ReadProblem::TimedOut,
    };
    Err(problem.into_failed(shared, status, headers))
}

#[cfg(not(feature = "tower"))]
async fn execute(
    shared: &Shared,
    outgoing: reqwest::Request,
    progress: &Progress,
) -> Result<reqwest::Response, Failed> {
    shared.http.execute(outgoing).await.map_err(|error| broken(shared, error, progress))
}

#[cfg(feature = "tower")]
async fn execute(
    shared: &Shared,
    outgoing: reqwest::Request,
    progress: &Progress,
) -> Result<reqwest::Response, Failed> {
    let Some(layered) = shared.layered.clone() else {
        return shared
            .http
            .execute(outgoing)
            .await
            .map_err(|error| broken(shared, error, progress));
    };
    let answer = super::layer::execute(layered, outgoing).await;
    answer.map_err(|error| match error.downcast::<reqwest::Error>() {
        Ok(error) => broken(shared, *error, progress),
        // A layer's own error: whether anything went out, the body tells.
        Err(error) => {
            let outcome = if progress.not_whole() { Outcome::NotSent } else { Outcome::Unknown };
            let error = Error::new(ErrorKind::Layer, outcome).with_source(error);
            Failed { failure: Failure::Final, error }
        }
    })
}

/// A refusal that is longer than this is not read to its end.
const LONGEST_REFUSAL: u64 = 1024 * 1024;
const REFUSAL_PATIENCE: Duration = Duration::from_secs(5);

async fn read(answer: &mut reqwest::Response, limit: u64) -> Result<Bytes, ReadProblem> {
    if answer.content_length().is_some_and(|length| length > limit) {
        return Err(ReadProblem::TooLarge { limit });
    }
    let Some(first) = answer.chunk().await.map_err(ReadProblem::Lost)? else {
        return Ok(Bytes::new());
    };
    // Mostly there is one chunk, and nothing to copy.
    if first.len() as u64 <= limit && answer.content_length() == Some(first.len() as u64) {
        return Ok(first);
    }
    let mut body = BytesMut::from(first);
    read_into(&mut body, answer, limit).await?;
    Ok(body.freeze())
}

/// Adds what comes to `body`, until that is longer than the limit.
async fn read_into(
    body: &mut BytesMut,
    answer: &mut reqwest::Response,
    limit: u64,
) -> Result<(), ReadProblem> {
    while body.len() as u64 <= limit {
        match answer.chunk().await.map_err(ReadProblem::Lost)? {
            Some(chunk) => body.extend_from_slice(&chunk),
            None => return Ok(()),
        }
    }
    Err(ReadProblem::TooLarge { limit })
}

enum ReadProblem {
    TooLarge { limit: u64 },
    Lost(reqwest::Error),
    TimedOut,
}

impl ReadProblem {
    /// A success whose body cannot be had: it was processed.
    fn into_failed(self, shared: &Shared, status: u16, headers: HeaderMap) -> Failed {
        let id = request_id(shared, &headers);
        let (failure, kind, source) = match self {
            Self::TooLarge { limit } => (Failure::Final, ErrorKind::AnswerTooLarge { limit }, None),
            Self::Lost(error) => (Failure::Ambiguous, ErrorKind::ConnectionLost, Some(error)),
            Self::TimedOut => (Failure::Final, ErrorKind::Timeout, None),
        };
        let mut error = Error::new(kind, Outcome::Unknown);
        if let Some(source) = source {
            error = error.with_source(source.without_url());
        }
        Failed { failure, error: error.with_answer(status, headers, id, Bytes::new()) }
    }
}

/// There was no answer.
fn broken(shared: &Shared, error: reqwest::Error, progress: &Progress) -> Failed {
    if let Some(failure) = progress.failure() {
        let kind = ErrorKind::Attachment {
            email: failure.email,
            attachment: failure.attachment,
            problem: failure.problem,
        };
        // The body was broken off before its end, so the service never had a
        // whole request.
        let mut error = Error::new(kind, Outcome::NotSent);
        if let Some(source) = &failure.source {
            error = error.with_source(Arc::clone(source));
        }
        return Failed { failure: Failure::Final, error };
    }
    if error.is_builder() {
        let error = Error::config("the request cannot be built").with_source(error.without_url());
        return Failed { failure: Failure::Final, error };
    }
    let (failure, kind) = if error.is_connect() {
        let https = shared.base.scheme() == "https";
        let kind = if is_tls(&error, https) { ErrorKind::Tls } else { ErrorKind::Connect };
        (Failure::NotSent, kind)
    } else if error.is_timeout() {
        // Only a client of the caller's own has time-outs of its own.
        (Failure::Ambiguous, ErrorKind::Timeout)
    } else if is_not_http(&error) {
        let problem = "it is not http".to_owned();
        (Failure::Final, ErrorKind::UnreadableAnswer { problem })
    } else {
        (Failure::Ambiguous, ErrorKind::ConnectionLost)
    };
    // A pooled connection that was closed before anything was written to it is
    // as good as none.
    let nothing_done = progress.nothing_sent() || is_refused(&error);
    let failure = if nothing_done { Failure::NotSent } else { failure };
    let not_sent = failure == Failure::NotSent || progress.not_whole();
    let outcome = if not_sent { Outcome::NotSent } else { Outcome::Unknown };
    let error = Error::new(kind, outcome).with_source(error.without_url());
    Failed { failure, error }
}

fn timed_out(progress: &Progress) -> Failed {
    let outcome = if progress.not_whole() { Outcome::NotSent } else { Outcome::Unknown };
    Failed { failure: Failure::Final, error: Error::new(ErrorKind::Timeout, outcome) }
}

/// An HTTP/2 server says that it did not process the request.
#[cfg(feature = "http2")]
fn is_refused(error: &reqwest::Error) -> bool {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<h2::Error>())
        .any(|error| error.is_remote() && error.reason() == Some(h2::Reason::REFUSED_STREAM))
}

#[cfg(not(feature = "http2"))]
fn is_refused(_: &reqwest::Error) -> bool {
    false
}

/// Why no secure connection was made: rustls says so, or the other side went
/// away after TCP had connected.
fn is_tls(error: &reqwest::Error, https: bool) -> bool {
    causes(error).any(|cause| {
        #[cfg(feature = "rustls")]
        if cause.is::<rustls::Error>() {
            return true;
        }
        let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        https
            && matches!(
                kind,
                Some(
                    io::ErrorKind::UnexpectedEof
                        | io::ErrorKind::ConnectionReset
                        | io::ErrorKind::ConnectionAborted
                        | io::ErrorKind::BrokenPipe
                )
            )
    })
}

fn is_not_http(error: &reqwest::Error) -> bool {
    causes(error)
        .any(|cause| cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse))
}

fn causes<'a>(error: &'a reqwest::Error) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(error.source(), |&error| {
        // An i/o error hides what it was made of from `source`.
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn StdError + 'static)),
            None => error.source(),
        }
    })
}

/// The service answered, and did not say success.
fn refused(
    shared: &Shared,
    request: &Request,
    status: u16,
    headers: HeaderMap,
    body: Bytes,
) -> Failed {
    let report = ErrorReport::read(&body);
    let (kind, outcome) = classify(shared, request, status, &report);
    let header = headers.get(RETRY_AFTER).map(HeaderValue::to_str);
    let retry_after =
        header.and_then(Result::ok).and_then(|value| parse_retry_after(value, SystemTime::now()));
    let id = request_id(shared, &headers);
    let error = Error::new(kind, outcome)
        .with_report(report)
        .with_retry_after(retry_after)
        .with_answer(status, headers, id, body);
    Failed { failure: Failure::Status(status), error }
}

fn classify(
    shared: &Shared,
    request: &Request,
    status: u16,
    report: &ErrorReport,
) -> (ErrorKind, Outcome) {
    let kind = match status {
        400 | 422 => ErrorKind::Invalid,
        401 => ErrorKind::Unauthorized,
        403 if report.about_scope => {
            let documented = request.target.operation().and_then(Operation::required_scope);
            let required: Option<Scope> = documented.or(report.named_scope);
            ErrorKind::MissingScope { required, granted: shared.scopes.get() }
        }
        403 => ErrorKind::Forbidden,
        404 | 410 => ErrorKind::NotFound,
        409 => ErrorKind::Conflict,
        413 => ErrorKind::TooLarge,
        429 => ErrorKind::RateLimited,
        400..500 => ErrorKind::Rejected,
        300..400 => ErrorKind::Redirected,
        500..600 => ErrorKind::Server,
        _ => ErrorKind::UnreadableAnswer { problem: "no status that http has".to_owned() },
    };
    let outcome = match status {
        // After "see other" something was done.
        307 | 308 | 400..500 => Outcome::Refused,
        _ => Outcome::Unknown,
    };
    (kind, outcome)
}
