//! A limit on how often this client sends, kept by all its clones.

use std::num::NonZeroU32;
use std::sync::Mutex;
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
    /// When the next attempt is due if they came evenly.
    due: Mutex<Option<Instant>>,
}

impl RateLimit {
    pub(crate) fn new(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        let each = Duration::from_secs(1) / per_second.get();
        Self { each, burst: each * (burst.get() - 1), due: Mutex::new(None) }
    }

    /// Takes the next free place: when the attempt may start. `None` when that
    /// is after the deadline; then no place is taken.
    pub(crate) fn reserve(&self, now: Instant, deadline: Instant) -> Option<Instant> {
        let mut due = self.due.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mine = due.unwrap_or(now).max(now);
        let start = mine.checked_sub(self.burst).map_or(now, |start| start.max(now));
        if start >= deadline {
            return None;
        }
        *due = Some(mine + self.each);
        Some(start)
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
        let at = |_| limit.reserve(now, never).unwrap().duration_since(now).as_millis();
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
        assert_eq!(limit.reserve(now, now + Duration::from_secs(9)), Some(now));
        let soon = now + Duration::from_millis(500);
        assert_eq!(limit.reserve(now, soon), None);
        assert_eq!(limit.reserve(now, soon), None);
        let next = now + Duration::from_secs(1);
        assert_eq!(limit.reserve(now, now + Duration::from_secs(9)), Some(next));
    }
}
