//! Request bodies that record how much of them was sent, which tells whether a failed
//! request may have been processed.

use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use tokio::task::JoinHandle;
use tokio::time::{Sleep, sleep};

use super::attachment_reader::{AttachmentReader, CHUNK_SIZE, encode};
use super::payload::{Payload, Piece, Streamed};
use crate::email::Source;

/// The progress of a request body during one attempt.
#[derive(Default)]
pub(crate) struct Progress {
    stage: AtomicU8,
    failure: OnceLock<BodyFailure>,
}

/// No connection has accepted the request.
const NOT_STARTED: u8 = 0;
const STARTED: u8 = 1;
const COMPLETE: u8 = 2;

impl Progress {
    /// Whether certainly nothing was sent. The HTTP library asks for the body's first
    /// chunk, or whether there is one, before it writes the request's head.
    pub(crate) fn not_started(&self) -> bool {
        self.stage.load(Ordering::Acquire) == NOT_STARTED
    }

    /// Whether the service certainly did not receive the complete request: the rest of the
    /// body was never taken.
    pub(crate) fn is_incomplete(&self) -> bool {
        matches!(self.stage.load(Ordering::Acquire), NOT_STARTED | STARTED)
    }

    /// The whole body was taken, or it is not known how much.
    #[cfg(feature = "tower")]
    pub(crate) fn complete(&self) {
        self.advance(COMPLETE);
    }

    /// Why the body was aborted.
    pub(crate) fn failure(&self) -> Option<&BodyFailure> {
        self.failure.get()
    }

    fn advance(&self, stage: u8) {
        self.stage.fetch_max(stage, Ordering::AcqRel);
    }
}

/// An attachment that could not be read, or whose length changed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("attachment {}: {problem}", .attachment + 1)]
pub(crate) struct BodyFailure {
    pub(crate) email: usize,
    pub(crate) attachment: usize,
    pub(crate) problem: &'static str,
    #[source]
    pub(crate) source: Option<Arc<std::io::Error>>,
}

/// How fast a body is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    Fast,
    /// With a pause between the request's head and its body, and short ones between chunks,
    /// in which an early response can be read. If the service refuses a request and closes
    /// the connection while the body is being written, the HTTP library reports the failed
    /// write and loses the response.
    Careful,
}

/// The pause after the head of a [`Pace::Careful`] request.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause before every other chunk: the shortest in which sockets are looked at.
const BREATH: Duration = Duration::from_millis(1);

/// Creates the body for one attempt.
pub(crate) fn body(payload: &Payload, progress: &Arc<Progress>, pace: Pace) -> Outgoing {
    let progress = Arc::clone(progress);
    let streamed = match payload {
        // A large body is sent in chunks, so that the progress tells how much was taken.
        Payload::Bytes(bytes, _) if bytes.len() > CHUNK_SIZE => {
            let (pieces, length) = (vec![Piece::Text(bytes.clone())], bytes.len() as u64);
            Arc::new(Streamed { pieces, length })
        }
        Payload::Bytes(bytes, _) if !bytes.is_empty() => {
            return Outgoing::Full(bytes.clone(), progress);
        }
        Payload::Empty | Payload::Bytes(..) => return Outgoing::Empty(progress),
        Payload::Streamed(streamed) => Arc::clone(streamed),
    };
    Outgoing::Stream(Box::new(Stream {
        left: streamed.length,
        streamed,
        next: 0,
        text: Bytes::new(),
        content: None,
        recent: Default::default(),
        pause: (pace == Pace::Careful).then(|| Box::pin(sleep(PAUSE))),
        pace,
        progress,
    }))
}

pub(crate) enum Outgoing {
    Empty(Arc<Progress>),
    Full(Bytes, Arc<Progress>),
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
            Self::Empty(progress) => {
                progress.advance(COMPLETE);
                Poll::Ready(None)
            }
            Self::Full(bytes, progress) => {
                progress.advance(COMPLETE);
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Self::Stream(stream) => Pin::new(&mut **stream).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            // hyper calls this when a connection accepts the request, and never polls a
            // body that has ended. So this call is the only sign of progress.
            Self::Empty(progress) => {
                progress.advance(COMPLETE);
                true
            }
            Self::Full(bytes, _) => bytes.is_empty(),
            Self::Stream(stream) => stream.left == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Self::Empty(_) => 0,
            Self::Full(bytes, _) => bytes.len() as u64,
            Self::Stream(stream) => stream.left,
        })
    }
}

#[cfg(feature = "tower")]
impl Outgoing {
    /// Makes this body report to another progress.
    pub(crate) fn report_to(&mut self, other: Arc<Progress>) {
        match self {
            Self::Empty(progress) | Self::Full(_, progress) => *progress = other,
            Self::Stream(stream) => stream.progress = other,
        }
    }
}

/// A request body that a layer created. How much of it makes a complete request is not
/// known here, so the request counts as sent once a connection has asked for it.
#[cfg(feature = "tower")]
pub(crate) struct Foreign {
    pub(crate) body: reqwest::Body,
    pub(crate) progress: Arc<Progress>,
}

#[cfg(feature = "tower")]
impl Body for Foreign {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, reqwest::Error>>> {
        self.progress.complete();
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        // As for `Outgoing::Empty`.
        self.progress.complete();
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

pub(crate) struct Stream {
    streamed: Arc<Streamed>,
    /// Index of the next piece.
    next: usize,
    /// The rest of the current piece of text.
    text: Bytes,
    content: Option<Content>,
    /// The last two encoded chunks. When the next chunk is requested, the connection has
    /// finished with the older one, and its memory is reused.
    recent: [Bytes; 2],
    left: u64,
    pace: Pace,
    /// The pause before the next chunk.
    pause: Option<Pin<Box<Sleep>>>,
    progress: Arc<Progress>,
}

enum Content {
    InMemory(Bytes),
    Idle(AttachmentReader),
    /// A chunk is being read and encoded on a thread that may block.
    Busy {
        job: JoinHandle<Result<(Bytes, AttachmentReader), BodyFailure>>,
        email: usize,
        attachment: usize,
    },
}

impl Stream {
    fn next_piece(&mut self) -> Option<Bytes> {
        if !self.text.is_empty() {
            return Some(self.text.split_to(self.text.len().min(CHUNK_SIZE)));
        }
        let piece = self.streamed.pieces.get(self.next)?.clone();
        self.next += 1;
        match piece {
            Piece::Text(text) => self.text = text,
            Piece::Content { source: Source::Bytes(bytes), .. } => {
                self.content = Some(Content::InMemory(bytes));
            }
            Piece::Content { source, email, attachment } => {
                let reader = AttachmentReader::new(source, email, attachment);
                self.content = Some(Content::Idle(reader));
            }
        }
        Some(Bytes::new())
    }

    fn poll_content(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, BodyFailure>> {
        let encoded = match self.content.take() {
            None => Bytes::new(),
            Some(Content::InMemory(mut bytes)) => {
                let chunk = bytes.split_to(bytes.len().min(CHUNK_SIZE));
                let mut out = self.take_buffer(chunk.len());
                encode(&chunk, &mut out);
                if !bytes.is_empty() {
                    self.content = Some(Content::InMemory(bytes));
                }
                out.freeze()
            }
            Some(Content::Idle(reader)) => {
                let buffer = self.take_buffer(reader.next_chunk_len());
                let (email, attachment) = (reader.email, reader.attachment);
                let job = tokio::task::spawn_blocking(move || reader.read(buffer));
                self.content = Some(Content::Busy { job, email, attachment });
                return self.poll_content(cx);
            }
            Some(Content::Busy { mut job, email, attachment }) => {
                let Poll::Ready(done) = Pin::new(&mut job).poll(cx) else {
                    self.content = Some(Content::Busy { job, email, attachment });
                    return Poll::Pending;
                };
                let (encoded, reader) = done.unwrap_or_else(|_| {
                    let problem = "its source panicked or was cancelled";
                    Err(BodyFailure { email, attachment, problem, source: None })
                })?;
                self.content = (!reader.is_finished()).then_some(Content::Idle(reader));
                encoded
            }
        };
        self.recent.rotate_left(1);
        self.recent[1] = encoded.clone();
        Poll::Ready(Ok(encoded))
    }

    /// Returns a buffer for the Base64 encoding of `length` bytes.
    fn take_buffer(&mut self, length: usize) -> BytesMut {
        let length = base64_simd::STANDARD.encoded_length(length);
        let mut buffer = std::mem::take(&mut self.recent[0]).try_into_mut().unwrap_or_default();
        buffer.resize(length, 0);
        buffer
    }
}

impl Stream {
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyFailure>>> {
        self.progress.advance(STARTED);
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
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
                match self.next_piece() {
                    Some(data) => data,
                    None => return Poll::Ready(None),
                }
            };
            if !data.is_empty() {
                self.left -= data.len() as u64;
                if self.left == 0 {
                    self.progress.advance(COMPLETE);
                } else if self.pace == Pace::Careful {
                    self.pause = Some(Box::pin(sleep(BREATH)));
                }
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
        }
    }
}
