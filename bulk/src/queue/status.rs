//! How far a job in Redis is.

use std::collections::{BTreeMap, HashMap};
use std::io;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::RedisQueue;
use super::keys::Keys;
use crate::{JobInfo, State, Totals};

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
    pub(crate) fn parse(name: &str) -> Option<Self> {
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
    /// Chunks with a request in flight whose worker has died or was suspended for longer than its
    /// lease, and that no other worker has taken over. The rows of the request count as unknown.
    pub lost: Vec<u64>,
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
    /// How long it may be silent before others take over what it has claimed.
    pub lease: TimeDelta,
    /// Whether it has ended in order.
    pub has_left: bool,
    /// The chunks that it has claimed.
    pub chunks: u64,
    /// The outcomes that it has recorded.
    pub totals: Totals,
}

/// A claimed chunk in the response to `XPENDING`: its id in the stream, its worker, for how many
/// milliseconds the worker has been silent about it, and how often it was claimed.
type Pending = (String, String, u64, u64);

/// The most claimed chunks that are read. Each worker has few.
const MAX_PENDING: u64 = 10_000;

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
        let mut totals = Totals {
            accepted: number("accepted"),
            refused: number("refused"),
            invalid: number("invalid"),
            unknown: number("unknown"),
        };
        let fields: HashMap<String, String> =
            connection.query(redis::cmd("HGETALL").arg(&keys.workers)).await?;
        let mut command = redis::cmd("XPENDING");
        command.arg(&keys.chunks).arg("workers").arg("-").arg("+").arg(MAX_PENDING);
        let pending: Vec<Pending> = connection.query(&command).await?;
        let mut lost = Vec::new();
        for (id, worker, silent, _) in &pending {
            let of_worker = |field: &str| fields.get(&format!("{worker}|{field}"));
            let is_gone = of_worker("left").is_some() || *silent >= count(of_worker("lease"));
            if is_gone && let Some((chunk, more)) = self.unknown_of(&keys, job, id).await? {
                totals.unknown = totals.unknown.saturating_add_signed(more);
                lost.push(chunk);
            }
        }
        let workers = self.workers(fields, &pending).await?;
        Ok(QueueStatus { info, state, totals, chunks, lost, workers })
    }

    /// A claimed chunk, if it has a request in flight, and by how many unknown rows it exceeds what
    /// was recorded if that request has no outcome any more.
    async fn unknown_of(&self, keys: &Keys, job: &str, id: &str) -> io::Result<Option<(u64, i64)>> {
        let command = redis::cmd("XRANGE").arg(&keys.chunks).arg(id).arg(id).to_owned();
        let entry: Vec<(String, Vec<String>)> = self.connection.query(&command).await?;
        let chunk = entry.first().and_then(|(_, fields)| fields.get(1)?.parse().ok());
        // Another worker has just completed it.
        let Some(chunk) = chunk else { return Ok(None) };
        let command = redis::cmd("HGET").arg(&keys.counts).arg(chunk).to_owned();
        let recorded: Option<String> = self.connection.query(&command).await?;
        let recorded = recorded.and_then(|counts| counts.rsplit(' ').next()?.parse().ok());
        let mut state = State::default();
        self.entries(job, chunk).await?.iter().for_each(|entry| state.apply(entry));
        if state.in_flight().is_empty() {
            return Ok(None);
        }
        let unknown = i64::try_from(state.stopped().totals().unknown).unwrap_or(i64::MAX);
        Ok(Some((chunk, unknown - recorded.unwrap_or(0))))
    }

    async fn workers(
        &self,
        fields: HashMap<String, String>,
        pending: &[Pending],
    ) -> io::Result<Vec<WorkerStatus>> {
        let (seconds, micros): (i64, i64) = self.connection.query(&redis::cmd("TIME")).await?;
        let now = DateTime::from_timestamp(seconds, 0).unwrap_or_default()
            + TimeDelta::microseconds(micros);
        let mut workers = BTreeMap::new();
        for (field, value) in fields {
            let Some((name, field)) = field.rsplit_once('|') else { continue };
            let worker = workers.entry(name.to_owned()).or_insert_with(|| WorkerStatus {
                name: name.to_owned(),
                seen: DateTime::default(),
                silent: TimeDelta::zero(),
                has_left: false,
                lease: TimeDelta::zero(),
                chunks: pending.iter().filter(|(_, worker, ..)| worker == name).count() as u64,
                totals: Totals::default(),
            });
            let number = count(Some(&value));
            match field {
                "seen" => {
                    let millis = i64::try_from(number).unwrap_or_default();
                    worker.seen = DateTime::from_timestamp_millis(millis).unwrap_or_default();
                    worker.silent = now - worker.seen;
                }
                "lease" => {
                    let millis = i64::try_from(number).unwrap_or_default();
                    worker.lease = TimeDelta::milliseconds(millis);
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

pub(crate) fn missing() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "Redis has no such job")
}

/// A number; a worker that settles the unknown rows of others has a negative one.
fn count(text: Option<&String>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}
