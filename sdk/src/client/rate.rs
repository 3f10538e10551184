//! A limit on how often this client sends, kept by all its clones.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::time::Instant;

/// Spaces attempts evenly, and lets a burst through after a pause (the generic
/// cell rate algorithm).
#[derive(Debug)]
pub(crate) struct RateLimit {
    /// The time that one attempt takes up.
    each: Duration,
    /// How far ahead of the clock a burst may go.
    burst: Duration,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    /// When the next attempt is due if they came evenly.
    due: Option<Instant>,
    /// Those that were given back and are still to come.
    free: BTreeSet<Instant>,
}

/// When an attempt may start. Dropped without having been used, it is another
/// one's: who gives up waiting holds up nobody.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    pub(crate) start: Instant,
    due: Instant,
    limit: Option<&'a RateLimit>,
}

impl Place<'_> {
    /// The attempt starts.
    pub(crate) fn used(mut self) {
        self.limit = None;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(limit) = self.limit {
            limit.places().free.insert(self.due);
        }
    }
}

impl RateLimit {
    pub(crate) fn new(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        let each = Duration::from_secs(1) / per_second.get();
        Self { each, burst: each * (burst.get() - 1), places: Mutex::default() }
    }

    /// Takes the next free place. `None` when its start is after the deadline;
    /// then none is taken.
    pub(crate) fn reserve(&self, now: Instant, deadline: Instant) -> Option<Place<'_>> {
        let mut places = self.places();
        while places.free.first().is_some_and(|free| *free < now) {
            places.free.pop_first();
        }
        let free = places.free.first().copied();
        let due = free.unwrap_or_else(|| places.due.unwrap_or(now).max(now));
        let start = due.checked_sub(self.burst).map_or(now, |start| start.max(now));
        if start >= deadline {
            return None;
        }
        match free {
            Some(_) => drop(places.free.pop_first()),
            None => places.due = Some(due + self.each),
        }
        Some(Place { start, due, limit: Some(self) })
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
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
            let place = limit.reserve(now, never).unwrap();
            let start = place.start;
            place.used();
            start.duration_since(now).as_millis()
        };
        (0..count).map(at).collect()
    }

    #[test]
    fn a_burst_passes_and_the_rest_is_spaced_evenly() {
        let now = Instant::now();
        assert_eq!(starts(&limit(10, 1), now, 4), [0, 100, 200, 300]);
        assert_eq!(starts(&limit(10, 3), now, 6), [0, 0, 0, 100, 200, 300]);
    }

    #[test]
    fn the_rate_is_kept_after_the_burst_and_the_burst_comes_back() {
        let limit = limit(10, 3);
        let now = Instant::now();
        starts(&limit, now, 3);
        // A second later everything is free again.
        assert_eq!(starts(&limit, now + Duration::from_secs(1), 4), [0, 0, 0, 100]);
    }

    #[test]
    fn what_cannot_start_in_time_takes_no_place() {
        let limit = limit(1, 1);
        let now = Instant::now();
        assert_eq!(starts(&limit, now, 1), [0]);
        let soon = now + Duration::from_millis(500);
        assert!(limit.reserve(now, soon).is_none());
        assert!(limit.reserve(now, soon).is_none());
        assert_eq!(starts(&limit, now, 1), [1_000]);
    }

    #[test]
    fn a_place_that_is_not_used_is_the_next_one_s() {
        let limit = limit(10, 1);
        let now = Instant::now();
        let never = now + Duration::from_secs(3_600);
        let mut waiting: Vec<_> = (0..5).map(|_| limit.reserve(now, never)).collect();
        assert!(waiting.iter().all(Option::is_some));
        // Those of 100 and 300 ms give up; nobody gets a place that is kept.
        drop((waiting.remove(3), waiting.remove(1)));
        assert!(limit.reserve(now, now + Duration::from_millis(50)).is_none());
        assert_eq!(starts(&limit, now, 4), [100, 300, 500, 600]);
        // What was given back too late for anybody is lost.
        drop(waiting);
        let later = now + Duration::from_millis(350);
        assert_eq!(starts(&limit, later, 2), [50, 350]);
    }
}
