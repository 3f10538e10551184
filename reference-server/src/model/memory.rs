//! Common budgets of memory: for reading and rendering large messages, and for responses with
//! them that are being sent.

use std::cell::RefCell;
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
struct ReservedResponse {
    _work: Reserved,
    response: [Option<OwnedSemaphorePermit>; 2],
}

tokio::task_local! {
    /// What the handler of the current request has reserved.
    static RESERVED: RefCell<Option<ReservedResponse>>;
}

/// Like [`reserve`], and waits first until there is memory for a response to a client of this
/// organization. The work does not depend on the client, so its memory is free again soon. The
/// reservation belongs to the current request: see [`reserving`].
pub(crate) async fn reserve_response(organization: i64, size: usize) {
    let response = acquire_response(organization, size, RESPONSE_FACTOR).await;
    let reserved = ReservedResponse { _work: reserve(size).await, response };
    // Outside of requests there is no response.
    let _ = RESERVED.try_with(|slot| slot.replace(Some(reserved)));
}

async fn acquire_response(
    organization: i64,
    size: usize,
    factor: usize,
) -> [Option<OwnedSemaphorePermit>; 2] {
    static FREE: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(RESPONSES)));
    let own = acquire(&share(organization), size, factor, RESPONSES_EACH).await;
    let all = acquire(&FREE, size, factor, RESPONSES_EACH).await;
    [own, all]
}

/// Runs the handler of a request. Returns also what it has reserved for its response.
pub(crate) async fn reserving<T>(handler: impl Future<Output = T>) -> (T, ResponseMemory) {
    let scope = async {
        let result = handler.await;
        (result, ResponseMemory(RESERVED.with(RefCell::take)))
    };
    RESERVED.scope(RefCell::default(), scope).await
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

/// The memory that a request has reserved for its response.
pub(crate) struct ResponseMemory(Option<ReservedResponse>);

/// Whether a response of this size, in bytes, counts toward the budget for responses.
pub(crate) fn counts(size: usize) -> bool {
    size >= SMALL
}

impl ResponseMemory {
    /// The body of the response, which keeps as much of the budget as it takes until it has been
    /// sent. Waits for memory if the request has reserved none.
    pub(crate) async fn keep(self, organization: i64, bytes: Bytes) -> Bytes {
        let reserved = self.0.map(|reserved| reserved.response);
        let kept = match reserved {
            Some([Some(mut own), Some(mut all)]) => {
                let kib = bytes.len() >> 10;
                [&mut own, &mut all].map(|permit| permit.split(kib.min(permit.num_permits())))
            }
            _ => acquire_response(organization, bytes.len(), 1).await,
        };
        Bytes::from_owner(Kept { bytes, _reserved: kept })
    }
}

struct Kept {
    bytes: Bytes,
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

    /// The body of a response of this size, unless it would have to wait.
    fn respond(organization: i64, size: usize, reserved: bool) -> Option<Bytes> {
        let handler = async {
            if reserved {
                reserve_response(organization, size).await;
            }
        };
        let response = async {
            let ((), memory) = reserving(handler).await;
            memory.keep(organization, vec![0; size].into()).await
        };
        response.now_or_never()
    }

    #[tokio::test]
    async fn slow_clients_of_one_organization_leave_memory_for_others() {
        let size = 24 << 20;
        let mut sent = Vec::new();
        while let Some(response) = respond(-1, size, true) {
            sent.push(response);
        }
        assert_eq!(sent.len(), 3);
        assert!(respond(-2, size, true).is_some());
        sent.clear();
        assert!(respond(-1, size, true).is_some());
        // What was not reserved counts at its size.
        while let Some(response) = respond(-1, size, false) {
            sent.push(response);
        }
        assert_eq!(sent.len(), 4);
        assert!(respond(-2, size, false).is_some());
    }
}
