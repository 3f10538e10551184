//! The body of a request, of which the rest is read if it is refused early.
//!
//! A client that still sends its body when the server closes the connection gets a reset, and not the
//! response that says why (RFC 9112, section 9.6).

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// How long the rest of a body is read, and how long it may pause.
const MAX_TIME: Duration = Duration::from_secs(10);
const MAX_PAUSE: Duration = Duration::from_secs(1);

pub(crate) struct Lingering {
    /// `None` once it has ended or failed.
    body: Option<Incoming>,
    /// Whether some of it was read. A client that waits for `100 Continue` sends nothing before.
    is_read: bool,
    expects_continue: bool,
}

impl Lingering {
    pub(crate) fn new(body: Incoming, expects_continue: bool) -> Self {
        Self {
            body: Some(body),
            is_read: false,
            expects_continue,
        }
    }
}

impl Body for Lingering {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };

        let polled = Pin::new(body).poll_frame(context);
        self.is_read = true;
        if let Poll::Ready(None | Some(Err(_))) = &polled {
            self.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Some(body) => body.size_hint(),
            None => SizeHint::with_exact(0),
        }
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        let Some(body) = self.body.take() else {
            return;
        };

        let is_sent = self.is_read || !self.expects_continue;
        if body.is_end_stream() || !is_sent {
            return;
        }

        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(timeout(MAX_TIME, read_rest(body)));
        }
    }
}

async fn read_rest(mut body: Incoming) {
    while let Ok(Some(Ok(_))) = timeout(MAX_PAUSE, body.frame()).await {}
}
