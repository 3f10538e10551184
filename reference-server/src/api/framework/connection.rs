//! Connection I/O below hyper, and the response to a request that cannot be parsed.
//!
//! hyper responds to a malformed request on its own, without a body and a request ID.
//! [`Connection`] discards that response, so that the server can send its own.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use http::Response;
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, timeout};

use super::response;
use crate::api::app::App;
use crate::model::error::{ApiError, Code};
use crate::model::id::{self, Prefix};

/// How long a client may take to read the rejection.
const LINGER: Duration = Duration::from_secs(2);

/// The stream below hyper. Whatever hyper writes while the service has no response in
/// progress is a rejection by hyper itself.
pub(super) struct Connection {
    stream: TcpStream,
    state: ResponseState,
    /// Whether a rejection was discarded.
    rejected: bool,
    /// How long the client may leave what was written unread.
    write_timeout: Duration,
    /// Ends when the client has read nothing for that time.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, state: ResponseState, write_timeout: Duration) -> Self {
        Self { stream, state, rejected: false, write_timeout, stalled: None }
    }

    /// Turns a write that waits for too long into an error.
    fn limit<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.write_timeout;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Returns whether what hyper is about to write is a rejection, which must not be sent.
    fn is_rejection(&mut self) -> bool {
        self.rejected |= self.state.0.load(Ordering::Relaxed) == IDLE;
        self.rejected
    }

    /// After the connection failed: sends an error response to a client that has sent at
    /// least a part of a request, and waits until the client has read it.
    pub(super) async fn reject(mut self, app: &App, error: &hyper::Error, timed_out: bool) {
        let code = match self.rejected {
            true if error.is_parse_too_large() => Code::HeadersTooLarge,
            true => Code::InvalidRequest,
            // hyper writes no response in these cases.
            false if timed_out => Code::RequestTimeout,
            false if error.is_parse_version_h2() => Code::InvalidRequest,
            false => return,
        };
        let rejection = rejection(app, code);
        let send = async {
            self.stream.write_all(&rejection).await?;
            self.stream.shutdown().await?;
            // Closing the socket with unread bytes would reset the connection, and the client
            // might lose the response.
            tokio::io::copy(&mut self.stream, &mut tokio::io::sink()).await
        };
        tokio::select! {
            _ = timeout(LINGER, send) => {}
            () = app.stop.requested() => {}
        }
    }
}

/// The whole response to a request that could not be parsed.
fn rejection(app: &App, code: Code) -> Vec<u8> {
    let message = match code {
        Code::HeadersTooLarge => "the request line or the headers are too large",
        Code::RequestTimeout => "the request line and the headers did not arrive in time",
        _ => "the request is not a valid HTTP/1.1 request",
    };
    let request_id = id::new(Prefix::Request);
    tracing::debug!(request_id, code = code.as_str(), "rejected a malformed request");
    let status = code.status();
    let error = ApiError::new(code, message);
    let (content_type, body) =
        response::error_body(&error, app.settings.compatibility.error_format);
    format!(
        "HTTP/1.1 {} {}\r\ncontent-type: {content_type}\r\nx-request-id: {request_id}\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        status.as_str(),
        status.canonical_reason().unwrap_or_default(),
        body.len()
    )
    .into_bytes()
}

/// Whether the service has a response in progress on this connection.
#[derive(Clone, Default)]
pub(super) struct ResponseState(Arc<AtomicU8>);

/// No request is in progress, and all responses are flushed.
const IDLE: u8 = 0;
/// The service is processing a request or sending the response body.
const IN_PROGRESS: u8 = 1;
/// The response is complete, but may still be in hyper's write buffer.
const UNFLUSHED: u8 = 2;

impl ResponseState {
    /// Marks the start of a request. The response ends when the returned guard, attached
    /// to its body, is dropped.
    pub(super) fn begin(&self) -> ResponseGuard {
        self.0.store(IN_PROGRESS, Ordering::Relaxed);
        ResponseGuard(self.clone())
    }

    fn flushed(&self) {
        // No race: only the task of this connection changes the state.
        if self.0.load(Ordering::Relaxed) == UNFLUSHED {
            self.0.store(IDLE, Ordering::Relaxed);
        }
    }
}

pub(super) struct ResponseGuard(ResponseState);

impl ResponseGuard {
    pub(super) fn attach(self, response: Response<Body>) -> Response<TrackedBody> {
        response.map(|body| TrackedBody { body, _guard: self })
    }
}

impl Drop for ResponseGuard {
    fn drop(&mut self) {
        self.0.0.store(UNFLUSHED, Ordering::Relaxed);
    }
}

/// A response body that marks the response as complete when it is dropped.
pub(super) struct TrackedBody {
    body: Body,
    _guard: ResponseGuard,
}

impl hyper::body::Body for TrackedBody {
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

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_rejection() {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.limit(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_rejection() {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.limit(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(cx));
        self.state.flushed();
        Poll::Ready(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The rejection is still to be sent.
        if self.rejected {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
