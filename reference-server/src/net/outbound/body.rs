//! [`RequestBody`]: the body of a delivery in parts, of which deliveries share the large ones.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// A request body that is sent part by part, with the length of all.
#[derive(Clone)]
pub(crate) struct RequestBody(VecDeque<Bytes>);

impl RequestBody {
    pub(crate) fn new(parts: impl IntoIterator<Item = Bytes>) -> Self {
        Self(parts.into_iter().filter(|part| !part.is_empty()).collect())
    }

    fn size(&self) -> u64 {
        self.0.iter().map(|part| part.len() as u64).sum()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.size())
    }
}
