//! Files in a request: text, files in Base64, text, with an exact length and in flat memory. Each
//! attempt gets a new body.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::task::{JoinHandle, spawn_blocking};

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
        Ok(Chunks { file: File::open(&self.path)?, left: self.length })
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
        match content.len() as u64 == wanted {
            true if wanted == 0 => Ok(None),
            true => Ok(Some(base64_simd::STANDARD.encode_to_string(&content).into())),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, CHANGED)),
        }
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
    /// Its length in the body.
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::File { source, .. } => source.length.div_ceil(3).saturating_mul(4),
        }
    }
}

/// A body that reads the files while it is sent. An error ends the request before its end.
pub(super) struct FileBody {
    pieces: Arc<[Piece]>,
    /// Index of the current piece.
    next: usize,
    /// A chunk that is being read on a thread that may block.
    reading: Option<JoinHandle<ReadChunk>>,
    /// The open file, between two chunks.
    chunks: Option<Chunks>,
    left: u64,
}

type ReadChunk = io::Result<(Option<Bytes>, Chunks)>;

impl FileBody {
    pub(super) fn new(pieces: &Arc<[Piece]>) -> Self {
        let left = pieces.iter().map(Piece::length).fold(0, u64::saturating_add);
        Self { pieces: Arc::clone(pieces), next: 0, reading: None, chunks: None, left }
    }

    fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
        source: &FileSource,
    ) -> Poll<io::Result<Option<Bytes>>> {
        let source = source.clone();
        let chunks = self.chunks.take();
        let reading = self.reading.get_or_insert_with(|| {
            spawn_blocking(move || {
                let mut chunks = match chunks {
                    Some(chunks) => chunks,
                    None => source.open()?,
                };
                Ok((chunks.next_chunk()?, chunks))
            })
        });
        let read = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        let (chunk, chunks) = read.unwrap_or_else(|cancelled| Err(io::Error::other(cancelled)))?;
        self.chunks = chunk.is_some().then_some(chunks);
        Poll::Ready(Ok(chunk))
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        loop {
            let Some(piece) = self.pieces.get(self.next).cloned() else {
                return Poll::Ready(None);
            };
            let data = match piece {
                Piece::Text(text) => {
                    self.next += 1;
                    text
                }
                Piece::File { source, email, attachment } => {
                    match ready!(self.poll_chunk(cx, &source)) {
                        Ok(Some(chunk)) => chunk,
                        Ok(None) => {
                            self.next += 1;
                            continue;
                        }
                        Err(error) => {
                            let error = unreadable(email, attachment, error);
                            return Poll::Ready(Some(Err(error)));
                        }
                    }
                }
            };
            self.left = self.left.saturating_sub(data.len() as u64);
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// The body ends before its length, so the service has no complete request.
fn unreadable(email: usize, attachment: usize, error: io::Error) -> Error {
    let problem = match error.kind() {
        io::ErrorKind::InvalidData => CHANGED,
        _ => "cannot be read",
    };
    Error::new(ErrorKind::attachment(email, attachment, problem), Outcome::NotSent)
        .with_source(error)
}
