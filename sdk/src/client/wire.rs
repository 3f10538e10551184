//! What carries an attempt: reqwest, with layers around it or without; and how
//! far its errors say that a request got.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;

use super::attempt::Failed;
use super::body;
pub(super) use super::body::Progress;
use super::call::Request;
use super::retry::Failure;
use super::shared::Shared;
use crate::{Error, ErrorKind, Outcome};

pub(super) type BoxError = Box<dyn StdError + Send + Sync>;

/// An answer whose body is still on its way.
pub(super) struct Incoming {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    /// Another address than the one asked gave it.
    pub(super) elsewhere: bool,
    body: Body,
}

enum Body {
    Plain(reqwest::Response),
    #[cfg(feature = "tower")]
    Layered(super::layer::Body),
}

/// Sends the request and waits for the answer's head.
pub(super) async fn send(
    shared: &Shared,
    request: &Request,
    headers: HeaderMap,
    progress: &Arc<Progress>,
) -> Result<Incoming, Failed> {
    #[cfg(feature = "tower")]
    if let Some(layers) = &shared.layered {
        return send_through(layers.clone(), shared, request, headers, progress).await;
    }
    let body = body::body(&request.payload, progress);
    let url = shared.url(request).into_owned();
    let mut outgoing = reqwest::Request::new(request.method.clone(), url);
    *outgoing.headers_mut() = headers;
    *outgoing.body_mut() = Some(reqwest::Body::wrap(body));
    // Our own client follows no redirect.
    let asked = (!shared.own_http).then(|| outgoing.url().clone());
    let answer = shared.http.execute(outgoing).await;
    let mut answer = answer.map_err(|error| broken(shared, error, progress))?;
    Ok(Incoming {
        status: answer.status().as_u16(),
        headers: std::mem::take(answer.headers_mut()),
        elsewhere: asked.is_some_and(|asked| asked != *answer.url()),
        body: Body::Plain(answer),
    })
}

#[cfg(feature = "tower")]
async fn send_through(
    layers: super::AttemptService,
    shared: &Shared,
    request: &Request,
    headers: HeaderMap,
    progress: &Arc<Progress>,
) -> Result<Incoming, Failed> {
    use tower::ServiceExt;

    let address = shared.address(request).map_err(Failed::finally)?;
    let uri = address.uri.clone();
    let body = body::body(&request.payload, progress);
    let mut outgoing = http::Request::new(super::Body::outgoing(body, address));
    *outgoing.method_mut() = request.method.clone();
    *outgoing.uri_mut() = uri;
    *outgoing.headers_mut() = headers;
    let answer = layers.oneshot(outgoing).await;
    let answer = answer.map_err(|error| match error.downcast::<reqwest::Error>() {
        Ok(error) => broken(shared, *error, progress),
        // A layer's own error: whether anything went out, the body tells.
        Err(error) => {
            let outcome = if progress.not_whole() { Outcome::NotSent } else { Outcome::Unknown };
            let error = Error::new(ErrorKind::Layer, outcome).with_source(error);
            Failed::finally(error)
        }
    })?;
    let (head, body) = answer.into_parts();
    Ok(Incoming {
        status: head.status.as_u16(),
        headers: head.headers,
        elsewhere: head.extensions.get::<super::layer::Redirected>().is_some(),
        body: Body::Layered(body),
    })
}

impl Incoming {
    /// How long the body is, if that is known.
    pub(super) fn length(&self) -> Option<u64> {
        match &self.body {
            Body::Plain(answer) => answer.content_length(),
            #[cfg(feature = "tower")]
            Body::Layered(body) => http_body::Body::size_hint(body).exact(),
        }
    }

    /// The next piece of the body.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, BoxError> {
        match &mut self.body {
            Body::Plain(answer) => Ok(answer.chunk().await.map_err(reqwest::Error::without_url)?),
            #[cfg(feature = "tower")]
            Body::Layered(body) => loop {
                let frame = std::future::poll_fn(|cx| {
                    http_body::Body::poll_frame(std::pin::Pin::new(&mut *body), cx)
                });
                match frame.await.transpose()?.map(http_body::Frame::into_data) {
                    Some(Ok(data)) => return Ok(Some(data)),
                    // Trailers.
                    Some(Err(_)) => {}
                    None => return Ok(None),
                }
            },
        }
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
        return Failed::finally(error);
    }
    if error.is_builder() {
        let error = Error::config("the request cannot be built").with_source(error.without_url());
        return Failed::finally(error);
    }
    let (failure, kind) = if error.is_connect() {
        let https = shared.base.scheme() == "https";
        let kind = if is_tls(&error, https) { ErrorKind::Tls } else { ErrorKind::Connect };
        (Failure::NotSent, kind)
    } else if error.is_timeout() {
        // Only a client of the caller's own has time-outs of its own.
        (Failure::Ambiguous, ErrorKind::Timeout)
    } else if is_not_http(&error) {
        let problem = "its head is not http, or too large; check the base address".to_owned();
        (Failure::Final, ErrorKind::InvalidResponse { problem })
    } else {
        (Failure::Ambiguous, ErrorKind::ConnectionLost)
    };
    // A connection that was closed before anything was written to it is
    // as good as none.
    let nothing_done = progress.nothing_sent() || is_refused(&error);
    let failure = if nothing_done { Failure::NotSent } else { failure };
    let not_sent = failure == Failure::NotSent || progress.not_whole();
    let outcome = if not_sent { Outcome::NotSent } else { Outcome::Unknown };
    let error = Error::new(kind, outcome).with_source(error.without_url());
    Failed { failure, error }
}

/// An HTTP/2 server says that it did not process the request: it refused the
/// stream, or it goes away and the stream is not among those that it still
/// works on. The ones that it does hear nothing of that (RFC 9113 §6.8, §8.7).
#[cfg(feature = "http2")]
fn is_refused(error: &reqwest::Error) -> bool {
    causes(error).filter_map(|cause| cause.downcast_ref::<h2::Error>()).any(|error| {
        let refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
        error.is_remote() && (refused || error.is_go_away())
    })
}

#[cfg(not(feature = "http2"))]
fn is_refused(_: &reqwest::Error) -> bool {
    false
}

/// Why no secure connection was made: TLS says so, or the other side went
/// away after TCP had connected.
fn is_tls(error: &reqwest::Error, https: bool) -> bool {
    causes(error).any(|cause| {
        #[cfg(feature = "rustls")]
        if cause.is::<rustls::Error>() {
            return true;
        }
        #[cfg(feature = "native-tls")]
        if cause.is::<native_tls::Error>() {
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
