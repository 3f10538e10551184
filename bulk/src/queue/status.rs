//! How far a job in Redis is.

use std::collections::{BTreeMap, HashMap};
use std::io;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::{RedisQueue, damaged, key, totals};
use crate::{JobInfo, JournalState, RowRefusal, Totals};

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
    /// Why the service refuses the emails of the job, if that has paused it.
    pub cause: Option<RowRefusal>,
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
        let connection = &self.connection;
        let hash = |name| redis::cmd("HGETALL").arg(key(job, name)).to_owned();
        let fields: HashMap<String, String> = connection.query(&hash("")).await?;
        let field = |name| fields.get(name).map(String::as_str);
        let state = field("state").and_then(QueueState::parse);
        let (Some(mut state), Some(info)) = (state, field("info")) else { return Err(missing()) };
        let info = serde_json::from_str(info).map_err(|_| damaged())?;
        let done: u64 = connection.query(redis::cmd("SCARD").arg(key(job, ":done"))).await?;
        let chunks = number(field("chunks"));
        if done >= chunks {
            state = QueueState::Complete;
        }
        let cause = field("cause").and_then(|cause| serde_json::from_str(cause).ok()).flatten();
        let mut totals = totals_of(field);
        let workers: BTreeMap<String, String> = connection.query(&hash(":workers")).await?;
        let of_worker = |worker: &str, field: &str| {
            workers.get(&format!("{worker}|{field}")).map(String::as_str)
        };
        let mut command = redis::cmd("XPENDING");
        command.arg(key(job, ":chunks")).arg("workers").arg("-").arg("+").arg(MAX_PENDING);
        let pending: Vec<Pending> = connection.query(&command).await?;
        let mut lost = Vec::new();
        for (id, worker, silent, _) in &pending {
            let is_gone = of_worker(worker, "left").is_some()
                || *silent >= number(of_worker(worker, "lease"));
            if is_gone && let Some((chunk, more)) = self.unknown_of(job, id).await? {
                totals.unknown = totals.unknown.saturating_add_signed(more);
                lost.push(chunk);
            }
        }
        let (seconds, micros): (i64, i64) = connection.query(&redis::cmd("TIME")).await?;
        let now = DateTime::from_timestamp(seconds, 0).unwrap_or_default()
            + TimeDelta::microseconds(micros);
        let names = workers.keys().filter_map(|field| field.strip_suffix("|seen"));
        let workers = names.map(|name| {
            let millis = |field| i64::try_from(number(of_worker(name, field))).unwrap_or_default();
            let seen = DateTime::from_timestamp_millis(millis("seen")).unwrap_or_default();
            WorkerStatus {
                name: name.to_owned(),
                seen,
                silent: now - seen,
                lease: TimeDelta::milliseconds(millis("lease")),
                has_left: of_worker(name, "left").is_some(),
                chunks: pending.iter().filter(|(_, worker, ..)| worker == name).count() as u64,
                totals: totals_of(|field| of_worker(name, field)),
            }
        });
        let workers = workers.collect();
        Ok(QueueStatus { info, state, cause, totals, chunks, lost, workers })
    }

    /// A claimed chunk, if it has a request in flight, and by how many unknown rows it exceeds what
    /// was recorded if that request has no outcome any more.
    async fn unknown_of(&self, job: &str, id: &str) -> io::Result<Option<(u64, i64)>> {
        let mut command = redis::cmd("XRANGE");
        command.arg(key(job, ":chunks")).arg(id).arg(id);
        let entry: Vec<(String, Vec<String>)> = self.connection.query(&command).await?;
        let chunk = entry.first().and_then(|(_, fields)| fields.get(1)?.parse::<u64>().ok());
        let Some(chunk) = chunk else { return Ok(None) };
        let mut state = JournalState::default();
        self.entries(job, chunk).await?.iter().for_each(|entry| state.apply(entry));
        if state.in_flight().is_empty() {
            return Ok(None);
        }
        let recorded = self.field(key(job, ":counts"), chunk).await?.unwrap_or_default();
        let recorded = totals(String::from_utf8_lossy(&recorded).split(' ')).unknown;
        Ok(Some((chunk, state.stopped().totals().unknown.cast_signed() - recorded.cast_signed())))
    }
}

pub(crate) fn missing() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "Redis has no such job")
}

/// A number; a worker that settles the unknown rows of others has a negative one.
fn number(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn totals_of<'a>(field: impl Fn(&'static str) -> Option<&'a str>) -> Totals {
    totals(
        ["accepted", "refused", "invalid", "unknown"].map(|name| field(name).unwrap_or_default()),
    )
}
