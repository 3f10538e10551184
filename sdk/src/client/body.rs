//! Bodies on their way out: what was taken of them is noted, because that
//! tells a request that may have been processed from one that was not.

use std::io::Read;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::task::JoinHandle;

use super::payload::{Payload, Piece, Streamed};
use crate::email::Source;

/// What became of a body during one attempt.
#[derive(Default)]
pub(crate) struct Progress {
    stage: AtomicU8,
    failure: OnceLock<BodyFailure>,
}

// 0: there is no body to tell anything by.
const WAITING: u8 = 1;
const BEGUN: u8 = 2;
const WHOLE: u8 = 3;

impl Progress {
    /// Whether certainly nothing was sent: a body's first part is taken before
    /// even the request's head is written.
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
pub(crate) fn body(payload: &Payload, progress: &Arc<Progress>) -> Option<reqwest::Body> {
    let body = match payload {
        Payload::Empty => return None,
        Payload::Bytes(bytes, _) if bytes.is_empty() => return None,
        Payload::Bytes(bytes, _) => {
            reqwest::Body::wrap(Whole { bytes: bytes.clone(), progress: Arc::clone(progress) })
        }
        Payload::Streamed(streamed) => reqwest::Body::wrap(Stream {
            left: streamed.length,
            streamed: Arc::clone(streamed),
            next: 0,
            content: None,
            progress: Arc::clone(progress),
        }),
    };
    progress.reach(WAITING);
    Some(body)
}

struct Whole {
    bytes: Bytes,
    progress: Arc<Progress>,
}

impl Body for Whole {
    type Data = Bytes;
    type Error = BodyFailure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyFailure>>> {
        self.progress.reach(WHOLE);
        let bytes = std::mem::take(&mut self.bytes);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

struct Stream {
    streamed: Arc<Streamed>,
    /// The piece to begin with next.
    next: usize,
    content: Option<Content>,
    left: u64,
    progress: Arc<Progress>,
}

/// How much of an attachment is read at once: a multiple of three, so that
/// only the last part is padded. hyper takes parts until it has 408 KiB; two of
/// these are just that, so the fewest changes of thread for the least memory.
const PART: usize = 153 * 1024;

enum Content {
    InMemory(Bytes),
    /// A part being read ahead, on a thread that may block.
    Reading {
        job: JoinHandle<Result<Part, BodyFailure>>,
        email: usize,
        attachment: usize,
    },
}

struct Part {
    encoded: Bytes,
    /// What is left to read.
    rest: Option<Reading>,
}

struct Reading {
    source: Source,
    reader: Option<Box<dyn Read + Send>>,
    left: u64,
    buffer: Vec<u8>,
    email: usize,
    attachment: usize,
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
                let left = source.length();
                let reading =
                    Reading { source, reader: None, left, buffer: Vec::new(), email, attachment };
                self.content = Some(reading.start());
            }
        }
        Some(Bytes::new())
    }

    fn poll_content(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, BodyFailure>> {
        match &mut self.content {
            None => Poll::Ready(Ok(Bytes::new())),
            Some(Content::InMemory(bytes)) => {
                let part = bytes.split_to(bytes.len().min(PART));
                if bytes.is_empty() {
                    self.content = None;
                }
                Poll::Ready(Ok(encode(&part)))
            }
            Some(Content::Reading { job, email, attachment }) => {
                let part = ready!(Pin::new(job).poll(cx)).unwrap_or_else(|_| {
                    Err(BodyFailure {
                        email: *email,
                        attachment: *attachment,
                        problem: "its source panicked or was cancelled",
                        source: None,
                    })
                })?;
                self.content = part.rest.map(Reading::start);
                Poll::Ready(Ok(part.encoded))
            }
        }
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = BodyFailure;

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

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

impl Reading {
    fn start(self) -> Content {
        let (email, attachment) = (self.email, self.attachment);
        let job = tokio::task::spawn_blocking(move || self.read());
        Content::Reading { job, email, attachment }
    }

    fn read(mut self) -> Result<Part, BodyFailure> {
        if self.reader.is_none() {
            self.reader = Some(match self.source.open() {
                Ok(reader) => reader,
                Err(error) => return Err(self.failure("it cannot be opened", Some(error))),
            });
        }
        let wanted = usize::try_from(self.left).unwrap_or(PART).min(PART);
        self.buffer.resize(wanted, 0);
        let mut filled = 0;
        while filled < wanted {
            match self.read_some(filled) {
                Ok(0) => return Err(self.failure("it is shorter than it was", None)),
                Ok(count) => filled += count,
                Err(error) => return Err(self.failure("it cannot be read", Some(error))),
            }
        }
        self.left -= wanted as u64;
        let encoded = encode(&self.buffer);
        if self.left > 0 {
            return Ok(Part { encoded, rest: Some(self) });
        }
        // The last part goes out only when nothing comes after it, so that a
        // body that is not the whole file never looks complete.
        self.buffer.resize(1, 0);
        match self.read_some(0) {
            Ok(0) => Ok(Part { encoded, rest: None }),
            Ok(_) => Err(self.failure("it is longer than it was", None)),
            Err(error) => Err(self.failure("it cannot be read", Some(error))),
        }
    }

    fn read_some(&mut self, from: usize) -> std::io::Result<usize> {
        let Some(reader) = &mut self.reader else { return Ok(0) };
        loop {
            match reader.read(&mut self.buffer[from..]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn failure(&self, problem: &'static str, source: Option<std::io::Error>) -> BodyFailure {
        BodyFailure {
            email: self.email,
            attachment: self.attachment,
            problem,
            source: source.map(Arc::new),
        }
    }
}

fn encode(bytes: &[u8]) -> Bytes {
    base64_simd::STANDARD.encode_type::<Vec<u8>>(bytes).into()
}
