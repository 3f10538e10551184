//! A single attempt of a call: sends the request, reads the response, and classifies
//! failures. What was certainly not sent is judged by reqwest alone; everything else may have
//! been processed.

use std::error::Error as StdError;
use std::io;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue};
use tokio::time::{Duration, Instant, timeout_at};
use url::Url;

use super::request::body::{AttemptBody, InDoubt};
use super::request::{Options, Request};
use super::response::RawResponse;
use super::shared::Shared;
use crate::error::{Error, ErrorKind, Outcome, response_error};

pub(super) async fn attempt(
    shared: &Shared,
    request: &Request,
    options: &Options,
    url: &Url,
    api_key: &HeaderValue,
    end: Instant,
    in_doubt: &InDoubt,
) -> Result<RawResponse, Error> {
    let http = shared.http.current()?;
    let mut outgoing = reqwest::Request::new(request.method.clone(), url.clone());
    *outgoing.headers_mut() = headers(shared, request, options, api_key)?;
    *outgoing.body_mut() = Some(reqwest::Body::wrap(AttemptBody::new(
        &request.payload,
        in_doubt,
    )));

    // Without a connection in time, nothing was sent.
    let sent = timeout_at(end, http.execute(outgoing))
        .await
        .map_err(|_| Error::new(ErrorKind::Timeout, in_doubt.outcome()))?;
    let mut response = sent.map_err(|error| classify_error(error, shared, in_doubt))?;

    if response.url() != url {
        // The application's own HTTP client followed a redirect, perhaps with another method.
        let headers = std::mem::take(response.headers_mut());
        let error = Error::new(ErrorKind::Redirected, Outcome::Unknown);
        return Err(error.with_response_parts(response.status(), headers, Bytes::new()));
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

/// Reads the response.
async fn receive(
    shared: &Shared,
    request: &Request,
    mut response: reqwest::Response,
    end: Instant,
) -> Result<RawResponse, Error> {
    let status = response.status();
    let headers = std::mem::take(response.headers_mut());
    let mut body = BytesMut::new();
    if !status.is_success() {
        // The status alone decides: the body is useful, but may be slow, endless or truncated.
        let end = end.min(Instant::now() + ERROR_BODY_TIMEOUT);
        let _ = timeout_at(end, read(&mut body, &mut response, MAX_ERROR_BODY)).await;
        body.truncate(MAX_ERROR_BODY as usize);
        return Err(response_error(
            request.operation,
            shared.known_scopes(),
            status,
            headers,
            body.freeze(),
            &shared.settings.dialect,
        ));
    }

    let limit = shared.settings.max_response_size;
    let announced = response.content_length().unwrap_or_default();
    let result = if announced > limit {
        Ok(Ok(false))
    } else {
        timeout_at(end, read(&mut body, &mut response, limit)).await
    };
    // The request was processed, whatever became of the response.
    let unread = |kind| Error::new(kind, Outcome::Unknown);
    let error = match result {
        Ok(Ok(true)) => return Ok(RawResponse::received(status, headers, body.freeze())),
        Ok(Ok(false)) => unread(ErrorKind::response_too_large(limit)),
        Ok(Err(lost)) => unread(ErrorKind::ConnectionLost).with_source(lost.without_url()),
        Err(_) => unread(ErrorKind::Timeout),
    };
    Err(error.with_response_parts(status, headers, Bytes::new()))
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
fn classify_error(error: reqwest::Error, shared: &Shared, in_doubt: &InDoubt) -> Error {
    // Of the body.
    if let Some(error) = causes(&error).find_map(<dyn StdError>::downcast_ref::<Error>) {
        return error.clone();
    }
    if error.is_builder() {
        return Error::config("the request cannot be built").with_source(error.without_url());
    }
    if !error.is_connect() {
        let kind = if error.is_timeout() {
            ErrorKind::Timeout
        } else {
            ErrorKind::ConnectionLost
        };
        return Error::new(kind, in_doubt.outcome()).with_source(error.without_url());
    }

    if causes(&error).any(|cause| cause.to_string() == NOT_HTTP) {
        return Error::config(
            "the base URL uses https, but the HTTP client was compiled without TLS; enable the \
             feature `rustls` of svc-sdk in Cargo.toml, or give it a client with TLS",
        );
    }

    let kind = if is_tls(&error) {
        ErrorKind::Tls
    } else if shared.http.uses_proxy() {
        ErrorKind::Proxy
    } else {
        ErrorKind::Connect
    };
    Error::new(kind, Outcome::NotSent).with_source(error.without_url())
}

/// The HTTP client's text about `https` if no TLS is compiled in. It has no other sign of it.
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
