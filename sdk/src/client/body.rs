//! Bodies on their way out: what was taken of them is noted, because that
//! tells a request that may have been processed from one that was not.

use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use tokio::task::JoinHandle;

use super::payload::{Payload, Piece, Streamed};
use super::reading::{PART, Reading, encode};
use crate::email::Source;

/// What became of a body during one attempt.
#[derive(Default)]
pub(crate) struct Progress {
    stage: AtomicU8,
    failure: OnceLock<BodyFailure>,
}

/// No connection has taken the request.
const WAITING: u8 = 0;
const BEGUN: u8 = 1;
const WHOLE: u8 = 2;

impl Progress {
    /// Whether certainly nothing was sent: a body's first part is taken, or
    /// asked for, before even the request's head is written.
    pub(crate) fn nothing_sent(&self) -> bool {
        self.stage.load(Ordering::Acquire) == WAITING
    }

    /// Whether the service certainly did not get the whole request: the rest of
    /// the body was never taken.
    pub(crate) fn not_whole(&self) -> bool {
        matches!(self.stage.load(Ordering::Acquire), WAITING | BEGUN)
    }

    /// Why it was broken off.
    pub(crate) fn failure(&self) -> Option<&BodyFailure> {
        self.failure.get()
    }

    fn reach(&self, stage: u8) {
        self.stage.fetch_max(stage, Ordering::AcqRel);
    }
}

/// An attachment that could not be sent as announced.
#[derive(Clone, Debug, thiserror::Error)]
#[error("attachment {}: {problem}", .attachment + 1)]
pub(crate) struct BodyFailure {
    pub(crate) email: usize,
    pub(crate) attachment: usize,
    pub(crate) problem: &'static str,
    #[source]
    pub(crate) source: Option<Arc<std::io::Error>>,
}

/// The body for one attempt.
pub(crate) fn body(payload: &Payload, progress: &Arc<Progress>) -> Outgoing {
    let progress = Arc::clone(progress);
    match payload {
        Payload::Bytes(bytes, _) if !bytes.is_empty() => Outgoing::Whole(bytes.clone(), progress),
        Payload::Empty | Payload::Bytes(..) => Outgoing::Nothing(progress),
        Payload::Streamed(streamed) => Outgoing::Stream(Box::new(Stream {
            left: streamed.length,
            streamed: Arc::clone(streamed),
            next: 0,
            content: None,
            sent: Default::default(),
            progress,
        })),
    }
}

pub(crate) enum Outgoing {
    Nothing(Arc<Progress>),
    Whole(Bytes, Arc<Progress>),
    Stream(Box<Stream>),
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BodyFailure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyFailure>>> {
        match &mut *self {
            Self::Nothing(progress) => {
                progress.reach(WHOLE);
                Poll::Ready(None)
            }
            Self::Whole(bytes, progress) => {
                progress.reach(WHOLE);
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Self::Stream(stream) => Pin::new(&mut **stream).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            // hyper asks when a connection takes the request, and never polls a
            // body that has ended: that it asked is all there is to note.
            Self::Nothing(progress) => {
                progress.reach(WHOLE);
                true
            }
            Self::Whole(bytes, _) => bytes.is_empty(),
            Self::Stream(stream) => stream.left == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Self::Nothing(_) => 0,
            Self::Whole(bytes, _) => bytes.len() as u64,
            Self::Stream(stream) => stream.left,
        })
    }
}

pub(crate) struct Stream {
    streamed: Arc<Streamed>,
    /// The piece to begin with next.
    next: usize,
    content: Option<Content>,
    /// The encoded part that went out last, and the one before: by the time
    /// that another one is asked for, the connection is done with that one, and
    /// its memory is used again.
    sent: [Bytes; 2],
    left: u64,
    progress: Arc<Progress>,
}

enum Content {
    InMemory(Bytes),
    Waiting(Reading),
    /// A part being read and encoded, on a thread that may block.
    Busy {
        job: JoinHandle<Result<(Bytes, Reading), BodyFailure>>,
        email: usize,
        attachment: usize,
    },
}

impl Stream {
    fn begin(&mut self) -> Option<Bytes> {
        let piece = self.streamed.pieces.get(self.next)?.clone();
        self.next += 1;
        match piece {
            Piece::Text(text) => return Some(text),
            Piece::Content { source: Source::Bytes(bytes), .. } => {
                self.content = Some(Content::InMemory(bytes));
            }
            Piece::Content { source, email, attachment } => {
                let reading = Reading::new(source, email, attachment);
                self.content = Some(Content::Waiting(reading));
            }
        }
        Some(Bytes::new())
    }

    fn poll_content(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, BodyFailure>> {
        let encoded = match self.content.take() {
            None => Bytes::new(),
            Some(Content::InMemory(mut bytes)) => {
                let part = bytes.split_to(bytes.len().min(PART));
                let mut out = self.room(part.len());
                encode(&part, &mut out);
                if !bytes.is_empty() {
                    self.content = Some(Content::InMemory(bytes));
                }
                out.freeze()
            }
            Some(Content::Waiting(mut reading)) => {
                let mut room = self.room(reading.part());
                if reading.read_now(&mut room) {
                    self.content = (!reading.is_over()).then_some(Content::Waiting(reading));
                    room.freeze()
                } else {
                    let (email, attachment) = (reading.email, reading.attachment);
                    let job = tokio::task::spawn_blocking(move || reading.read(room));
                    self.content = Some(Content::Busy { job, email, attachment });
                    return self.poll_content(cx);
                }
            }
            Some(Content::Busy { mut job, email, attachment }) => {
                let Poll::Ready(done) = Pin::new(&mut job).poll(cx) else {
                    self.content = Some(Content::Busy { job, email, attachment });
                    return Poll::Pending;
                };
                let (encoded, reading) = done.unwrap_or_else(|_| {
                    let problem = "its source panicked or was cancelled";
                    Err(BodyFailure { email, attachment, problem, source: None })
                })?;
                self.content = (!reading.is_over()).then_some(Content::Waiting(reading));
                encoded
            }
        };
        self.sent.rotate_left(1);
        self.sent[1] = encoded.clone();
        Poll::Ready(Ok(encoded))
    }

    /// Room for so many bytes in Base64.
    fn room(&mut self, length: usize) -> BytesMut {
        let length = base64_simd::STANDARD.encoded_length(length);
        let mut room = std::mem::take(&mut self.sent[0]).try_into_mut().unwrap_or_default();
        room.resize(length, 0);
        room
    }
}

impl Stream {
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyFailure>>> {
        self.progress.reach(BEGUN);
        loop {
            let data = if self.content.is_some() {
                match ready!(self.poll_content(cx)) {
                    Ok(data) => data,
                    Err(failure) => {
                        let _ = self.progress.failure.set(failure.clone());
                        return Poll::Ready(Some(Err(failure)));
                    }
                }
            } else {
                match self.begin() {
                    Some(data) => data,
                    None => return Poll::Ready(None),
                }
            };
            if !data.is_empty() {
                self.left -= data.len() as u64;
                if self.left == 0 {
                    self.progress.reach(WHOLE);
                }
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
        }
    }
}
