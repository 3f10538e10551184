//! How far a job in Redis is.

use std::collections::{BTreeMap, HashMap};
use std::io;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::super::{JobInfo, Totals};
use super::RedisQueue;
use super::keys::Keys;

/// Whether the workers of a job send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QueueState {
    /// They do.
    Running,
    /// They wait.
    Paused,
    /// They have stopped for good.
    Cancelled,
    /// No row is left to send. Some may be unknown.
    Complete,
}

impl QueueState {
    pub(super) fn parse(name: &str) -> Option<Self> {
        serde_json::from_value(name.into()).ok()
    }
}

/// A job in Redis.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueueStatus {
    /// What the job was created with.
    pub info: JobInfo,
    /// Whether its workers send.
    pub state: QueueState,
    /// The outcomes so far. Requests in flight are not counted.
    pub totals: Totals,
    /// The number of chunks.
    pub chunks: u64,
    /// The workers so far, by name.
    pub workers: Vec<WorkerStatus>,
}

/// A worker of a job in Redis.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkerStatus {
    /// Its name, with a random suffix.
    pub name: String,
    /// When it last talked to Redis, by the clock of Redis.
    pub seen: DateTime<Utc>,
    /// How long ago that was.
    pub silent: TimeDelta,
    /// Whether it has ended in order.
    pub has_left: bool,
    /// The chunks that it has claimed.
    pub chunks: u64,
    /// The outcomes that it has recorded.
    pub totals: Totals,
}

/// The response to `XPENDING`: how many chunks are claimed, the first and the last id, and how many
/// chunks each worker has claimed.
type Pending = (u64, Option<String>, Option<String>, Option<Vec<(String, u64)>>);

impl RedisQueue {
    /// How far a job is.
    ///
    /// # Errors
    ///
    /// If there is no such job ([`NotFound`](io::ErrorKind::NotFound)), or Redis fails.
    pub async fn status(&self, job: &str) -> io::Result<QueueStatus> {
        let keys = Keys::new(job);
        let connection = &self.connection;
        let fields: HashMap<String, String> =
            connection.query(redis::cmd("HGETALL").arg(&keys.job)).await?;
        let state = fields.get("state").and_then(|state| QueueState::parse(state));
        let (Some(mut state), Some(info)) = (state, fields.get("info")) else {
            return Err(missing());
        };
        let number = |name: &str| count(fields.get(name));
        let done: u64 = connection.query(redis::cmd("SCARD").arg(&keys.done)).await?;
        let chunks = number("chunks");
        if done >= chunks {
            state = QueueState::Complete;
        }
        let info = serde_json::from_str(info).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidData, "the job in Redis is damaged")
        })?;
        let totals = Totals {
            accepted: number("accepted"),
            refused: number("refused"),
            invalid: number("invalid"),
            unknown: number("unknown"),
        };
        Ok(QueueStatus { info, state, totals, chunks, workers: self.workers(&keys).await? })
    }

    async fn workers(&self, keys: &Keys) -> io::Result<Vec<WorkerStatus>> {
        let fields: HashMap<String, String> =
            self.connection.query(redis::cmd("HGETALL").arg(&keys.workers)).await?;
        let (seconds, micros): (i64, i64) = self.connection.query(&redis::cmd("TIME")).await?;
        let now = DateTime::from_timestamp(seconds, 0).unwrap_or_default()
            + TimeDelta::microseconds(micros);
        let pending = redis::cmd("XPENDING").arg(&keys.chunks).arg("workers").to_owned();
        let pending: Pending = self.connection.query(&pending).await?;
        let pending: HashMap<_, _> = pending.3.unwrap_or_default().into_iter().collect();
        let mut workers = BTreeMap::new();
        for (field, value) in fields {
            let Some((name, field)) = field.rsplit_once('|') else { continue };
            let worker = workers.entry(name.to_owned()).or_insert_with(|| WorkerStatus {
                name: name.to_owned(),
                seen: DateTime::default(),
                silent: TimeDelta::zero(),
                has_left: false,
                chunks: pending.get(name).copied().unwrap_or_default(),
                totals: Totals::default(),
            });
            let number = count(Some(&value));
            match field {
                "seen" => {
                    let millis = i64::try_from(number).unwrap_or_default();
                    worker.seen = DateTime::from_timestamp_millis(millis).unwrap_or_default();
                    worker.silent = now - worker.seen;
                }
                "left" => worker.has_left = true,
                "accepted" => worker.totals.accepted = number,
                "refused" => worker.totals.refused = number,
                "invalid" => worker.totals.invalid = number,
                "unknown" => worker.totals.unknown = number,
                _ => {}
            }
        }
        Ok(workers.into_values().collect())
    }
}

pub(super) fn missing() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "Redis has no such job")
}

/// A number; a worker that settles the unknown rows of others has a negative one.
fn count(text: Option<&String>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}
