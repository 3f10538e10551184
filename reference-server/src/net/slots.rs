//! Bounds on what is in progress, in all and for each organization.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::store::lock;

pub(crate) struct Slots {
    all: Arc<Semaphore>,
    /// For each organization, so that a slow one leaves room for others.
    each: usize,
    /// How often one waited although its organization had a free slot.
    waits: AtomicU64,
    organizations: Mutex<HashMap<i64, Arc<Semaphore>>>,
}

/// The right to one of the things that are bounded.
pub(crate) struct Slot {
    _all: Option<OwnedSemaphorePermit>,
    _own: Option<OwnedSemaphorePermit>,
}

impl Slots {
    pub(crate) fn new(all: usize, each: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all)),
            each,
            waits: AtomicU64::new(0),
            organizations: Mutex::default(),
        }
    }

    /// Waits for a slot.
    pub(crate) async fn acquire(&self, organization: i64) -> Slot {
        let own = {
            let mut organizations = lock(&self.organizations);
            // Those that nobody holds or waits for are free.
            organizations.retain(|_, slots| Arc::strong_count(slots) > 1);
            let new = || Arc::new(Semaphore::new(self.each));
            Arc::clone(organizations.entry(organization).or_insert_with(new))
        };
        // The semaphores are never closed.
        let own = own.acquire_owned().await.ok();
        let all = match Arc::clone(&self.all).try_acquire_owned() {
            Ok(slot) => Some(slot),
            Err(_) => {
                self.waits.fetch_add(1, Ordering::Relaxed);
                Arc::clone(&self.all).acquire_owned().await.ok()
            }
        };
        Slot { _own: own, _all: all }
    }

    /// How often one waited for a slot that another organization had.
    pub(crate) fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_organization_leaves_room_for_others() {
        let slots = Slots::new(3, 2);
        let is_free = async |organization| {
            let slot = slots.acquire(organization);
            tokio::time::timeout(std::time::Duration::ZERO, slot).await.ok()
        };
        let own = [slots.acquire(1).await, slots.acquire(1).await];
        assert!(is_free(1).await.is_none());
        let other = is_free(2).await;
        assert_eq!((other.is_some(), slots.waits()), (true, 0));
        assert!(is_free(3).await.is_none());
        assert_eq!(slots.waits(), 1);
        drop(own);
        assert!(is_free(1).await.is_some());
    }
}
