//! Client-side rate limit, shared by all clones of a client.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::time::Instant;

/// Spaces attempts evenly and allows bursts after a pause (generic cell rate algorithm).
#[derive(Debug)]
pub(crate) struct RateLimit {
    /// The time between two attempts at the full rate.
    interval: Duration,
    /// How far a burst may run ahead of the schedule.
    burst: Duration,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    /// When the next attempt is due at the full rate.
    due: Option<Instant>,
    /// Future slots that were returned unused.
    free: BTreeSet<Instant>,
}

/// A reserved start time. If it is dropped unused, the slot becomes available again, so a
/// cancelled call does not delay others.
#[derive(Debug)]
pub(crate) struct Slot<'a> {
    pub(crate) start: Instant,
    due: Instant,
    limit: Option<&'a RateLimit>,
}

impl Slot<'_> {
    /// Marks the slot as used: the attempt starts now.
    pub(crate) fn commit(mut self) {
        self.limit = None;
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if let Some(limit) = self.limit {
            limit.slots().free.insert(self.due);
        }
    }
}

impl RateLimit {
    pub(crate) fn new(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        let interval = Duration::from_secs(1) / per_second.get();
        Self { interval, burst: interval * (burst.get() - 1), slots: Mutex::default() }
    }

    /// Reserves the next free slot. If it starts after the deadline, reserves nothing and
    /// returns its start.
    pub(crate) fn reserve(&self, now: Instant, deadline: Instant) -> Result<Slot<'_>, Instant> {
        let mut slots = self.slots();
        while slots.free.first().is_some_and(|free| *free < now) {
            slots.free.pop_first();
        }
        let free = slots.free.first().copied();
        let due = free.unwrap_or_else(|| slots.due.unwrap_or(now).max(now));
        let start = due.checked_sub(self.burst).map_or(now, |start| start.max(now));
        if start >= deadline {
            return Err(start);
        }
        match free {
            Some(_) => drop(slots.free.pop_first()),
            None => slots.due = Some(due + self.interval),
        }
        Ok(Slot { start, due, limit: Some(self) })
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(per_second: u32, burst: u32) -> RateLimit {
        RateLimit::new(NonZeroU32::new(per_second).unwrap(), NonZeroU32::new(burst).unwrap())
    }

    fn starts(limit: &RateLimit, now: Instant, count: usize) -> Vec<u128> {
        let never = now + Duration::from_secs(3_600);
        let at = |_| {
            let slot = limit.reserve(now, never).unwrap();
            let start = slot.start;
            slot.commit();
            start.duration_since(now).as_millis()
        };
        (0..count).map(at).collect()
    }

    #[test]
    fn allows_a_burst_and_spaces_the_rest_evenly() {
        let now = Instant::now();
        assert_eq!(starts(&limit(10, 1), now, 4), [0, 100, 200, 300]);
        assert_eq!(starts(&limit(10, 3), now, 6), [0, 0, 0, 100, 200, 300]);
    }

    #[test]
    fn the_burst_recovers_after_a_pause() {
        let limit = limit(10, 3);
        let now = Instant::now();
        starts(&limit, now, 3);
        // A second later, the whole burst is available again.
        assert_eq!(starts(&limit, now + Duration::from_secs(1), 4), [0, 0, 0, 100]);
    }

    #[test]
    fn reserves_no_slot_after_the_deadline() {
        let limit = limit(1, 1);
        let now = Instant::now();
        assert_eq!(starts(&limit, now, 1), [0]);
        let soon = now + Duration::from_millis(500);
        assert_eq!(limit.reserve(now, soon).unwrap_err(), now + Duration::from_secs(1));
        assert_eq!(limit.reserve(now, soon).unwrap_err(), now + Duration::from_secs(1));
        assert_eq!(starts(&limit, now, 1), [1_000]);
    }

    #[test]
    fn an_unused_slot_is_reused() {
        let limit = limit(10, 1);
        let now = Instant::now();
        let never = now + Duration::from_secs(3_600);
        let mut waiting: Vec<_> = (0..5).map(|_| limit.reserve(now, never)).collect();
        assert!(waiting.iter().all(Result::is_ok));
        // The slots at 100 and 300 ms are returned; occupied slots are not reassigned.
        drop((waiting.remove(3), waiting.remove(1)));
        assert!(limit.reserve(now, now + Duration::from_millis(50)).is_err());
        assert_eq!(starts(&limit, now, 4), [100, 300, 500, 600]);
        // A slot that is returned after its time is lost.
        drop(waiting);
        let later = now + Duration::from_millis(350);
        assert_eq!(starts(&limit, later, 2), [50, 350]);
    }
}
