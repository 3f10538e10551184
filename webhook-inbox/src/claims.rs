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

/// The clock of the database, in milliseconds since 1970.
pub(crate) const NOW: &str = "(extract(epoch FROM now()) * 1000)::bigint";

/// The rows that can be claimed together.
pub(crate) const WAITING: &str = "status = 'pending' AND owner IS NULL AND crashes = 0";

/// The rows that are tried alone.
pub(crate) const ALONE: &str = "status = 'pending' AND owner IS NULL AND crashes > 0";

/// A table whose rows are claimed, and that of its workers.
#[derive(Clone, Copy)]
pub(crate) struct Claims {
    pub(crate) rows: &'static str,
    pub(crate) workers: &'static str,
}

impl Claims {
    /// Claims the rows whose ids a query returns, for the worker `$1`. `$2` is the time limit of
    /// an attempt: version 1 takes over at `due_at`.
    pub(crate) fn claim(self, ids: &str, columns: &str) -> String {
        let rows = self.rows;
        // Without `MATERIALIZED`, the query may run several times, and claim more.
        format!(
            "WITH claimed (id) AS MATERIALIZED ({ids}) \
             UPDATE {rows} SET owner = $1, token = token + 1, attempts = attempts + 1, \
             due_at = $2 + {NOW} WHERE id IN (SELECT id FROM claimed) RETURNING {columns}"
        )
    }

    /// Ends the failed claim `$2` of the row `$1`: the row has the status `$3`, is due after `$4`,
    /// and has the error `$5`. If `$6` is 1, the attempt does not count.
    pub(crate) fn fail(self) -> String {
        let rows = self.rows;
        format!(
            "UPDATE {rows} SET status = $3, due_at = $4 + {NOW}, delay = $4, error = $5, \
             attempts = attempts - $6, token = token + 1, owner = NULL, \
             ended_at = CASE WHEN $3 = 'dead' THEN {NOW} END \
             WHERE id = $1 AND token = $2 AND status = 'pending' RETURNING id"
        )
    }

    /// Gives back what the worker `$1` holds, but for some rows. Their attempts do not count.
    pub(crate) fn release(self, except: &[i64]) -> String {
        let rows = self.rows;
        let held = list(except);
        format!(
            "UPDATE {rows} SET owner = NULL, token = token + 1, attempts = attempts - 1, due_at = 0 \
             WHERE id IN (SELECT id FROM {rows} WHERE owner = $1 AND status = 'pending' \
             AND id NOT IN ({held}) FOR UPDATE SKIP LOCKED) RETURNING id"
        )
    }

    /// Gives back what the worker `$1` held, which has vanished. A row that a transaction has
    /// locked is still being handled.
    pub(crate) fn abandon(self) -> String {
        let rows = self.rows;
        format!(
            "UPDATE {rows} SET owner = NULL, token = token + 1, due_at = 0, crashes = crashes + 1, \
             attempts = CASE WHEN crashes = 0 THEN attempts - 1 ELSE attempts END \
             WHERE id IN (SELECT id FROM {rows} WHERE owner = $1 AND status = 'pending' \
             FOR UPDATE SKIP LOCKED) RETURNING id"
        )
    }

    /// How many rows the worker `$1` holds.
    pub(crate) fn held(self) -> String {
        format!("SELECT count(*) FROM {} WHERE owner = $1", self.rows)
    }

    /// Shows that the worker `$1` with the lease `$2` runs. A beat of 1 is its first, or the first
    /// since others took it for dead.
    pub(crate) fn beat(self) -> String {
        let workers = self.workers;
        format!(
            "INSERT INTO {workers} (id, beat, lease) VALUES ($1, 1, $2) \
             ON CONFLICT (id) DO UPDATE SET beat = {workers}.beat + 1 RETURNING beat, {NOW}"
        )
    }

    /// All workers, also those that only rows name: they get the lease `$1`.
    pub(crate) fn beats(self) -> String {
        let Self { rows, workers } = self;
        format!(
            "SELECT id, beat, lease FROM {workers} UNION ALL SELECT DISTINCT owner, 0, $1 FROM {rows} \
             WHERE owner IS NOT NULL AND owner NOT IN (SELECT id FROM {workers})"
        )
    }

    /// Removes a worker that holds nothing.
    pub(crate) fn leave(self) -> String {
        let Self { rows, workers } = self;
        format!(
            "DELETE FROM {workers} WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM {rows} WHERE owner = $1)"
        )
    }

    /// Makes rows due whose time was set by a clock that was ahead of the present one. In version
    /// 1, a row with attempts and without a delay is a claim.
    pub(crate) fn bound(self) -> String {
        let rows = self.rows;
        format!(
            "UPDATE {rows} SET due_at = 0 WHERE status = 'pending' AND owner IS NULL \
             AND (attempts = 0 OR delay > 0) AND due_at - delay > 1000 + {NOW}"
        )
    }
}

fn list(ids: &[i64]) -> String {
    let ids = ids.iter().map(i64::to_string).collect::<Vec<_>>();
    if ids.is_empty() {
        return "0".to_owned();
    }
    ids.join(", ")
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
