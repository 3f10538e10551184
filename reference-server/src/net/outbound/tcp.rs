//! [`Tcp`]: a connection that knows whether the endpoint has read the last request.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

/// What was sent over a connection.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// How often something was sent after something was received, or at first. Without TLS,
    /// the number of requests.
    turns: AtomicUsize,
    /// The number of writes since something was received.
    writes: AtomicUsize,
    responses: AtomicUsize,
    /// The number of bytes received since the last response.
    received: AtomicUsize,
    /// The endpoint closed the connection, and then refused what was sent.
    is_refused: AtomicBool,
}

impl Traffic {
    pub(super) fn count_response(&self) {
        self.responses.fetch_add(1, Ordering::Relaxed);
        self.received.store(0, Ordering::Relaxed);
    }

    /// Whether the endpoint has certainly not read the request that failed: nothing was sent
    /// since the last response, or all of it arrived after the endpoint had closed the
    /// connection.
    pub(super) fn is_unread(&self) -> bool {
        let responses = self.responses.load(Ordering::Relaxed);
        let is_unsent = responses > 0 && self.turns.load(Ordering::Relaxed) == responses;
        is_unsent || self.may_be_refused() && self.is_refused.load(Ordering::Relaxed)
    }

    /// The connection was used before, and the request was sent at once.
    fn may_be_refused(&self) -> bool {
        self.turns.load(Ordering::Relaxed) > 1 && self.writes.load(Ordering::Relaxed) == 1
    }
}

pub(super) struct Tcp {
    stream: TcpStream,
    traffic: Arc<Traffic>,
    /// The endpoint has closed the connection: when that was, and until when this waits
    /// before it looks again for a reset.
    closed: Option<(Instant, Pin<Box<Sleep>>)>,
}

/// How long a reset may take after the end of the connection: a round trip.
const MAX_RESET_WAIT: Duration = Duration::from_millis(500);
const RESET_CHECK: Duration = Duration::from_millis(5);

/// Maximum size of a response as far as it is read, with everything that precedes it, in bytes: an
/// endpoint could send informational responses, or extensions of chunks, without end.
const MAX_RECEIVED: usize = 256 << 10;

impl Tcp {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, traffic: Arc::default(), closed: None }
    }

    pub(super) fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    /// The endpoint has closed the connection. If it had done so before the request arrived,
    /// its system resets the connection in response to the request; if it has read all of it,
    /// no reset follows.
    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let new = || (Instant::now(), Box::pin(tokio::time::sleep(Duration::ZERO)));
        let (since, wait) = self.closed.get_or_insert_with(new);
        loop {
            if matches!(self.stream.take_error(), Ok(Some(_)) | Err(_)) {
                self.traffic.is_refused.store(true, Ordering::Relaxed);
                return Poll::Ready(());
            }
            if since.elapsed() > MAX_RESET_WAIT {
                return Poll::Ready(());
            }
            ready!(wait.as_mut().poll(cx));
            wait.as_mut().reset(Instant::now() + RESET_CHECK);
        }
    }

    fn written(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(written, Poll::Ready(Ok(count)) if count > 0)
            && self.traffic.writes.fetch_add(1, Ordering::Relaxed) == 0
        {
            self.traffic.turns.fetch_add(1, Ordering::Relaxed);
        }
        written
    }
}

impl AsyncRead for Tcp {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if self.closed.is_none() {
            ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        }
        let received = buffer.filled().len() - before;
        if received > 0 {
            self.traffic.writes.store(0, Ordering::Relaxed);
            let before = self.traffic.received.fetch_add(received, Ordering::Relaxed);
            if before + received > MAX_RECEIVED {
                return Poll::Ready(Err(io::ErrorKind::FileTooLarge.into()));
            }
        } else if self.traffic.may_be_refused() {
            ready!(self.poll_reset(cx));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tcp {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// A connection that has served one request, and the endpoint's side of it.
    async fn used() -> (Tcp, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("an address"));
        let mut client = Tcp::new(stream.await.expect("a connection"));
        let (mut endpoint, _) = listener.accept().await.expect("a connection");
        exchange(&mut client, &mut endpoint).await;
        (client, endpoint)
    }

    async fn exchange(client: &mut Tcp, endpoint: &mut TcpStream) {
        client.write_all(b"request").await.expect("written");
        endpoint.read_exact(&mut [0; 7]).await.expect("read");
        endpoint.write_all(b"response").await.expect("written");
        client.read_exact(&mut [0; 8]).await.expect("read");
        client.traffic.count_response();
    }

    #[tokio::test]
    async fn tells_a_closed_connection_from_one_that_is_closed_after_a_request() {
        let (mut client, endpoint) = used().await;
        drop(endpoint);
        client.write_all(b"request").await.expect("written");
        assert_eq!(client.read(&mut [0; 8]).await.expect("the end"), 0);
        assert!(client.traffic.is_unread(), "closed before the request");

        let (mut client, mut endpoint) = used().await;
        client.write_all(b"request").await.expect("written");
        endpoint.read_exact(&mut [0; 7]).await.expect("read");
        drop(endpoint);
        assert_eq!(client.read(&mut [0; 8]).await.expect("the end"), 0);
        assert!(!client.traffic.is_unread(), "closed after all of the request was read");

        let (mut client, endpoint) = used().await;
        drop(endpoint);
        assert_eq!(client.read(&mut [0; 8]).await.expect("the end"), 0);
        assert!(client.traffic.is_unread(), "closed before anything was written");

        let (mut client, mut endpoint) = used().await;
        client.write_all(b"request").await.expect("written");
        endpoint.write_all(b"resp").await.expect("written");
        client.read_exact(&mut [0; 4]).await.expect("read");
        drop(endpoint);
        client.read(&mut [0; 8]).await.expect_err("a reset");
        assert!(!client.traffic.is_unread(), "closed within the response");

        let (mut client, mut endpoint) = used().await;
        client.write_all(b"request").await.expect("written");
        endpoint.read_exact(&mut [0; 3]).await.expect("read");
        drop(endpoint);
        client.read(&mut [0; 8]).await.expect_err("a reset");
        assert!(!client.traffic.is_unread(), "closed after a part of the request was read");
    }
}
