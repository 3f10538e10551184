//! Common budgets of memory: for reading and rendering large messages, and for responses with
//! them that are being sent.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The budget for the work, in KiB, of all servers of this process.
const BUDGET: usize = 192 << 10;
/// What takes less, in bytes, does not wait for others.
const SMALL: usize = 256 << 10;
/// How much memory the work on a message takes, as a multiple of its size: its parts, its
/// source with Base64, its parsed form, and the response.
const FACTOR: usize = 6;

/// The budget for responses, in KiB: of all organizations, and of each, so that its slow
/// clients leave memory for others.
const RESPONSES: usize = 192 << 10;
const RESPONSES_EACH: usize = RESPONSES / 2;
/// The size of a response, as a multiple of the size of the message, before it is known.
const RESPONSE_FACTOR: usize = 2;

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

/// Memory for a response, and for the work until there is one.
pub(crate) struct ReservedResponse {
    work: Reserved,
    response: [Option<OwnedSemaphorePermit>; 2],
}

/// Like [`reserve`], and waits first until there is memory for a response to a client of this
/// organization. The work does not depend on the client, so its memory is free again soon.
pub(crate) async fn reserve_response(organization: i64, size: usize) -> ReservedResponse {
    static FREE: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(RESPONSES)));
    let own = acquire(&share(organization), size, RESPONSE_FACTOR, RESPONSES_EACH).await;
    let all = acquire(&FREE, size, RESPONSE_FACTOR, RESPONSES_EACH).await;
    ReservedResponse { work: reserve(size).await, response: [own, all] }
}

/// The budget of one organization for responses.
fn share(organization: i64) -> Arc<Semaphore> {
    static SHARES: LazyLock<Mutex<HashMap<i64, Arc<Semaphore>>>> = LazyLock::new(Mutex::default);
    let mut shares = SHARES.lock().unwrap_or_else(PoisonError::into_inner);
    // Those that no response uses are full.
    shares.retain(|_, share| Arc::strong_count(share) > 1);
    let new = || Arc::new(Semaphore::new(RESPONSES_EACH));
    Arc::clone(shares.entry(organization).or_insert_with(new))
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

impl ReservedResponse {
    /// The result of the work, which keeps only as much of the budget for responses as it
    /// takes until it has been sent.
    pub(crate) fn keep(self, bytes: Vec<u8>) -> Bytes {
        let Self { work, response } = self;
        drop(work);
        let kib = bytes.len() >> 10;
        let kept = response.map(|reserved| {
            let mut reserved = reserved?;
            reserved.split(kib.min(reserved.num_permits()))
        });
        Bytes::from_owner(Kept { bytes, _reserved: kept })
    }
}

struct Kept {
    bytes: Vec<u8>,
    _reserved: [Option<OwnedSemaphorePermit>; 2],
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn slow_clients_of_one_organization_leave_memory_for_others() {
        let size = 24 << 20;
        let mut sent = Vec::new();
        while let Some(reserved) = reserve_response(-1, size).now_or_never() {
            sent.push(reserved.keep(vec![0; size]));
        }
        assert_eq!(sent.len(), 3);
        assert!(reserve_response(-2, size).now_or_never().is_some());
        sent.clear();
        assert!(reserve_response(-1, size).now_or_never().is_some());
    }
}
