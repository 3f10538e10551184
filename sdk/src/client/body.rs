//! Files in a request: text, files in Base64, text, with an exact length and in flat memory. Each
//! attempt gets a new body.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http_body::{Body, Frame};
use http_body_util::StreamBody;
use tokio::task::spawn_blocking;

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
        match content.len() as u64 == wanted {
            true if wanted == 0 => Ok(None),
            true => Ok(Some(
                base64_simd::STANDARD.encode_to_string(&content).into(),
            )),
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

/// A body of these pieces, which reads the files while it is sent. An error ends the request
/// before its end. The length of the body is in the request's headers.
pub(super) fn body(
    pieces: &Arc<[Piece]>,
) -> impl Body<Data = Bytes, Error = Error> + Send + Sync + 'static {
    let state = (Arc::clone(pieces), 0, None::<Chunks>);
    StreamBody::new(stream::try_unfold(
        state,
        |(pieces, mut next, mut chunks)| async move {
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
                        let (source, open) = (source.clone(), chunks.take());
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
                return Ok(Some((Frame::data(data), (pieces, next, chunks))));
            }
        },
    ))
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
