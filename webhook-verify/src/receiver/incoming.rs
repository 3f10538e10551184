//! A body that is being received: within the limits of size, time and memory.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;

use super::unverified::Slot;
use super::{Receiver, Rejection};
use crate::{BodyTooLarge, RequestParts, Scheme, Signature, StreamVerifier, Verified};

impl<S: Scheme> Receiver<S> {
    /// Checks the signature header and the announced size, before the body is read. The
    /// framework's buffers for the connection need `buffers` bytes.
    pub(super) async fn begin(
        &self,
        parts: &impl RequestParts,
        announced: Option<u64>,
        limit: usize,
        buffers: usize,
    ) -> Result<Incoming<S>, Rejection> {
        let signature = Signature::from_header_values(parts.values(S::SIGNATURE_HEADER))?;
        if announced.is_some_and(|bytes| usize::try_from(bytes).map_or(true, |b| b > limit)) {
            return Err(BodyTooLarge { limit }.into());
        }
        let verifier = self.verifier_for(parts).await?;
        Ok(Incoming {
            verifier: verifier.verify_stream_signature(&signature),
            blocks: Vec::new(),
            length: 0,
            limit,
            // One body of the maximum size always fits.
            slot: self
                .unverified
                .begin(self.unverified_limit.max(limit.saturating_add(buffers)), buffers)?,
            deadline: Deadline::new(self.body_timeout),
            frames: 0,
        })
    }
}

pub(super) struct Incoming<S> {
    verifier: StreamVerifier<S>,
    /// Memory of a few sizes, which the allocator can reuse for other bodies. A single
    /// buffer that grows would leave gaps.
    blocks: Vec<Vec<u8>>,
    length: usize,
    limit: usize,
    slot: Slot,
    deadline: Deadline,
    frames: u32,
}

impl<S: Scheme> Incoming<S> {
    /// Waits for the next frame of the body, until the deadline.
    pub(super) async fn next<T>(&mut self, frame: impl Future<Output = T>) -> Result<T, Rejection> {
        // A body whose frames are always ready would never let other tasks run.
        const FRAMES_PER_TURN: u32 = 32;
        self.frames = self.frames.wrapping_add(1);
        if self.frames.is_multiple_of(FRAMES_PER_TURN) {
            yield_now().await;
        }
        tokio::select! {
            biased;
            rejection = self.slot.evicted() => Err(rejection),
            rejection = self.deadline.passed() => Err(rejection),
            frame = frame => Ok(frame),
        }
    }

    pub(super) fn push(&mut self, mut chunk: &[u8]) -> Result<(), Rejection> {
        const MIN_BLOCK: usize = 4 * 1024;
        const MAX_BLOCK: usize = 64 * 1024;
        if chunk.len() > self.limit - self.length {
            return Err(BodyTooLarge { limit: self.limit }.into());
        }
        self.length += chunk.len();
        self.verifier.update(chunk);
        while !chunk.is_empty() {
            let last = self.blocks.last_mut().filter(|block| block.len() < block.capacity());
            let Some(block) = last else {
                let held = self.slot.bytes();
                let size = held.max(chunk.len()).clamp(MIN_BLOCK, MAX_BLOCK);
                let size = size.min(self.limit - held);
                self.slot.grow(held + size)?;
                self.blocks.push(Vec::with_capacity(size));
                continue;
            };
            let (fits, rest) = chunk.split_at(chunk.len().min(block.capacity() - block.len()));
            block.extend_from_slice(fits);
            chunk = rest;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Verified<S, Bytes>, Rejection> {
        let verified = self.verifier.finish()?;
        let body = match self.blocks.len() {
            0 | 1 => self.blocks.pop().unwrap_or_default(),
            _ => self.blocks.concat(),
        };
        Ok(Verified::new(Bytes::from(body), verified.tag(), verified.matched_secret()))
    }
}

/// Lets other tasks run.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
struct Deadline(Option<(Duration, std::pin::Pin<Box<tokio::time::Sleep>>)>);

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
impl Deadline {
    fn new(timeout: Option<Duration>) -> Self {
        Self(timeout.map(|timeout| (timeout, Box::pin(tokio::time::sleep(timeout)))))
    }

    async fn passed(&mut self) -> Rejection {
        match &mut self.0 {
            Some((timeout, sleep)) => {
                sleep.await;
                Rejection::Timeout { timeout: *timeout }
            }
            None => std::future::pending().await,
        }
    }
}

/// There is no timer of tokio: the platform limits the duration of a request.
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
struct Deadline;

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
impl Deadline {
    fn new(_: Option<Duration>) -> Self {
        Self
    }

    async fn passed(&mut self) -> Rejection {
        std::future::pending().await
    }
}
