//! [`reserve`]: a common budget of memory for reading and rendering large messages.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The budget, in KiB, of all servers of this process.
const BUDGET: usize = 192 << 10;
/// What takes less, in bytes, does not wait for others.
const SMALL: usize = 256 << 10;
/// How much memory the work on a message takes, as a multiple of its size: its parts, its
/// source with Base64, its parsed form, and the response.
const FACTOR: usize = 6;

/// A part of the budget, until this is dropped.
pub(crate) struct Reserved(Option<OwnedSemaphorePermit>);

/// Waits until there is memory to work on a message of this size, in bytes. Do not call it
/// while you have reserved memory.
pub(crate) async fn reserve(size: usize) -> Reserved {
    static FREE: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(BUDGET)));
    if size < SMALL {
        return Reserved(None);
    }
    let kib = (size.saturating_mul(FACTOR) >> 10).min(BUDGET);
    // The semaphore is never closed.
    Reserved(Arc::clone(&FREE).acquire_many_owned(kib as u32).await.ok())
}

impl Reserved {
    /// The result of the work, which keeps only as much of the budget as it takes until it
    /// has been sent.
    pub(crate) fn keep(self, bytes: Vec<u8>) -> Bytes {
        let Some(mut reserved) = self.0 else { return bytes.into() };
        let kept = reserved.split((bytes.len() >> 10).min(reserved.num_permits()));
        Bytes::from_owner(Kept { bytes, _reserved: kept })
    }
}

struct Kept {
    bytes: Vec<u8>,
    _reserved: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
