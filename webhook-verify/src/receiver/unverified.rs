//! Limits the memory of bodies that wait for their verification.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::Rejection;

/// The bodies that are being received by a receiver and its clones.
///
/// If there is no memory left for a body, the body that has waited longest gives up its
/// own: a genuine delivery arrives within moments, and a sender that holds memory on
/// purpose does not. New deliveries are thus accepted whatever such senders do.
#[derive(Default)]
pub(super) struct Unverified(Mutex<State>);

#[derive(Default)]
struct State {
    bytes: usize,
    next: u64,
    /// In the order in which they began to arrive.
    bodies: BTreeMap<u64, Held>,
}

struct Held {
    bytes: usize,
    evicted: Arc<Notify>,
}

impl Unverified {
    /// Registers a body that is about to be read. Its connection needs `buffers` bytes, which
    /// are part of the limit.
    pub(super) fn begin(self: &Arc<Self>, limit: usize, buffers: usize) -> Result<Slot, Rejection> {
        let evicted = Arc::new(Notify::new());
        let number = self.with(|state| {
            let number = state.next;
            state.next += 1;
            state.bodies.insert(number, Held { bytes: 0, evicted: evicted.clone() });
            number
        });
        let slot = Slot { unverified: self.clone(), limit, number, bytes: 0, evicted };
        slot.take(buffers)?;
        Ok(slot)
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        // A panic cannot leave the state inconsistent, so a poisoned lock is usable.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn remove(&mut self, number: u64) -> Option<Held> {
        let held = self.bodies.remove(&number)?;
        self.bytes -= held.bytes;
        Some(held)
    }

    /// The body that has waited longest, of those that hold memory.
    fn oldest(&self) -> Option<u64> {
        self.bodies.iter().find(|(_, held)| held.bytes > 0).map(|(number, _)| *number)
    }
}

/// The memory of one body. It is given back on drop.
pub(super) struct Slot {
    unverified: Arc<Unverified>,
    limit: usize,
    number: u64,
    bytes: usize,
    evicted: Arc<Notify>,
}

impl Slot {
    /// Takes memory, so that the body has `bytes` bytes in total.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Rejection> {
        let more = bytes.saturating_sub(self.bytes);
        self.bytes = bytes;
        self.take(more)
    }

    fn take(&self, more: usize) -> Result<(), Rejection> {
        let (number, limit) = (self.number, self.limit);
        let granted = self.unverified.with(|state| {
            while state.bodies.contains_key(&number) && state.bytes + more > limit {
                let oldest = state.oldest().unwrap_or(number);
                if let Some(held) = state.remove(oldest) {
                    held.evicted.notify_one();
                }
            }
            let Some(held) = state.bodies.get_mut(&number) else { return false };
            held.bytes += more;
            state.bytes += more;
            true
        });
        if granted { Ok(()) } else { Err(self.rejection()) }
    }

    /// Waits until the body must give up its memory.
    pub(super) async fn evicted(&self) -> Rejection {
        self.evicted.notified().await;
        self.rejection()
    }

    /// The memory that the body has, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn rejection(&self) -> Rejection {
        Rejection::Overloaded { limit: self.limit }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.unverified.with(|state| drop(state.remove(self.number)));
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn is_evicted(slot: &Slot) -> bool {
        pin!(slot.evicted()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn the_body_that_has_waited_longest_gives_up_its_memory() {
        let unverified = Arc::new(Unverified::default());
        let begin = || unverified.begin(100, 0).unwrap();
        let (idle, mut first, mut second, mut third) = (begin(), begin(), begin(), begin());
        first.grow(40).unwrap();
        second.grow(40).unwrap();
        third.grow(20).unwrap();
        third.grow(30).unwrap();
        assert!(is_evicted(&first) && !is_evicted(&second) && !is_evicted(&third));
        assert!(!is_evicted(&idle), "it holds no memory");
        assert_eq!(first.grow(41), Err(Rejection::Overloaded { limit: 100 }));

        drop(second);
        third.grow(100).unwrap();
        drop(first);
        assert_eq!(unverified.with(|state| (state.bytes, state.bodies.len())), (100, 2));
        assert_eq!(third.grow(101), Err(Rejection::Overloaded { limit: 100 }));
        drop((idle, third));
        assert_eq!(unverified.with(|state| (state.bytes, state.bodies.len())), (0, 0));
    }

    #[test]
    fn the_buffers_of_a_connection_count() {
        let unverified = Arc::new(Unverified::default());
        let begin = || unverified.begin(100, 40).unwrap();
        let (first, mut second) = (begin(), begin());
        second.grow(20).unwrap();
        assert!(!is_evicted(&first));
        let third = begin();
        assert!(is_evicted(&first) && !is_evicted(&second) && !is_evicted(&third));
        drop((first, second, third));
        assert_eq!(unverified.with(|state| (state.bytes, state.bodies.len())), (0, 0));
    }
}
