//! One attempt: what is sent, what comes back, and where it failed.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::body::{self, Progress};
use super::call::{Options, Request};
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
    let mut headers = shared.headers.clone();
    match request.payload.content_type() {
        Some(content_type) => {
            headers.insert(CONTENT_TYPE, content_type);
        }
        // What may have a body says that it has none (RFC 9110 §8.6); some
        // servers answer 411 otherwise.
        None if matches!(request.method, Method::POST | Method::PUT | Method::PATCH) => {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        None => {}
    }
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
    headers: HeaderMap,
    progress: &Arc<Progress>,
) -> Result<Success, Failed> {
    let mut outgoing = reqwest::Request::new(request.method.clone(), shared.url(&request.path));
    *outgoing.headers_mut() = headers;
    *outgoing.body_mut() = body::body(&request.payload, progress);

    let mut answer = match shared.http.execute(outgoing).await {
        Ok(answer) => answer,
        Err(error) => return Err(broken(error, progress)),
    };
    let status = answer.status().as_u16();
    let headers = std::mem::take(answer.headers_mut());
    if answer.status().is_success() {
        let body = read(&mut answer, shared.settings.answer_limit)
            .await
            .map_err(|problem| problem.into_failed(shared, status, headers.clone()))?;
        return Ok(Success { status, headers, body });
    }
    // What a refusal says is worth having, but its status is what counts.
    let body = read(&mut answer, LONGEST_REFUSAL).await.unwrap_or_default();
    Err(refused(shared, request, status, headers, body))
}

/// A refusal that is longer than this is not read to its end.
const LONGEST_REFUSAL: u64 = 1024 * 1024;

enum ReadProblem {
    TooLarge { limit: u64 },
    Lost(reqwest::Error),
}

async fn read(answer: &mut reqwest::Response, limit: u64) -> Result<Bytes, ReadProblem> {
    if answer.content_length().is_some_and(|length| length > limit) {
        return Err(ReadProblem::TooLarge { limit });
    }
    let Some(first) = answer.chunk().await.map_err(ReadProblem::Lost)? else {
        return Ok(Bytes::new());
    };
    // Mostly there is one chunk, and nothing to copy.
    let Some(second) = answer.chunk().await.map_err(ReadProblem::Lost)? else {
        return if first.len() as u64 > limit {
            Err(ReadProblem::TooLarge { limit })
        } else {
            Ok(first)
        };
    };
    let mut body = BytesMut::with_capacity((first.len() + second.len()) * 2);
    body.extend_from_slice(&first);
    let mut next = Some(second);
    while let Some(chunk) = next {
        if (body.len() + chunk.len()) as u64 > limit {
            return Err(ReadProblem::TooLarge { limit });
        }
        body.extend_from_slice(&chunk);
        next = answer.chunk().await.map_err(ReadProblem::Lost)?;
    }
    Ok(body.freeze())
}

impl ReadProblem {
    /// A success whose body cannot be had: it was processed.
    fn into_failed(self, shared: &Shared, status: u16, headers: HeaderMap) -> Failed {
        let id = request_id(shared, &headers);
        let (failure, error) = match self {
            Self::TooLarge { limit } => {
                (Failure::Final, Error::new(ErrorKind::AnswerTooLarge { limit }, Outcome::Unknown))
            }
            Self::Lost(error) => (
                Failure::Ambiguous,
                Error::new(ErrorKind::ConnectionLost, Outcome::Unknown)
                    .with_source(error.without_url()),
            ),
        };
        Failed { failure, error: error.with_answer(status, headers, id, Bytes::new()) }
    }
}

/// There was no answer.
fn broken(error: reqwest::Error, progress: &Progress) -> Failed {
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
    let (failure, kind, outcome) = if error.is_connect() {
        let kind = if is_tls(&error) { ErrorKind::Tls } else { ErrorKind::Connect };
        (Failure::NotSent, kind, Outcome::NotSent)
    } else if error.is_timeout() {
        // Only a client of the caller's own has time-outs of its own.
        (Failure::Ambiguous, ErrorKind::Timeout, Outcome::Unknown)
    } else {
        (Failure::Ambiguous, ErrorKind::ConnectionLost, Outcome::Unknown)
    };
    let error = Error::new(kind, outcome).with_source(error.without_url());
    Failed { failure, error }
}

fn is_tls(error: &reqwest::Error) -> bool {
    let mut source: Option<&(dyn StdError + 'static)> = error.source();
    while let Some(error) = source {
        #[cfg(feature = "rustls")]
        if error.is::<rustls::Error>() {
            return true;
        }
        // An i/o error hides what it was made of from `source`.
        if let Some(inner) = error.downcast_ref::<std::io::Error>().and_then(|io| io.get_ref()) {
            source = Some(inner);
        } else {
            source = error.source();
        }
    }
    false
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
