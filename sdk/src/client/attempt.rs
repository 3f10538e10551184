//! One attempt: what is sent, what comes back, and where it failed.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::call::{Options, Request};
use super::payload::JSON;
use super::response::request_id;
use super::retry::{Failure, parse_retry_after};
use super::shared::Shared;
use super::time::{Duration, Instant, now, timeout_at};
use super::wire::{self, BoxError, Incoming, Progress};
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

impl Failed {
    /// It would fail again.
    pub(crate) fn finally(error: Error) -> Self {
        Self { failure: Failure::Final, error }
    }
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
    let headers = headers(shared, request, options);
    let sent = wire::send(shared, request, headers, &progress);
    let mut answer = match timeout_at(deadline, sent).await {
        Ok(answer) => answer?,
        Err(_) => return Err(timed_out(&progress)),
    };
    let status = answer.status;
    let headers = std::mem::take(&mut answer.headers);
    if answer.elsewhere {
        // Another address answered, and perhaps another request: a POST that
        // is redirected mostly becomes a GET.
        let error = Error::new(ErrorKind::Redirected, Outcome::Unknown);
        let id = request_id(shared, &headers);
        let error = error.with_answer(status, headers, id, Bytes::new());
        return Err(Failed::finally(error));
    }
    if !(200..300).contains(&status) {
        // What a refusal says is worth having, but its status is what counts:
        // one that is slow, endless or cut off is a refusal all the same.
        let mut body = BytesMut::new();
        let until = deadline.min(Instant::now() + REFUSAL_PATIENCE);
        let _ = timeout_at(until, read_into(&mut body, &mut answer, LONGEST_REFUSAL)).await;
        body.truncate(usize::try_from(LONGEST_REFUSAL).unwrap_or(usize::MAX));
        return Err(refused(shared, request, status, headers, body.freeze()));
    }
    let problem =
        match timeout_at(deadline, read(&mut answer, shared.settings.max_response_size)).await {
            Ok(Ok(body)) => return Ok(Success { status, headers, body }),
            Ok(Err(problem)) => problem,
            Err(_) => ReadProblem::TimedOut,
        };
    Err(problem.into_failed(shared, status, headers))
}

/// A refusal that is longer than this is not read to its end.
const LONGEST_REFUSAL: u64 = 1024 * 1024;
const REFUSAL_PATIENCE: Duration = Duration::from_secs(5);

async fn read(answer: &mut Incoming, limit: u64) -> Result<Bytes, ReadProblem> {
    let length = answer.length();
    if length.is_some_and(|length| length > limit) {
        return Err(ReadProblem::TooLarge { limit });
    }
    let Some(first) = answer.chunk().await.map_err(ReadProblem::Lost)? else {
        return Ok(Bytes::new());
    };
    // Mostly there is one chunk, and nothing to copy.
    if first.len() as u64 <= limit && length == Some(first.len() as u64) {
        return Ok(first);
    }
    let mut body = BytesMut::from(first);
    read_into(&mut body, answer, limit).await?;
    Ok(body.freeze())
}

/// Adds what comes to `body`, until that is longer than the limit.
async fn read_into(
    body: &mut BytesMut,
    answer: &mut Incoming,
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
    Lost(BoxError),
    TimedOut,
}

impl ReadProblem {
    /// A success whose body cannot be had: it was processed.
    fn into_failed(self, shared: &Shared, status: u16, headers: HeaderMap) -> Failed {
        let id = request_id(shared, &headers);
        let (failure, kind, source) = match self {
            Self::TooLarge { limit } => {
                (Failure::Final, ErrorKind::ResponseTooLarge { limit }, None)
            }
            Self::Lost(error) => (Failure::Ambiguous, ErrorKind::ConnectionLost, Some(error)),
            Self::TimedOut => (Failure::Final, ErrorKind::Timeout, None),
        };
        let mut error = Error::new(kind, Outcome::Unknown);
        if let Some(source) = source {
            error = error.with_source(source);
        }
        Failed { failure, error: error.with_answer(status, headers, id, Bytes::new()) }
    }
}

fn timed_out(progress: &Progress) -> Failed {
    let outcome = if progress.not_whole() { Outcome::NotSent } else { Outcome::Unknown };
    Failed::finally(Error::new(ErrorKind::Timeout, outcome))
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
    let header = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    // Where the service says what time it has, no clock of ours matters.
    let date = header(DATE).and_then(|date| httpdate::parse_http_date(date).ok());
    let retry_after =
        header(RETRY_AFTER).and_then(|value| parse_retry_after(value, date.unwrap_or_else(now)));
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
        100..200 => ErrorKind::InvalidResponse { problem: "its status is no final one".to_owned() },
        _ => ErrorKind::InvalidResponse { problem: "no status that http has".to_owned() },
    };
    let outcome = match status {
        // After "see other" something was done.
        307 | 308 | 400..500 => Outcome::Refused,
        _ => Outcome::Unknown,
    };
    (kind, outcome)
}
