//! The body of a request with attachments from files: text, files in Base64, text, with an
//! exact length and in flat memory. Each attempt gets a new one.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::task::{JoinHandle, spawn_blocking};

use super::payload::{Payload, Piece};
use crate::email::attachment::{AttachmentProblem, Chunks, PathSource};

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

type ReadChunk = Result<(Option<Bytes>, Chunks), AttachmentProblem>;

/// An attachment cannot be read. It ends the request before its end.
#[derive(Clone, Debug, thiserror::Error)]
#[error("attachment {attachment} of email {email}: {problem}")]
pub(super) struct AttachmentFailure {
    pub(super) email: usize,
    pub(super) attachment: usize,
    #[source]
    pub(super) problem: AttachmentProblem,
}

impl FileBody {
    pub(super) fn new(pieces: &Arc<[Piece]>) -> Self {
        let left = Payload::Files(Arc::clone(pieces)).length();
        Self { pieces: Arc::clone(pieces), next: 0, reading: None, chunks: None, left }
    }

    fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
        source: &PathSource,
    ) -> Poll<Result<Option<Bytes>, AttachmentProblem>> {
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
        let (chunk, chunks) = read.unwrap_or(Err(AttachmentProblem::Cancelled))?;
        self.chunks = chunk.is_some().then_some(chunks);
        Poll::Ready(Ok(chunk))
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = AttachmentFailure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AttachmentFailure>>> {
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
                        Err(problem) => {
                            let failure = AttachmentFailure { email, attachment, problem };
                            return Poll::Ready(Some(Err(failure)));
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
