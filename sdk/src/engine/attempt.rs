//! A single attempt of a call: sends the request, reads the response, and classifies
//! failures. What was certainly not sent is judged by reqwest alone; everything else may have
//! been processed.

use std::error::Error as StdError;
use std::io;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::time::{Duration, Instant, timeout_at};
use url::Url;

use super::request::body::{AttemptBody, InDoubt};
use super::request::{Options, Request};
use super::shared::Shared;
use crate::error::{Error, ErrorKind, Outcome, response_error};

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

pub(super) async fn attempt(
    shared: &Shared,
    request: &Request,
    options: &Options,
    url: &Url,
    api_key: &HeaderValue,
    end: Instant,
    in_doubt: &InDoubt,
) -> Result<Success, Failed> {
    let http = shared.http.current().map_err(Failed::permanent)?;
    let mut outgoing = reqwest::Request::new(request.method.clone(), url.clone());
    *outgoing.headers_mut() =
        headers(shared, request, options, api_key).map_err(Failed::permanent)?;
    *outgoing.body_mut() = Some(reqwest::Body::wrap(AttemptBody::new(
        &request.payload,
        in_doubt,
    )));

    let sent = match timeout_at(end, http.execute(outgoing)).await {
        Ok(sent) => sent,
        Err(_) if in_doubt.get() => return Err(Failed::timed_out()),
        // There was no connection in time.
        Err(_) => {
            return Err(Failed {
                failure: Failure::NotSent,
                error: Error::new(ErrorKind::Timeout, Outcome::NotSent),
            });
        }
    };
    let mut response = sent.map_err(|error| classify_error(error, shared, in_doubt))?;

    if response.url() != url {
        // The application's own HTTP client followed a redirect, perhaps with another method.
        let headers = std::mem::take(response.headers_mut());
        let error = Error::new(ErrorKind::Redirected, Outcome::Unknown);
        let error = error.with_response_parts(response.status(), headers, Bytes::new());
        return Err(Failed::permanent(error));
    }
    receive(shared, request, response, end).await
}

/// The headers of an attempt, with the key and what hooks add.
///
/// # Errors
///
/// If a hook has set a header that the recipient guard refuses.
fn headers(
    shared: &Shared,
    request: &Request,
    options: &Options,
    api_key: &HeaderValue,
) -> Result<HeaderMap, Error> {
    let mut headers = shared.target.headers(request, options);
    if !shared.hooks.is_empty() {
        let length = headers.get(CONTENT_LENGTH).cloned();
        for hook in &shared.hooks {
            hook(&mut headers);
        }
        // They delimit the body: a wrong value would let the server read two requests.
        headers.remove(TRANSFER_ENCODING);
        headers.remove(CONTENT_LENGTH);
        headers.extend(length.map(|length| (CONTENT_LENGTH, length)));
        if let Some(guard) = &shared.guard {
            guard.check_headers(&headers)?;
        }
    }
    headers.insert(&shared.target.key_header, api_key.clone());
    Ok(headers)
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
        let granted = shared.known_scopes();
        let body = body.freeze();
        let dialect = &shared.settings.dialect;
        let error = response_error(request.operation, granted, status, headers, body, dialect);
        return Err(Failed { failure, error });
    }
    let limit = shared.settings.max_response_size;
    let is_too_long = response
        .content_length()
        .is_some_and(|length| length > limit);
    if is_too_long {
        let kind = ErrorKind::response_too_large(limit);
        return Err(unread(Failure::Permanent, kind, status, headers));
    }

    match timeout_at(end, read(&mut body, &mut response, limit)).await {
        Ok(Ok(true)) => Ok(Success {
            status,
            headers,
            body: body.freeze(),
        }),
        Ok(Ok(false)) => {
            let kind = ErrorKind::response_too_large(limit);
            Err(unread(Failure::Permanent, kind, status, headers))
        }
        Ok(Err(lost)) => {
            let mut failed = unread(
                Failure::Transient,
                ErrorKind::ConnectionLost,
                status,
                headers,
            );
            failed.error = failed.error.with_source(lost.without_url());
            Err(failed)
        }
        Err(_) => Err(unread(
            Failure::Transient,
            ErrorKind::Timeout,
            status,
            headers,
        )),
    }
}

/// A success whose body was not read to its end. The request was processed, whatever became of the
/// response.
fn unread(failure: Failure, kind: ErrorKind, status: StatusCode, headers: HeaderMap) -> Failed {
    let error = Error::new(kind, Outcome::Unknown);
    Failed {
        failure,
        error: error.with_response_parts(status, headers, Bytes::new()),
    }
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
fn classify_error(error: reqwest::Error, shared: &Shared, in_doubt: &InDoubt) -> Failed {
    // Of the body.
    if let Some(error) = causes(&error).find_map(<dyn StdError>::downcast_ref::<Error>) {
        return Failed::permanent(error.clone());
    }
    if error.is_builder() {
        let error = Error::config("the request cannot be built").with_source(error.without_url());
        return Failed::permanent(error);
    }
    if error.is_connect() && causes(&error).any(|cause| cause.to_string() == NOT_HTTP) {
        return Failed::permanent(Error::config(
            "the base URL uses https, but the HTTP client was compiled without TLS; enable the \
             feature `rustls` of svc-sdk in Cargo.toml, or give it a client with TLS",
        ));
    }

    let (kind, is_sent) = if error.is_connect() {
        let kind = if is_tls(&error) {
            ErrorKind::Tls
        } else if shared.http.uses_proxy() {
            ErrorKind::Proxy
        } else {
            ErrorKind::Connect
        };
        (kind, false)
    } else if error.is_timeout() {
        (ErrorKind::Timeout, in_doubt.get())
    } else {
        (ErrorKind::ConnectionLost, in_doubt.get())
    };
    let (failure, outcome) = if is_sent {
        (Failure::Transient, Outcome::Unknown)
    } else {
        (Failure::NotSent, Outcome::NotSent)
    };
    Failed {
        failure,
        error: Error::new(kind, outcome).with_source(error.without_url()),
    }
}

/// What the HTTP client says about `https` if no TLS is compiled in. It has no other sign of it.
const NOT_HTTP: &str = "invalid URL, scheme is not http";

/// Whether a connection failed because of TLS. The platform's library does not tell.
fn is_tls(error: &reqwest::Error) -> bool {
    #[cfg(any(feature = "rustls", feature = "rustls-ring"))]
    return causes(error).any(<dyn StdError>::is::<rustls::Error>);
    #[cfg(not(any(feature = "rustls", feature = "rustls-ring")))]
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
