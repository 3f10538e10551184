//! Reads and encodes attachments in chunks, on threads that may block.

use std::io::{self, Read};
use std::sync::Mutex;

use bytes::{Bytes, BytesMut};

use super::body::BodyFailure;
use crate::email::Source;

/// Bytes encoded at once: a multiple of three, so that only the last chunk is padded. hyper
/// buffers up to 408 KiB, which is one encoded chunk, so at most two chunks are in memory.
pub(super) const CHUNK_SIZE: usize = 306 * 1024;

/// Bytes read at once: small enough to be in the CPU cache when they are encoded, and also
/// a multiple of three.
const BLOCK_SIZE: usize = 48 * 1024;

pub(super) struct AttachmentReader {
    source: Source,
    /// Never locked. The mutex only provides the `Sync` that reqwest requires of a body.
    reader: Option<Mutex<Box<dyn Read + Send>>>,
    left: u64,
    block: Vec<u8>,
    pub(super) email: usize,
    pub(super) attachment: usize,
}

impl AttachmentReader {
    pub(super) fn new(source: Source, email: usize, attachment: usize) -> Self {
        let left = source.length();
        Self { source, reader: None, left, block: Vec::new(), email, attachment }
    }

    /// Length of the next chunk before encoding.
    pub(super) fn next_chunk_len(&self) -> usize {
        usize::try_from(self.left).unwrap_or(CHUNK_SIZE).min(CHUNK_SIZE)
    }

    /// Whether everything was read, including the check for the end.
    pub(super) fn is_finished(&self) -> bool {
        self.left == 0
    }

    /// Reads and encodes the next chunk. May block.
    pub(super) fn read(mut self, mut out: BytesMut) -> Result<(Bytes, Self), BodyFailure> {
        if self.reader.is_none() {
            match self.source.open() {
                Ok(reader) => self.reader = Some(Mutex::new(reader)),
                Err(error) => return Err(self.failure("cannot be opened", Some(error))),
            }
        }
        let mut wanted = self.next_chunk_len();
        self.block.resize(BLOCK_SIZE.min(wanted.max(self.block.len())).max(1), 0);
        for out in out.chunks_mut(BLOCK_SIZE / 3 * 4) {
            let length = wanted.min(BLOCK_SIZE);
            self.fill(length)?;
            encode(&self.block[..length], out);
            wanted -= length;
        }
        // Send the last chunk only if the source ends there, so that a truncated file never
        // looks complete.
        if self.left == 0 {
            match self.read_some(0, 1) {
                Ok(0) => {}
                Ok(_) => return Err(self.failure("has grown since the request was built", None)),
                Err(error) => return Err(self.failure("cannot be read", Some(error))),
            }
        }
        Ok((out.freeze(), self))
    }

    fn fill(&mut self, length: usize) -> Result<(), BodyFailure> {
        let mut filled = 0;
        while filled < length {
            match self.read_some(filled, length) {
                Ok(0) => return Err(self.failure("has shrunk since the request was built", None)),
                Ok(count) => {
                    filled += count;
                    self.left -= count as u64;
                }
                Err(error) => return Err(self.failure("cannot be read", Some(error))),
            }
        }
        Ok(())
    }

    /// Reads into a range of the block.
    fn read_some(&mut self, start: usize, end: usize) -> io::Result<usize> {
        let buffer = &mut self.block[start..end];
        let Some(Ok(reader)) = self.reader.as_mut().map(Mutex::get_mut) else { return Ok(0) };
        loop {
            match reader.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(count) if count > buffer.len() => {
                    return Err(io::Error::other(
                        "the source reported more bytes than the buffer can hold",
                    ));
                }
                other => return other,
            }
        }
    }

    fn failure(&self, problem: &'static str, source: Option<io::Error>) -> BodyFailure {
        let source = source.map(std::sync::Arc::new);
        BodyFailure { email: self.email, attachment: self.attachment, problem, source }
    }
}

/// Encodes `bytes` as Base64 into `out`, which has the exact length.
pub(super) fn encode(bytes: &[u8], out: &mut [u8]) {
    let _ = base64_simd::STANDARD.encode(bytes, base64_simd::Out::from_slice(out));
}
