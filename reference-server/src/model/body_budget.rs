//! The memory for the bodies of the requests in progress, and for what is parsed from them
//! (`docs/undocumented/both-services.md#bounds`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::model::error::{ApiError, Code};

/// For all requests together, in KiB.
const ALL: usize = 320 << 10;
/// For the requests of one organization, so that others have memory left.
const EACH: usize = 192 << 10;
/// How much memory a body takes, as a multiple of its size: the body, and what is parsed from it.
const FACTOR: usize = 2;
/// Bodies up to this size, in bytes, are free: many small requests must not wait for a
/// large one.
pub(crate) const FREE: usize = 64 << 10;

pub(crate) struct BodyBudget {
    all: Arc<Semaphore>,
    shares: Mutex<HashMap<i64, Arc<Semaphore>>>,
}

impl Default for BodyBudget {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(ALL)), shares: Mutex::default() }
    }
}

/// What a body takes of the budget.
#[derive(Default)]
pub(crate) struct Reserved {
    kib: usize,
    permits: Vec<OwnedSemaphorePermit>,
}

impl BodyBudget {
    /// Adds to what a body of this organization has reserved until it has reserved this size, in
    /// bytes. Returns 503 if there is too little memory.
    pub(crate) fn reserve(
        &self,
        organization: i64,
        reserved: &mut Reserved,
        size: usize,
    ) -> Result<(), ApiError> {
        let wanted = if size <= FREE { 0 } else { size.saturating_mul(FACTOR).div_ceil(1024) };
        let Some(more) = wanted.checked_sub(reserved.kib).filter(|more| *more > 0) else {
            return Ok(());
        };
        let kib = u32::try_from(more).unwrap_or(u32::MAX);
        for semaphore in [self.share(organization), Arc::clone(&self.all)] {
            let permit = semaphore.try_acquire_many_owned(kib).map_err(|_| {
                let message = "the server is processing too many large requests";
                ApiError::new(Code::Unavailable, message).retry_after(1)
            })?;
            reserved.permits.push(permit);
        }
        reserved.kib = wanted;
        Ok(())
    }

    fn share(&self, organization: i64) -> Arc<Semaphore> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that no body uses are full.
        shares.retain(|_, share| Arc::strong_count(share) > 1);
        let new = || Arc::new(Semaphore::new(EACH));
        Arc::clone(shares.entry(organization).or_insert_with(new))
    }
}

impl Reserved {
    /// The complete body. It keeps what is reserved until it is not used any more, even if the
    /// client hangs up before.
    pub(crate) fn keep(self, body: Bytes) -> Bytes {
        if self.kib == 0 {
            return body;
        }
        Bytes::from_owner(Kept { body, _permits: self.permits })
    }
}

struct Kept {
    body: Bytes,
    _permits: Vec<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}
