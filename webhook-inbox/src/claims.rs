//! Which worker holds a row, for how long, and when a row is tried again. It knows nothing of
//! deliveries: any table with the columns `id`, `status`, `owner`, `token`, `attempts`, `crashes`,
//! `due_at` and `delay`, and a table of workers beside it, can use it.
//!
//! A worker marks rows as its own and increments its `beat` three times in its lease. Others watch
//! the beat by their own monotonic clock, so no clock that is set can end a lease. A row whose
//! worker has vanished is tried again alone: only then is it known to be the cause if it happens
//! again, and only then does the attempt count.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::database::{Row, Value};

/// The rows that can be claimed together.
const WAITING: &str = "status = 'pending' AND owner IS NULL AND crashes = 0";

/// The rows that are tried alone.
const ALONE: &str = "status = 'pending' AND owner IS NULL AND crashes > 0";

/// A table whose rows are claimed, and that of its workers.
#[derive(Clone, Copy)]
pub(crate) struct Claims {
    pub(crate) rows: &'static str,
    pub(crate) workers: &'static str,
}

impl Claims {
    /// A statement of `sql/`, without its comments. `now_ms()` is the clock of the database, in
    /// milliseconds since 1970: each database puts its own expression in its place.
    pub(crate) fn sql(self, text: &str) -> String {
        let lines = text.lines().filter(|line| !line.starts_with("--"));
        let statement = lines.collect::<Vec<_>>().join(" ");
        statement
            .replace("{rows}", self.rows)
            .replace("{workers}", self.workers)
            .replace("{waiting}", WAITING)
            .replace("{alone}", ALONE)
    }

    /// Claims the rows whose ids a query returns.
    pub(crate) fn claim(self, ids: &str, columns: &str) -> String {
        let claim = self.sql(include_str!("sql/claim.sql"));
        claim.replace("{ids}", ids).replace("{columns}", columns)
    }

    pub(crate) fn fail(self) -> String {
        self.sql(include_str!("sql/fail.sql"))
    }

    pub(crate) fn release(self, except: &[i64]) -> String {
        // No row has the id 0, and a list must not be empty.
        let mut held = "0".to_owned();
        for id in except {
            held.push_str(&format!(", {id}"));
        }
        let release = self.sql(include_str!("sql/release.sql"));
        release.replace("{held}", &held)
    }

    pub(crate) fn abandon(self) -> String {
        self.sql(include_str!("sql/abandon.sql"))
    }

    pub(crate) fn beat(self) -> String {
        self.sql(include_str!("sql/beat.sql"))
    }

    pub(crate) fn beats(self) -> String {
        self.sql(include_str!("sql/beats.sql"))
    }

    pub(crate) fn bound(self) -> String {
        self.sql(include_str!("sql/bound.sql"))
    }

    /// How many rows the worker `$1` holds.
    pub(crate) fn held(self) -> String {
        self.sql("SELECT count(*) FROM {rows} WHERE owner = $1 AND status = 'pending'")
    }

    /// Removes the worker `$1`, if it holds nothing.
    pub(crate) fn leave(self) -> String {
        self.sql(include_str!("sql/leave.sql"))
    }
}

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
    /// Takes the rows of [`Claims::beats`], and returns the workers whose beat has stood still for
    /// their lease.
    pub(crate) fn vanished(&mut self, beats: &[Row]) -> Vec<i64> {
        let now = Instant::now();
        let mut vanished = Vec::new();
        let mut seen = HashMap::new();
        for row in beats {
            let [id, beat, lease] = [0, 1, 2].map(|column: usize| row[column].int());
            let known = self.seen.remove(&id).filter(|known| known.beat == beat);
            let since = known.map_or(now, |known| known.since);
            if now - since >= Duration::from_millis(lease.unsigned_abs()) {
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
    pub(crate) fn was_set_back(&mut self, now: &Value) -> bool {
        const TOLERANCE: i64 = 2000;
        let (at, now) = (Instant::now(), now.int());
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
        let row = |id, beat| vec![Value::Int(id), Value::Int(beat), Value::Int(30_000)];
        let lease = Duration::from_secs(30);
        assert!(watch.vanished(&[row(1, 5), row(2, 8)]).is_empty());
        tokio::time::advance(lease / 2).await;
        assert!(watch.vanished(&[row(1, 5), row(2, 9)]).is_empty());
        tokio::time::advance(lease / 2).await;
        assert_eq!(watch.vanished(&[row(1, 5), row(2, 9)]), [1]);
        watch.restart();
        assert!(watch.vanished(&[row(1, 5), row(2, 9)]).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_was_set_back_is_noticed() {
        let mut clock = Clock::default();
        assert!(clock.was_set_back(&Value::Int(10_000_000)), "at the start");
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!clock.was_set_back(&Value::Int(10_010_000)));
        assert!(!clock.was_set_back(&Value::Int(13_610_000)), "an hour on");
        assert!(clock.was_set_back(&Value::Int(10_010_000)));
        assert!(!clock.was_set_back(&Value::Int(10_010_001)));
    }
}
