//! One HTTP exchange in a browser, with `fetch`. It does not report how much of a request
//! was sent, so an attempt without a response may always have been processed.
//!
//! `fetch` is bound to its thread. It runs in a task of its own, so that calls are `Send`
//! as on other platforms.

use std::error::Error as StdError;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::HeaderMap;
use tokio::sync::oneshot;
use wasm_bindgen_futures::spawn_local;

use super::attempt::Failed;
use super::call::Request;
use super::payload::{Payload, Piece, write_content};
use super::retry::Failure;
use super::shared::Shared;
use crate::{Error, ErrorKind, Outcome};

pub(super) type BoxError = Box<dyn StdError + Send + Sync>;

/// `fetch` decides how a body is sent.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Pace {
    Fast,
    Careful,
}

/// Whether the request was passed to `fetch`.
#[derive(Default)]
pub(super) struct Progress(AtomicBool);

impl Progress {
    pub(super) fn not_started(&self) -> bool {
        self.is_incomplete()
    }

    pub(super) fn is_incomplete(&self) -> bool {
        !self.0.load(Ordering::Acquire)
    }
}

/// A response with its body, which is already complete.
pub(super) struct Incoming {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    /// Whether the response comes from another URL: a browser follows redirects.
    pub(super) redirected: bool,
    length: Option<u64>,
    body: Option<Result<Bytes, BoxError>>,
}

/// Sends the request and waits for the response.
pub(super) async fn send(
    shared: &Shared,
    request: &Request,
    headers: HeaderMap,
    progress: &Arc<Progress>,
    _: Pace,
) -> Result<Incoming, Failed> {
    let url = shared.url(request).into_owned();
    let mut outgoing = reqwest::Request::new(request.method.clone(), url);
    *outgoing.headers_mut() = headers;
    *outgoing.body_mut() = body(&request.payload)?.map(Into::into);
    progress.0.store(true, Ordering::Release);

    let (mut done, response) = oneshot::channel();
    let http = shared.connections.current().map_err(Failed::permanent)?;
    let limit = shared.settings.max_response_size;
    spawn_local(async move {
        let response = {
            let fetched = pin!(fetch(http, outgoing, limit));
            let receiver_dropped = pin!(done.closed());
            match select(fetched, receiver_dropped).await {
                Either::Left((response, _)) => response,
                // Dropping the request aborts it.
                Either::Right(_) => return,
            }
        };
        let _ = done.send(response);
    });
    match response.await {
        Ok(response) => response.map_err(classify_error),
        Err(_) => Err(Failed::permanent(Error::new(ErrorKind::ConnectionLost, Outcome::Unknown))),
    }
}

/// Builds the body in memory: `fetch` cannot stream it.
fn body(payload: &Payload) -> Result<Option<Bytes>, Failed> {
    let streamed = match payload {
        Payload::Bytes(bytes, _) if !bytes.is_empty() => return Ok(Some(bytes.clone())),
        Payload::Empty | Payload::Bytes(..) => return Ok(None),
        Payload::Streamed(streamed) => streamed,
    };
    let mut body = Vec::new();
    for piece in &streamed.pieces {
        match piece {
            Piece::Text(text) => body.extend_from_slice(text),
            Piece::Content { source, email, attachment } => {
                let before = body.len();
                let failed = |problem| {
                    let (email, attachment) = (*email, *attachment);
                    let kind = ErrorKind::Attachment { email, attachment, problem };
                    Error::new(kind, Outcome::NotSent)
                };
                write_content(source, &mut body).map_err(|error| {
                    Failed::permanent(failed("cannot be read").with_source(error))
                })?;
                if (body.len() - before) as u64 != piece.length() {
                    return Err(Failed::permanent(failed(
                        "has changed its length since the request was built",
                    )));
                }
            }
        }
    }
    Ok(Some(body.into()))
}

async fn fetch(
    http: reqwest::Client,
    request: reqwest::Request,
    limit: u64,
) -> Result<Incoming, reqwest::Error> {
    let requested_url = request.url().clone();
    let mut response = http.execute(request).await?;
    let mut incoming = Incoming {
        status: response.status().as_u16(),
        headers: std::mem::take(response.headers_mut()),
        redirected: requested_url != *response.url(),
        length: None,
        body: None,
    };
    incoming.length = incoming
        .headers
        .get(http::header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse().ok());
    if incoming.length.is_none_or(|length| length <= limit) {
        incoming.body = Some(response.bytes().await.map_err(|error| error.without_url().into()));
    }
    Ok(incoming)
}

impl Incoming {
    /// Length of the body according to `Content-Length`.
    pub(super) fn length(&self) -> Option<u64> {
        self.length
    }

    /// Returns the whole body at the first call, then `None`.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, BoxError> {
        self.body.take().transpose()
    }
}

fn classify_error(error: reqwest::Error) -> Failed {
    if error.is_builder() {
        let error = Error::config("the request cannot be built").with_source(error.without_url());
        return Failed::permanent(error);
    }
    let lost = Error::new(ErrorKind::ConnectionLost, Outcome::Unknown);
    Failed { failure: Failure::Ambiguous, error: lost.with_source(error.without_url()) }
}
