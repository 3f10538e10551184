//! A connection's bytes, and what becomes of a request that cannot even be
//! read. hyper refuses such a head by itself, with an answer that has no body
//! and no id; it is kept from the wire here, and the server's own goes out in
//! its place.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use http::{Response, StatusCode};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::answer;
use crate::app::App;
use crate::error::{ApiError, Code};
use crate::id::{self, Prefix};

/// How long a peer may take to read why it was refused.
const LINGER: Duration = Duration::from_secs(2);

/// The stream under hyper. Whatever hyper writes while no answer of the service
/// is on its way is a refusal of its own.
pub(super) struct Wire {
    stream: TcpStream,
    answers: Answers,
    /// The status of the refusal that was kept back.
    refused: Option<StatusCode>,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, answers: Answers) -> Self {
        Self { stream, answers, refused: None }
    }

    /// Keeps back a refusal of hyper's own.
    fn keeps(&mut self, start: &[u8]) -> bool {
        if self.answers.0.load(Ordering::Relaxed) != CLEAN {
            return false;
        }
        let status = start.get(9..12).and_then(|code| StatusCode::from_bytes(code).ok());
        let refused = status.filter(StatusCode::is_client_error);
        self.refused = self.refused.or(refused);
        refused.is_some()
    }

    /// After the connection has failed: says why to a peer that has sent (a
    /// part of) a head, and waits until it has read that.
    ///
    /// `code` is the reason where hyper has not said one.
    pub(super) async fn refuse(mut self, app: &App, code: Option<Code>) {
        use StatusCode as S;
        let code = match self.refused {
            Some(S::REQUEST_HEADER_FIELDS_TOO_LARGE | S::URI_TOO_LONG) => Code::HeadersTooLarge,
            Some(_) => Code::InvalidRequest,
            None => match code {
                Some(code) => code,
                None => return,
            },
        };
        let head = refusal(app, code);
        let answer = async {
            self.stream.write_all(&head).await?;
            self.stream.shutdown().await?;
            // Closed with bytes unread, the answer would be lost to a reset.
            tokio::io::copy(&mut self.stream, &mut tokio::io::sink()).await
        };
        tokio::select! {
            _ = timeout(LINGER, answer) => {}
            () = app.stopped() => {}
        }
    }
}

/// The whole answer to a head that was not understood.
fn refusal(app: &App, code: Code) -> Vec<u8> {
    let message = match code {
        Code::HeadersTooLarge => "the request's head is larger than is taken",
        Code::RequestTimeout => "the request's head did not arrive in time",
        _ => "what came is no HTTP/1.1 request",
    };
    let request_id = id::new(Prefix::Request);
    tracing::debug!(request_id, code = code.as_str(), "a request that could not be read");
    let status = code.status();
    let error = ApiError::new(code, message);
    let (content_type, body) = answer::error_body(&error, app.settings.switches.errors);
    format!(
        "HTTP/1.1 {} {}\r\ncontent-type: {content_type}\r\nx-request-id: {request_id}\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        status.as_str(),
        status.canonical_reason().unwrap_or_default(),
        body.len()
    )
    .into_bytes()
}

/// Whether an answer of the service is on its way.
#[derive(Clone, Default)]
pub(super) struct Answers(Arc<AtomicU8>);

/// Everything that was answered is written out.
const CLEAN: u8 = 0;
/// A request is with the service, or its answer's body has not ended.
const OPEN: u8 = 1;
/// The answer has ended and may still be in hyper's buffer.
const ENDED: u8 = 2;

impl Answers {
    /// A request has come; its answer ends with the body that holds what this gives.
    pub(super) fn begin(&self) -> Answering {
        self.0.store(OPEN, Ordering::Relaxed);
        Answering(self.clone())
    }

    fn flushed(&self) {
        // One connection, one task: nobody stores in between.
        if self.0.load(Ordering::Relaxed) == ENDED {
            self.0.store(CLEAN, Ordering::Relaxed);
        }
    }
}

pub(super) struct Answering(Answers);

impl Answering {
    pub(super) fn with(self, response: Response<Body>) -> Response<Answered> {
        response.map(|body| Answered { body, _answering: self })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.0.store(ENDED, Ordering::Relaxed);
    }
}

/// A body at whose end the answer is over.
pub(super) struct Answered {
    body: Body,
    _answering: Answering,
}

impl hyper::body::Body for Answered {
    type Data = bytes::Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.keeps(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if slices.first().is_some_and(|first| self.keeps(first)) {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(cx));
        self.answers.flushed();
        Poll::Ready(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The refusal is still to be written.
        if self.refused.is_some() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
