//! One HTTP exchange: sends a request with reqwest, directly or through tower layers, and
//! classifies its errors by whether the request may have been processed.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;

use super::attempt::Failed;
use super::body;
pub(super) use super::body::{Pace, Progress};
use super::call::Request;
use super::retry::Failure;
use super::shared::Shared;
use crate::{Error, ErrorKind, Outcome};

pub(super) type BoxError = Box<dyn StdError + Send + Sync>;

/// A response whose body has not been read yet.
pub(super) struct Incoming {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    /// Whether a browser followed a redirect. This client follows none.
    pub(super) redirected: bool,
    body: Body,
}

enum Body {
    Plain(reqwest::Response),
    #[cfg(feature = "tower")]
    Layered(super::layer::Body),
}

/// Sends the request and waits for the head of the response.
pub(super) async fn send(
    shared: &Shared,
    request: &Request,
    headers: HeaderMap,
    progress: &Arc<Progress>,
    pace: Pace,
) -> Result<Incoming, Failed> {
    #[cfg(feature = "tower")]
    if let Some(layers) = &shared.layered {
        return send_through(layers, shared, request, headers, progress, pace).await;
    }
    let http = shared.connections.current().map_err(Failed::permanent)?;
    let body = body::body(&request.payload, progress, pace);
    let url = shared.url(request).into_owned();
    let mut outgoing = reqwest::Request::new(request.method.clone(), url);
    *outgoing.headers_mut() = headers;
    *outgoing.body_mut() = Some(reqwest::Body::wrap(body));
    let response = http.execute(outgoing).await;
    let mut response = response.map_err(|error| classify_error(shared, error, progress))?;
    Ok(Incoming {
        status: response.status().as_u16(),
        headers: std::mem::take(response.headers_mut()),
        redirected: false,
        body: Body::Plain(response),
    })
}

#[cfg(feature = "tower")]
async fn send_through(
    layers: &super::layer::Layered,
    shared: &Shared,
    request: &Request,
    headers: HeaderMap,
    progress: &Arc<Progress>,
    pace: Pace,
) -> Result<Incoming, Failed> {
    use tower::ServiceExt;

    let request_url = shared.layer_url(request).map_err(Failed::permanent)?;
    let uri = request_url.uri.clone();
    // How far a layer reads the body does not matter. What is handed to reqwest reports to
    // `progress`.
    let read_by_layers = Arc::new(Progress::default());
    let body = body::body(&request.payload, &read_by_layers, pace);
    let mut outgoing = http::Request::new(super::Body::outgoing(body, request_url));
    *outgoing.method_mut() = request.method.clone();
    *outgoing.uri_mut() = uri;
    *outgoing.headers_mut() = headers;
    outgoing.extensions_mut().insert(super::layer::Tracker(Arc::clone(progress)));
    let strays = layers.strays();
    let response = layers.service.clone().oneshot(outgoing).await;
    if layers.strays() != strays {
        progress.complete();
    }
    let response = response.map_err(|error| {
        if let Some(failed) = attachment_failure(&read_by_layers, progress) {
            return failed;
        }
        match error.downcast::<reqwest::Error>() {
            Ok(error) => classify_error(shared, *error, progress),
            Err(error) => match error.downcast::<Error>() {
                // This crate's own, made before anything was sent.
                Ok(error) => Failed::permanent(*error),
                // An error of a layer. The body's progress tells whether anything was sent,
                // unless the request still exists, for example in a layer's queue.
                Err(error) => {
                    let not_sent = progress.is_incomplete() && Arc::strong_count(progress) == 1;
                    let outcome = if not_sent { Outcome::NotSent } else { Outcome::Unknown };
                    let error = Error::new(ErrorKind::Layer, outcome).with_source(error);
                    Failed::permanent(error)
                }
            },
        }
    })?;
    let (head, body) = response.into_parts();
    Ok(Incoming {
        status: head.status.as_u16(),
        headers: head.headers,
        redirected: false,
        body: Body::Layered(body),
    })
}

impl Incoming {
    /// Length of the body, if known.
    pub(super) fn length(&self) -> Option<u64> {
        match &self.body {
            Body::Plain(response) => response.content_length(),
            #[cfg(feature = "tower")]
            Body::Layered(body) => http_body::Body::size_hint(body).exact(),
        }
    }

    /// Returns the next chunk of the body; `None` at its end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, BoxError> {
        match &mut self.body {
            Body::Plain(response) => {
                Ok(response.chunk().await.map_err(reqwest::Error::without_url)?)
            }
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

/// The failure of an attachment that was being read, if that is why there is no response.
fn attachment_failure(read: &Progress, sent: &Progress) -> Option<Failed> {
    let failure = read.failure().or(sent.failure())?;
    let kind = ErrorKind::Attachment {
        email: failure.email,
        attachment: failure.attachment,
        problem: failure.problem,
    };
    // The body ended early, so the service did not receive a complete request, unless a
    // layer sent something else.
    let not_sent = sent.failure().is_some() || sent.is_incomplete();
    let outcome = if not_sent { Outcome::NotSent } else { Outcome::Unknown };
    let mut error = Error::new(kind, outcome);
    if let Some(source) = &failure.source {
        error = error.with_source(Arc::clone(source));
    }
    Some(Failed::permanent(error))
}

/// Classifies an error of a request without a response.
fn classify_error(shared: &Shared, error: reqwest::Error, progress: &Progress) -> Failed {
    if let Some(failed) = attachment_failure(progress, progress) {
        return failed;
    }
    if error.is_builder() {
        let error = Error::config("the request cannot be built").with_source(error.without_url());
        return Failed::permanent(error);
    }
    let (failure, kind) = if error.is_connect() {
        let https = shared.base.scheme() == "https";
        let kind = if is_tls(&error, https) { ErrorKind::Tls } else { ErrorKind::Connect };
        (Failure::NotSent, kind)
    } else if error.is_timeout() {
        // Only `configure_http` sets timeouts of the HTTP client's own.
        (Failure::Ambiguous, ErrorKind::Timeout)
    } else if is_not_http(&error) {
        let problem = "not an HTTP response, or its head is too large; check the base URL";
        (Failure::Permanent, ErrorKind::InvalidResponse { problem: problem.to_owned() })
    } else {
        (Failure::Ambiguous, ErrorKind::ConnectionLost)
    };
    // If the connection was closed before anything was written to it, the request was not
    // sent.
    let not_processed = progress.not_started() || is_http2_refusal(&error);
    let failure = if not_processed {
        Failure::NotSent
    } else if kind == ErrorKind::ConnectionLost && progress.is_incomplete() {
        Failure::CutOff
    } else {
        failure
    };
    let not_sent = failure == Failure::NotSent || progress.is_incomplete();
    let outcome = if not_sent { Outcome::NotSent } else { Outcome::Unknown };
    let error = Error::new(kind, outcome).with_source(error.without_url());
    Failed { failure, error }
}

/// Whether an HTTP/2 server declared that it did not process the request: it refused the
/// stream, or it sent GOAWAY and the stream is not among those it still processes (RFC 9113
/// §6.8, §8.7).
#[cfg(feature = "http2")]
fn is_http2_refusal(error: &reqwest::Error) -> bool {
    causes(error).filter_map(|cause| cause.downcast_ref::<h2::Error>()).any(|error| {
        let refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
        error.is_remote() && (refused || error.is_go_away())
    })
}

#[cfg(not(feature = "http2"))]
fn is_http2_refusal(_: &reqwest::Error) -> bool {
    false
}

/// Whether a failed connection is a TLS failure: the TLS library reported it, or the server
/// closed the connection after TCP had connected.
fn is_tls(error: &reqwest::Error, https: bool) -> bool {
    causes(error).any(|cause| {
        #[cfg(feature = "_rustls")]
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
        // An I/O error does not return its inner error from `source`.
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn StdError + 'static)),
            None => error.source(),
        }
    })
}
