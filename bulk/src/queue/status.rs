//! How far a job in Redis is.

use std::collections::{HashMap, HashSet};
use std::io;

use super::{RedisQueue, damaged, key, state_named, totals};
use crate::{JobInfo, JournalState, RowRefusal, SendState, Totals};

/// A job in Redis.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueueStatus {
    /// What the job was created with.
    pub info: JobInfo,
    /// Whether its workers send.
    pub state: SendState,
    /// Why the service refuses the emails of the job, if that has paused it.
    pub cause: Option<RowRefusal>,
    /// The outcomes so far. Requests in flight are not counted.
    pub totals: Totals,
    /// The number of chunks.
    pub chunks: u64,
    /// Chunks with a request in flight whose worker has died or was suspended for longer than its
    /// lease, and that no other worker has taken over. The rows of the request count as unknown.
    pub lost: Vec<u64>,
    /// How many workers send it: those that have not ended, and whose lease has not.
    pub workers: u64,
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
        let all = redis::cmd("HGETALL").arg(key(job, "")).to_owned();
        let fields: HashMap<String, String> = connection.query(&all).await?;
        let field = |name| fields.get(name).map(String::as_str);
        let state = field("state").and_then(state_named);
        let (Some(mut state), Some(info)) = (state, field("info")) else {
            return Err(missing());
        };
        let info = serde_json::from_str(info).map_err(|_| damaged())?;
        let done: u64 = connection
            .query(redis::cmd("SCARD").arg(key(job, ":done")))
            .await?;
        let chunks = field("chunks")
            .and_then(|chunks| chunks.parse().ok())
            .unwrap_or_default();
        if done >= chunks {
            state = SendState::Complete;
        }
        let cause = field("cause")
            .and_then(|cause| serde_json::from_str(cause).ok())
            .flatten();
        let counts = ["accepted", "refused", "invalid", "unknown"];
        let mut totals = totals(counts.map(|name| field(name).unwrap_or_default()));
        let (seconds, micros): (u64, u64) = connection.query(&redis::cmd("TIME")).await?;
        let mut alive = redis::cmd("ZRANGEBYSCORE");
        alive
            .arg(key(job, ":alive"))
            .arg(seconds * 1000 + micros / 1000)
            .arg("+inf");
        let alive: HashSet<String> = connection.query(&alive).await?;
        let mut command = redis::cmd("XPENDING");
        command
            .arg(key(job, ":chunks"))
            .arg("workers")
            .arg("-")
            .arg("+")
            .arg(MAX_PENDING);
        let pending: Vec<Pending> = connection.query(&command).await?;
        let mut lost = Vec::new();
        for (id, ..) in pending
            .iter()
            .filter(|(_, worker, ..)| !alive.contains(worker))
        {
            if let Some((chunk, more)) = self.unknown_of(job, id).await? {
                totals.unknown = totals.unknown.saturating_add_signed(more);
                lost.push(chunk);
            }
        }
        let workers = alive.len() as u64;
        Ok(QueueStatus {
            info,
            state,
            cause,
            totals,
            chunks,
            lost,
            workers,
        })
    }

    /// A claimed chunk, if it has a request in flight, and by how many unknown rows it exceeds what
    /// was recorded if that request has no outcome any more.
    async fn unknown_of(&self, job: &str, id: &str) -> io::Result<Option<(u64, i64)>> {
        let mut command = redis::cmd("XRANGE");
        command.arg(key(job, ":chunks")).arg(id).arg(id);
        let entry: Vec<(String, Vec<String>)> = self.connection.query(&command).await?;
        let chunk = entry
            .first()
            .and_then(|(_, fields)| fields.get(1)?.parse::<u64>().ok());
        let Some(chunk) = chunk else { return Ok(None) };
        let state = self.read(job, chunk, JournalState::default()).await?;
        if state.in_flight().is_empty() {
            return Ok(None);
        }
        let recorded = self
            .field(key(job, ":counts"), chunk)
            .await?
            .unwrap_or_default();
        let recorded = totals(String::from_utf8_lossy(&recorded).split(' ')).unknown;
        Ok(Some((
            chunk,
            state.stopped().totals().unknown.cast_signed() - recorded.cast_signed(),
        )))
    }
}

pub(crate) fn missing() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "Redis has no such job")
}
