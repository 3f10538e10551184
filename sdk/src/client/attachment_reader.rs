//! Reads and encodes attachments in chunks.
//!
//! The content of a file is usually in the page cache. Linux can be asked to return only
//! what is cached: such chunks are read in place, as fast as a copy. Everything else is
//! read on a thread that may block.

use std::fs::File;
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
    reader: Option<OpenSource>,
    /// Bytes read so far.
    offset: u64,
    left: u64,
    block: Vec<u8>,
    pub(super) email: usize,
    pub(super) attachment: usize,
}

enum OpenSource {
    File(File),
    /// Never locked. The mutex only provides the `Sync` that reqwest requires of a body.
    Other(Mutex<Box<dyn Read + Send>>),
}

impl AttachmentReader {
    pub(super) fn new(source: Source, email: usize, attachment: usize) -> Self {
        let left = source.length();
        Self { source, reader: None, offset: 0, left, block: Vec::new(), email, attachment }
    }

    /// Length of the next chunk before encoding.
    pub(super) fn next_chunk_len(&self) -> usize {
        usize::try_from(self.left).unwrap_or(CHUNK_SIZE).min(CHUNK_SIZE)
    }

    /// Whether everything was read, including the check for the end.
    pub(super) fn is_finished(&self) -> bool {
        self.left == 0
    }

    /// Reads and encodes the next chunk if that does not block. Returns false, without any
    /// effect, if it would.
    pub(super) fn read_cached(&mut self, out: &mut [u8]) -> bool {
        let Some(OpenSource::File(file)) = &self.reader else { return false };
        let length = self.next_chunk_len();
        let mut done = 0;
        for out in out.chunks_mut(BLOCK_SIZE / 3 * 4) {
            let block = &mut self.block[..(length - done).min(BLOCK_SIZE)];
            if read_cached_at(file, block, self.offset + done as u64) != Some(block.len()) {
                return false;
            }
            encode(block, out);
            done += block.len();
        }
        // As in `read`: make sure that the file ends here.
        let ends = length as u64 == self.left;
        if ends && read_cached_at(file, &mut [0], self.offset + done as u64) != Some(0) {
            return false;
        }
        self.offset += done as u64;
        self.left -= done as u64;
        true
    }

    /// Reads and encodes the next chunk. May block.
    pub(super) fn read(mut self, mut out: BytesMut) -> Result<(Bytes, Self), BodyFailure> {
        if self.reader.is_none() {
            let opened = match &self.source {
                Source::Path(path, _) => File::open(path).map(OpenSource::File),
                source => source.open().map(|reader| OpenSource::Other(Mutex::new(reader))),
            };
            match opened {
                Ok(reader) => self.reader = Some(reader),
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
                    self.offset += count as u64;
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
        loop {
            let read = match &mut self.reader {
                Some(OpenSource::File(file)) => read_at(file, buffer, self.offset),
                Some(OpenSource::Other(reader)) => match reader.get_mut() {
                    Ok(reader) => reader.read(buffer),
                    Err(_) => Ok(0),
                },
                None => Ok(0),
            };
            match read {
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

/// Reads the part that is in the page cache; `None` if that cannot be determined.
#[cfg(target_os = "linux")]
fn read_cached_at(file: &File, buffer: &mut [u8], offset: u64) -> Option<usize> {
    use rustix::io::{ReadWriteFlags, preadv2};
    preadv2(file, &mut [io::IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT).ok()
}

#[cfg(not(target_os = "linux"))]
fn read_cached_at(_: &File, _: &mut [u8], _: u64) -> Option<usize> {
    None
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

/// Only this reader uses the file, so its position is right.
#[cfg(not(unix))]
fn read_at(mut file: &File, buffer: &mut [u8], _: u64) -> io::Result<usize> {
    file.read(buffer)
}

/// Encodes `bytes` as Base64 into `out`, which has the exact length.
pub(super) fn encode(bytes: &[u8], out: &mut [u8]) {
    let _ = base64_simd::STANDARD.encode(bytes, base64_simd::Out::from_slice(out));
}
