//! What carries an attempt in a browser: `fetch`. It tells little of how far a
//! request got, so an attempt without an answer may always have been processed.
//!
//! What it does cannot leave its thread, so it runs in a task of its own, and
//! calls are `Send` here as everywhere.

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

/// Whether the request was handed over.
#[derive(Default)]
pub(super) struct Progress(AtomicBool);

impl Progress {
    pub(super) fn not_whole(&self) -> bool {
        !self.0.load(Ordering::Acquire)
    }
}

/// An answer; its body came with it.
pub(super) struct Incoming {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    /// Another address than the one asked gave it: a browser follows redirects.
    pub(super) elsewhere: bool,
    length: Option<u64>,
    body: Option<Result<Bytes, BoxError>>,
}

/// Sends the request and waits for the answer.
pub(super) async fn send(
    shared: &Shared,
    request: &Request,
    headers: HeaderMap,
    progress: &Arc<Progress>,
) -> Result<Incoming, Failed> {
    let url = shared.url(request).into_owned();
    let mut outgoing = reqwest::Request::new(request.method.clone(), url);
    *outgoing.headers_mut() = headers;
    *outgoing.body_mut() = body(&request.payload)?.map(Into::into);
    progress.0.store(true, Ordering::Release);

    let (mut done, answer) = oneshot::channel();
    let http = shared.http.clone();
    let limit = shared.settings.max_response_size;
    spawn_local(async move {
        let answer = {
            let fetched = pin!(fetch(http, outgoing, limit));
            let nobody_waits = pin!(done.closed());
            match select(fetched, nobody_waits).await {
                Either::Left((answer, _)) => answer,
                // Dropping the request aborts it.
                Either::Right(_) => return,
            }
        };
        let _ = done.send(answer);
    });
    match answer.await {
        Ok(answer) => answer.map_err(broken),
        Err(_) => Err(Failed::finally(Error::new(ErrorKind::ConnectionLost, Outcome::Unknown))),
    }
}

/// `fetch` takes a body whole.
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
                    Failed::finally(failed("it cannot be read").with_source(error))
                })?;
                if (body.len() - before) as u64 != piece.length() {
                    return Err(Failed::finally(failed("its length is not what it was")));
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
    let asked = request.url().clone();
    let mut answer = http.execute(request).await?;
    let mut incoming = Incoming {
        status: answer.status().as_u16(),
        headers: std::mem::take(answer.headers_mut()),
        elsewhere: asked != *answer.url(),
        length: None,
        body: None,
    };
    incoming.length = incoming
        .headers
        .get(http::header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse().ok());
    if incoming.length.is_none_or(|length| length <= limit) {
        incoming.body = Some(answer.bytes().await.map_err(|error| error.without_url().into()));
    }
    Ok(incoming)
}

impl Incoming {
    /// How long the body is said to be.
    pub(super) fn length(&self) -> Option<u64> {
        self.length
    }

    /// The body, the first time.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, BoxError> {
        self.body.take().transpose()
    }
}

fn broken(error: reqwest::Error) -> Failed {
    if error.is_builder() {
        let error = Error::config("the request cannot be built").with_source(error.without_url());
        return Failed::finally(error);
    }
    let lost = Error::new(ErrorKind::ConnectionLost, Outcome::Unknown);
    Failed { failure: Failure::Ambiguous, error: lost.with_source(error.without_url()) }
}
