//! The data of a message in transfer: dot-stuffing, the final dot, and limits.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// Maximum size of a message in bytes.
pub(super) const MAX_MESSAGE_SIZE: usize = 25 << 20;

/// A message in transfer.
pub(super) struct Data {
    state: State,
    pub(super) source: Vec<u8>,
    pub(super) rejected: Option<Rejected>,
    pub(super) started: Instant,
    budget: Arc<Semaphore>,
    /// What `source` takes of the budget.
    reserved: Option<OwnedSemaphorePermit>,
}

/// Why a message is not kept. The rest of it is still read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rejected {
    TooLarge,
    /// Too many messages are in transfer.
    Busy,
}

/// What precedes the next byte. Only CRLF ends a line, and only CRLF, a dot and CRLF ends
/// the message: whatever else looks like an end could hide a second message (SMTP
/// smuggling).
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Text,
    Cr,
    LineStart,
    Dot,
    DotCr,
}

impl Data {
    /// The message may start with the final dot: it follows the line of the command.
    pub(super) fn new(budget: Arc<Semaphore>) -> Self {
        let (state, started) = (State::LineStart, Instant::now());
        Self { state, source: Vec::new(), rejected: None, started, budget, reserved: None }
    }

    /// Receives message data. Returns `true` at the end of the message.
    pub(super) fn receive(&mut self, bytes: &mut std::slice::Iter<'_, u8>) -> bool {
        let ended = self.read(bytes);
        if self.source.len() > MAX_MESSAGE_SIZE {
            self.rejected = Some(Rejected::TooLarge);
        } else if self.rejected.is_none() && !self.reserve() {
            self.rejected = Some(Rejected::Busy);
        }
        if self.rejected.is_some() {
            self.source = Vec::new();
            self.reserved = None;
        }
        ended
    }

    fn read(&mut self, bytes: &mut std::slice::Iter<'_, u8>) -> bool {
        loop {
            if self.state == State::Text {
                let rest = bytes.as_slice();
                let end = rest.iter().position(|&byte| byte == b'\r').unwrap_or(rest.len());
                self.source.extend_from_slice(&rest[..end]);
                *bytes = rest[end..].iter();
            }
            let Some(&byte) = bytes.next() else { return false };
            self.state = match (self.state, byte) {
                (State::DotCr, b'\n') => return true,
                (State::LineStart, b'.') => State::Dot,
                (State::Dot, b'\r') => State::DotCr,
                (before, byte) => {
                    if before == State::DotCr {
                        self.source.push(b'\r');
                    }
                    self.source.push(byte);
                    match (before, byte) {
                        (State::Cr, b'\n') => State::LineStart,
                        (_, b'\r') => State::Cr,
                        _ => State::Text,
                    }
                }
            };
        }
    }

    fn reserve(&mut self) -> bool {
        let have = self.reserved.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let wanted = self.source.len().div_ceil(1024);
        if wanted <= have {
            return true;
        }
        // In steps, so that not every read has to.
        let more = u32::try_from(wanted - have).unwrap_or(u32::MAX).max(256);
        match Arc::clone(&self.budget).try_acquire_many_owned(more) {
            Ok(permit) => match &mut self.reserved {
                Some(reserved) => reserved.merge(permit),
                None => self.reserved = Some(permit),
            },
            Err(_) => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Receives the input in pieces of this size. Returns the message and what follows it.
    fn receive(input: &[u8], piece: usize) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut data = Data::new(Arc::new(Semaphore::new(1 << 20)));
        let mut at = 0;
        while at < input.len() {
            let end = input.len().min(at + piece);
            let mut bytes = input[at..end].iter();
            if data.receive(&mut bytes) {
                let rest = end - bytes.as_slice().len();
                return Some((data.source, input[rest..].to_vec()));
            }
            at = end;
        }
        None
    }

    #[test]
    fn only_a_dot_between_two_line_breaks_ends_the_message() {
        for (input, message) in [
            (&b"Hi\r\n.\r\nQUIT"[..], &b"Hi\r\n"[..]),
            (b".\r\nQUIT", b""),
            (b"..a\r\n...\r\n.\r\nQUIT", b".a\r\n..\r\n"),
            (b"a\r\n.\r\r\nb\r\n.\r\nQUIT", b"a\r\n\r\r\nb\r\n"),
            (b"a\n.\nb\n.\r\nc\r\n.\nd\r.\re\r\n.\r\nQUIT", b"a\n.\nb\n.\r\nc\r\n\nd\r.\re\r\n"),
            (b"a\r\n.\rb\r\n.\r\nQUIT", b"a\r\n\rb\r\n"),
        ] {
            for piece in [1, 2, 3, 100] {
                let (source, rest) = receive(input, piece).expect("an end");
                assert_eq!(source, message, "{:?}", String::from_utf8_lossy(input));
                assert_eq!(rest, b"QUIT");
            }
        }
        assert_eq!(receive(b"a\r\n.\r\r\n", 100), None);
    }

    #[test]
    fn messages_in_transfer_share_a_budget() {
        let budget = Arc::new(Semaphore::new(1024));
        let mut first = Data::new(Arc::clone(&budget));
        assert!(!first.receive(&mut vec![b'x'; 900 << 10].iter()));
        let mut second = Data::new(Arc::clone(&budget));
        second.receive(&mut vec![b'x'; 300 << 10].iter());
        assert_eq!((first.rejected, second.rejected), (None, Some(Rejected::Busy)));
        assert!(second.receive(&mut b"\r\n.\r\n".iter()), "the rest is read");
        drop(first);
        assert_eq!(budget.available_permits(), 1024);
    }
}
