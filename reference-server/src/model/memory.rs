//! The common budget of memory for reading and rendering large messages in the background.

use std::sync::{Arc, LazyLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The budget for the work, in KiB, of all servers of this process.
const BUDGET: usize = 192 << 10;
/// What takes less, in bytes, does not wait for others.
const SMALL: usize = 256 << 10;
/// How much memory the work on a message takes, as a multiple of its size: its parts, its
/// source with Base64, its parsed form, and the response.
const FACTOR: usize = 6;

/// A part of the budget for the work, until this is dropped.
pub(crate) struct Reserved {
    _permit: Option<OwnedSemaphorePermit>,
}

/// Waits until there is memory to work on a message of this size, in bytes. Do not call it
/// while you have reserved memory for work.
pub(crate) async fn reserve(size: usize) -> Reserved {
    static FREE: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(BUDGET)));
    Reserved { _permit: acquire(&FREE, size, FACTOR, BUDGET).await }
}

async fn acquire(
    free: &Arc<Semaphore>,
    size: usize,
    factor: usize,
    max: usize,
) -> Option<OwnedSemaphorePermit> {
    if size < SMALL {
        return None;
    }
    let kib = (size.saturating_mul(factor) >> 10).min(max);
    // The semaphores are never closed.
    Arc::clone(free).acquire_many_owned(kib as u32).await.ok()
}
