//! Files in a request: text, files in Base64, text, with an exact length and in flat memory. Each
//! attempt gets a new body.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use futures_util::stream::{self, StreamExt};
use http_body::{Body, Frame, SizeHint};
use tokio::task::spawn_blocking;

use super::Payload;
use crate::error::{Error, ErrorKind, Outcome};

/// A file and the length that it had when the attachment was created.
#[derive(Clone, PartialEq)]
pub(crate) struct FileSource {
    pub(crate) path: Arc<Path>,
    pub(crate) length: u64,
}

impl FileSource {
    /// Opens the file. May block.
    pub(super) fn open(&self) -> io::Result<Chunks> {
        Ok(Chunks {
            file: File::open(&self.path)?,
            left: self.length,
        })
    }
}

/// A file that is read and encoded in chunks.
pub(super) struct Chunks {
    file: File,
    left: u64,
}

/// A multiple of three, so that only the last chunk is padded.
const CHUNK_SIZE: u64 = 96 * 1024;

impl Chunks {
    /// Reads and encodes the next chunk; `None` at the end. May block. The last chunk is
    /// returned only if the file ends there, so that a changed file never looks complete.
    pub(super) fn next_chunk(&mut self) -> io::Result<Option<Bytes>> {
        let wanted = self.left.min(CHUNK_SIZE);
        self.left -= wanted;
        // At the end, ask for a byte that must not exist.
        let limit = if self.left == 0 { wanted + 1 } else { wanted };
        let mut content = Vec::with_capacity(limit as usize);
        (&mut self.file).take(limit).read_to_end(&mut content)?;
        if content.len() as u64 != wanted {
            return Err(io::Error::new(io::ErrorKind::InvalidData, CHANGED));
        }
        if wanted == 0 {
            return Ok(None);
        }

        let encoded = base64_simd::STANDARD.encode_to_string(&content);
        Ok(Some(encoded.into()))
    }
}

const CHANGED: &str = "has changed its length since the request was built";

#[derive(Clone)]
pub(crate) enum Piece {
    Text(Bytes),
    /// A file, to be encoded as Base64.
    File {
        source: FileSource,
        email: usize,
        attachment: usize,
    },
}

impl Piece {
    /// The length in the body.
    fn length(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::File { source, .. } => source.length.div_ceil(3).saturating_mul(4),
        }
    }
}

/// The length of a body of these pieces.
pub(super) fn length(pieces: &[Piece]) -> u64 {
    pieces
        .iter()
        .map(Piece::length)
        .fold(0, u64::saturating_add)
}

/// Whether the service may have a part of the request: the HTTP client asks for the body when it has
/// a connection, and not before.
#[derive(Clone, Default)]
pub(crate) struct InDoubt(Arc<AtomicBool>);

impl InDoubt {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The outcome of an attempt that got no response.
    pub(crate) fn outcome(&self) -> Outcome {
        if self.get() {
            Outcome::Unknown
        } else {
            Outcome::NotSent
        }
    }

    /// The service has certainly not processed what it got.
    pub(crate) fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The body of an attempt, which tells when it is asked for.
pub(crate) struct AttemptBody {
    content: Content,
    in_doubt: InDoubt,
}

enum Content {
    Bytes(Bytes),
    Files(
        Pin<Box<dyn Stream<Item = Result<Bytes, Error>> + Send + Sync>>,
        u64,
    ),
}

impl AttemptBody {
    pub(crate) fn new(payload: &Payload, in_doubt: &InDoubt) -> Self {
        let content = match payload {
            Payload::Empty => Content::Bytes(Bytes::new()),
            Payload::Bytes(bytes, _) => Content::Bytes(bytes.clone()),
            Payload::Files(pieces) => Content::Files(Box::pin(read(pieces)), payload.length()),
        };
        Self {
            content,
            in_doubt: in_doubt.clone(),
        }
    }
}

impl Body for AttemptBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.in_doubt.set();
        match &mut self.content {
            Content::Bytes(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Bytes(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Content::Files(chunks, _) => chunks
                .poll_next_unpin(context)
                .map(|chunk| chunk.map(|chunk| chunk.map(Frame::data))),
        }
    }

    /// Asked when the head is written, of a body that is empty nothing else.
    fn is_end_stream(&self) -> bool {
        self.in_doubt.set();
        matches!(&self.content, Content::Bytes(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Bytes(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Files(_, length) => SizeHint::with_exact(*length),
        }
    }
}

/// Reads the files piece by piece. An error ends the request before its end.
fn read(pieces: &Arc<[Piece]>) -> impl Stream<Item = Result<Bytes, Error>> + Send + Sync + 'static {
    let state = (Arc::clone(pieces), 0, None::<Chunks>);
    stream::try_unfold(state, |(pieces, mut next, mut chunks)| async move {
        loop {
            let data = match pieces.get(next) {
                None => return Ok(None),
                Some(Piece::Text(text)) => {
                    next += 1;
                    text.clone()
                }
                Some(Piece::File {
                    source,
                    email,
                    attachment,
                }) => {
                    let source = source.clone();
                    let open = chunks.take();
                    // On a thread that may block.
                    let read = spawn_blocking(move || -> io::Result<_> {
                        let mut chunks = open.map_or_else(|| source.open(), Ok)?;
                        Ok((chunks.next_chunk()?, chunks))
                    });
                    let read = read
                        .await
                        .unwrap_or_else(|stopped| Err(io::Error::other(stopped)));
                    let (chunk, open) =
                        read.map_err(|error| unreadable(*email, *attachment, error))?;
                    let Some(chunk) = chunk else {
                        next += 1;
                        continue;
                    };
                    chunks = Some(open);
                    chunk
                }
            };
            return Ok(Some((data, (pieces, next, chunks))));
        }
    })
}

/// The body ends before its length, so the service has no complete request.
fn unreadable(email: usize, attachment: usize, error: io::Error) -> Error {
    let problem = match error.kind() {
        io::ErrorKind::InvalidData => CHANGED,
        _ => "cannot be read",
    };
    Error::new(
        ErrorKind::attachment(email, attachment, problem),
        Outcome::NotSent,
    )
    .with_source(error)
}
