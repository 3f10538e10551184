//! Budgets of memory for what is large, in KiB each, of all servers of this process: what does not
//! fit waits (`reference-server/LIMITS.md`).

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::model::{Code, Failure, Result};

/// The bodies of requests.
pub(crate) static REQUESTS: Budget = Budget::new(128 << 10);
/// The bodies of responses, until they are sent.
pub(crate) static RESPONSES: Budget = Budget::new(128 << 10);
/// The bodies of webhook attempts.
pub(crate) static ATTEMPTS: Budget = Budget::new(128 << 10);
/// Messages that are parsed or rendered in the background, each of which takes about six times its
/// size: its parts, its source with Base64, its parsed form, and the event.
pub(crate) static MESSAGES: Budget = Budget::new(32 << 10);

/// The content of emails that are handed over to the relay, which takes about three times its size.
pub(crate) static RELAYED: Budget = Budget::new(64 << 10);

/// Smaller sizes, in bytes, do not count.
pub(crate) const SMALL: usize = 256 << 10;

pub(crate) struct Budget {
    kib: usize,
    free: Semaphore,
}

/// A part of a budget, until this is dropped.
pub(crate) type Reserved = Option<SemaphorePermit<'static>>;

impl Budget {
    const fn new(kib: usize) -> Self {
        Self {
            kib,
            free: Semaphore::const_new(kib),
        }
    }

    /// Waits until there is memory for this many bytes. Do not call it while you have reserved a
    /// part of the same budget.
    pub(crate) async fn reserve(&'static self, bytes: usize) -> Reserved {
        if bytes < SMALL {
            return None;
        }
        // The semaphore is never closed.
        self.free
            .acquire_many((bytes >> 10).min(self.kib) as u32)
            .await
            .ok()
    }

    /// Adds `bytes` to what is reserved, for something that grows. It may hold a part of the budget
    /// that another one waits for, so that it gives up after `patience`: 503.
    pub(crate) async fn extend(
        &'static self,
        reserved: &mut Reserved,
        bytes: usize,
        patience: Duration,
    ) -> Result<()> {
        let more = self.free.acquire_many((bytes >> 10) as u32);
        let Ok(Ok(more)) = timeout(patience, more).await else {
            let message = "the server has no memory for this request at the moment";
            return Err(Failure::new(Code::Unavailable, message).retry_after(1));
        };

        match reserved {
            Some(reserved) => reserved.merge(more),
            None => *reserved = Some(more),
        }
        Ok(())
    }
}
