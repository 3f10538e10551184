//! Which worker holds a row, for how long, and when a row is tried again.
//!
//! A worker marks rows as its own and increments its `beat` three times in its lease. Others watch
//! the beat by their own monotonic clock, so no clock that is set can end a lease. A row whose
//! worker has vanished is tried again alone: only then is it known to be the cause if it happens
//! again, and only then does the attempt count.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// Finds the workers that have vanished.
#[derive(Default)]
pub(crate) struct Watch {
    seen: HashMap<i64, Seen>,
}

struct Seen {
    beat: i64,
    since: Instant,
}

impl Watch {
    /// Takes the workers with their beats and leases in milliseconds, and returns the workers whose beat has stood still for
    /// their lease.
    pub(crate) fn vanished(&mut self, beats: Vec<(i64, i64, u64)>) -> Vec<i64> {
        let now = Instant::now();
        let mut vanished = Vec::new();
        let mut seen = HashMap::new();
        for (id, beat, lease) in beats {
            let known = self.seen.remove(&id).filter(|known| known.beat == beat);
            let since = known.map_or(now, |known| known.since);
            if now - since >= Duration::from_millis(lease) {
                vanished.push(id);
            }
            seen.insert(id, Seen { beat, since });
        }

        self.seen = seen;
        vanished
    }

    /// Begins again, after an outage in which nobody could beat.
    pub(crate) fn restart(&mut self) {
        self.seen.clear();
    }
}

/// Notices when the clock of the database was set back.
#[derive(Default)]
pub(crate) struct Clock {
    last: Option<(Instant, i64)>,
}

impl Clock {
    /// Whether the time of the database is behind what it should be. Also the first time.
    pub(crate) fn was_set_back(&mut self, now: i64) -> bool {
        const TOLERANCE: i64 = 2000;
        let at = Instant::now();
        let before = self.last.replace((at, now));
        before.is_none_or(|(then, time)| {
            let expected = time + (at - then).as_millis() as i64;
            now + TOLERANCE < expected
        })
    }
}

/// The delays between attempts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    pub(crate) first: Duration,
    pub(crate) max: Duration,
}

impl Backoff {
    /// The delay after a failed attempt, which are counted from 1: it doubles with each
    /// attempt up to the maximum, and is between half of that and all of it.
    pub(crate) fn after(self, attempt: u32) -> Duration {
        let factor = 2_u32.saturating_pow(attempt.saturating_sub(1));
        let full = self.first.saturating_mul(factor).min(self.max);
        full.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_maximum_with_jitter() {
        let backoff = Backoff {
            first: Duration::from_secs(5),
            max: Duration::from_secs(60),
        };
        for (attempt, full) in [(1, 5), (2, 10), (4, 40), (5, 60), (40, 60), (u32::MAX, 60)] {
            let full = Duration::from_secs(full);
            let delays: Vec<_> = (0..100).map(|_| backoff.after(attempt)).collect();
            assert!(
                delays
                    .iter()
                    .all(|delay| *delay >= full / 2 && *delay <= full)
            );
            assert!(delays.iter().any(|delay| *delay != delays[0]), "no jitter");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_has_vanished_when_its_beat_stands_still_for_its_lease() {
        let mut watch = Watch::default();
        let row = |id, beat| (id, beat, 30_000);
        let lease = Duration::from_secs(30);
        assert!(watch.vanished(vec![row(1, 5), row(2, 8)]).is_empty());
        tokio::time::advance(lease / 2).await;
        assert!(watch.vanished(vec![row(1, 5), row(2, 9)]).is_empty());
        tokio::time::advance(lease / 2).await;
        assert_eq!(watch.vanished(vec![row(1, 5), row(2, 9)]), [1]);
        watch.restart();
        assert!(watch.vanished(vec![row(1, 5), row(2, 9)]).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_was_set_back_is_noticed() {
        let mut clock = Clock::default();
        assert!(clock.was_set_back(10_000_000), "at the start");
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!clock.was_set_back(10_010_000));
        assert!(!clock.was_set_back(13_610_000), "an hour on");
        assert!(clock.was_set_back(10_010_000));
        assert!(!clock.was_set_back(10_010_001));
    }
}
