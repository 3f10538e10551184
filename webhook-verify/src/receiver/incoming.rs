//! A body that is being received: within the limits of size, time and memory.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;

use super::unverified::Slot;
use super::{Receiver, Rejection};
use crate::{BodyTooLarge, BufferedVerifier, RequestParts, Scheme, Signature, Verified};

impl<S: Scheme> Receiver<S> {
    /// Checks the signature header and the announced size, before the body is read.
    pub(super) async fn begin(
        &self,
        parts: &impl RequestParts,
        announced: Option<u64>,
        limit: usize,
    ) -> Result<Incoming<S>, Rejection> {
        let signature = Signature::from_header_values(parts.values(S::SIGNATURE_HEADER))?;
        if announced.is_some_and(|bytes| usize::try_from(bytes).map_or(true, |b| b > limit)) {
            return Err(BodyTooLarge { limit }.into());
        }
        let verifier = self.verifier_for(parts).await?;
        Ok(Incoming {
            buffered: verifier.verify_buffered_signature(&signature, limit),
            // One body of the maximum size always fits.
            slot: self.unverified.begin(self.unverified_limit.max(limit)),
            deadline: Deadline::new(self.body_timeout),
            frames: 0,
        })
    }
}

pub(super) struct Incoming<S> {
    buffered: BufferedVerifier<S>,
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

    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<(), Rejection> {
        let capacity = self.buffered.capacity_for(chunk.len())?;
        if capacity > self.slot.bytes() {
            self.slot.grow(capacity)?;
            self.buffered.reserve(capacity);
        }
        Ok(self.buffered.push(chunk)?)
    }

    pub(super) fn finish(self) -> Result<Verified<S, Bytes>, Rejection> {
        Ok(self.buffered.finish()?.map_body(Bytes::from))
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
