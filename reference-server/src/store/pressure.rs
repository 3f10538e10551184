//! How many requests wait for the writer thread.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Units of background work that a transaction always does, however many requests wait.
pub(super) const MIN_SHARE: usize = 16;

/// Number of jobs that requests wait for, and what the current transaction has done. Jobs use
/// it to limit their work.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    /// In the current transaction.
    pub(super) in_group: AtomicUsize,
    /// In the queue.
    pub(super) waiting: AtomicUsize,
    /// Deliveries that the current transaction has written.
    pub(super) deliveries: AtomicUsize,
}

impl Pressure {
    /// How many units of work a background job may do in this transaction: all that it
    /// wants if no request waits, otherwise about as many as there are awaited jobs, so
    /// that the work that requests cause does not pile up.
    pub(super) fn share(&self, wanted: usize) -> usize {
        match self.in_group.load(Ordering::Relaxed) {
            0 => wanted,
            awaited => wanted.min(awaited.max(MIN_SHARE)),
        }
    }

    /// Whether a background job that has done this many units should leave the rest to
    /// another transaction.
    pub(super) fn is_enough(&self, done: usize) -> bool {
        done >= MIN_SHARE && self.waiting.load(Ordering::Relaxed) > 0 && done >= self.share(done)
    }
}
