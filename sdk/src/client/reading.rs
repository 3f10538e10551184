//! Attachments being read and encoded, a part at a time.
//!
//! A file's content is mostly in the system's memory already. Linux can be asked
//! for what is there and nothing more: that is read on the way, as fast as a
//! copy. Everything else is read on a thread that may wait for it.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Mutex;

use bytes::{Bytes, BytesMut};

use super::body::BodyFailure;
use crate::email::Source;

/// How much of an attachment is encoded at once: a multiple of three, so that
/// only the last part is padded. hyper takes parts until it has 408 KiB, which
/// is what one of these makes, so two are alive at most.
pub(super) const PART: usize = 306 * 1024;

/// How much is read at once: little enough to be still in the processor's
/// cache when it is encoded, and a multiple of three too.
const BLOCK: usize = 48 * 1024;

pub(super) struct Reading {
    source: Source,
    reader: Option<Reader>,
    /// How much was read.
    at: u64,
    left: u64,
    block: Vec<u8>,
    pub(super) email: usize,
    pub(super) attachment: usize,
}

enum Reader {
    File(File),
    /// Never locked: the mutex makes it what reqwest wants of a body, `Sync`.
    Other(Mutex<Box<dyn Read + Send>>),
}

impl Reading {
    pub(super) fn new(source: Source, email: usize, attachment: usize) -> Self {
        let left = source.length();
        Self { source, reader: None, at: 0, left, block: Vec::new(), email, attachment }
    }

    /// How much of it the next part takes.
    pub(super) fn part(&self) -> usize {
        usize::try_from(self.left).unwrap_or(PART).min(PART)
    }

    /// Whether all of it was read, its end included.
    pub(super) fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Reads and encodes the next part if that needs no waiting, or else does
    /// nothing.
    pub(super) fn read_now(&mut self, out: &mut [u8]) -> bool {
        let Some(Reader::File(file)) = &self.reader else { return false };
        let part = self.part();
        let mut done = 0;
        for out in out.chunks_mut(BLOCK / 3 * 4) {
            let block = &mut self.block[..(part - done).min(BLOCK)];
            if cached(file, block, self.at + done as u64) != Some(block.len()) {
                return false;
            }
            encode(block, out);
            done += block.len();
        }
        // As in `read`: what is not the whole file never looks complete.
        let ends = part as u64 == self.left;
        if ends && cached(file, &mut [0], self.at + done as u64) != Some(0) {
            return false;
        }
        self.at += done as u64;
        self.left -= done as u64;
        true
    }

    /// Reads and encodes the next part, however long that takes.
    pub(super) fn read(mut self, mut out: BytesMut) -> Result<(Bytes, Self), BodyFailure> {
        if self.reader.is_none() {
            let opened = match &self.source {
                Source::Path(path, _) => File::open(path).map(Reader::File),
                source => source.open().map(|reader| Reader::Other(Mutex::new(reader))),
            };
            match opened {
                Ok(reader) => self.reader = Some(reader),
                Err(error) => return Err(self.failure("it cannot be opened", Some(error))),
            }
        }
        let mut wanted = self.part();
        self.block.resize(BLOCK.min(wanted.max(self.block.len())).max(1), 0);
        for out in out.chunks_mut(BLOCK / 3 * 4) {
            let length = wanted.min(BLOCK);
            self.fill(length)?;
            encode(&self.block[..length], out);
            wanted -= length;
        }
        // The last part goes out only when nothing comes after it, so that a
        // body that is not the whole file never looks complete.
        if self.left == 0 {
            match self.read_some(0, 1) {
                Ok(0) => {}
                Ok(_) => return Err(self.failure("it is longer than it was", None)),
                Err(error) => return Err(self.failure("it cannot be read", Some(error))),
            }
        }
        Ok((out.freeze(), self))
    }

    fn fill(&mut self, length: usize) -> Result<(), BodyFailure> {
        let mut filled = 0;
        while filled < length {
            match self.read_some(filled, length) {
                Ok(0) => return Err(self.failure("it is shorter than it was", None)),
                Ok(count) => {
                    filled += count;
                    self.at += count as u64;
                    self.left -= count as u64;
                }
                Err(error) => return Err(self.failure("it cannot be read", Some(error))),
            }
        }
        Ok(())
    }

    /// Reads into a place of the block.
    fn read_some(&mut self, start: usize, end: usize) -> io::Result<usize> {
        let place = &mut self.block[start..end];
        loop {
            let read = match &mut self.reader {
                Some(Reader::File(file)) => read_at(file, place, self.at),
                Some(Reader::Other(reader)) => match reader.get_mut() {
                    Ok(reader) => reader.read(place),
                    Err(_) => Ok(0),
                },
                None => Ok(0),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(count) if count > place.len() => {
                    return Err(io::Error::other(
                        "it says that it read more than there was room for",
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

/// Reads what of a file is in memory; `None` where it cannot be told.
#[cfg(target_os = "linux")]
fn cached(file: &File, place: &mut [u8], at: u64) -> Option<usize> {
    use rustix::io::{ReadWriteFlags, preadv2};
    preadv2(file, &mut [io::IoSliceMut::new(place)], at, ReadWriteFlags::NOWAIT).ok()
}

#[cfg(not(target_os = "linux"))]
fn cached(_: &File, _: &mut [u8], _: u64) -> Option<usize> {
    None
}

#[cfg(unix)]
fn read_at(file: &File, place: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, place, at)
}

/// It is read by nobody else, so it is where it was.
#[cfg(not(unix))]
fn read_at(mut file: &File, place: &mut [u8], _: u64) -> io::Result<usize> {
    file.read(place)
}

/// `out` is as long as it takes.
pub(super) fn encode(bytes: &[u8], out: &mut [u8]) {
    let _ = base64_simd::STANDARD.encode(bytes, base64_simd::Out::from_slice(out));
}
