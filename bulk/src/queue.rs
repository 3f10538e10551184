//! A job in Redis, which any number of workers share.

mod connection;
mod durability;
mod scripts;
mod status;
mod worker;

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use connection::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::entries::{JournalEntry, counts};
use crate::journal::lines;
use crate::{JobInfo, JournalState, RowRefusal, SendState, Totals};

pub use status::QueueStatus;

/// How long a job that is being stored is kept if its process ends, in seconds.
const LIFE_OF_DRAFT: i64 = 3600;

/// The most rows in a chunk.
const MAX_CHUNK: usize = 100;

/// The jobs, with the time of their creation.
const JOBS: &str = "svc:bulk:jobs";

/// Jobs in Redis or Valkey, version 7 or later. Any number of processes, on any number of
/// machines, send the rows of a job with [`Job::work`](crate::Job::work), and may join and leave
/// at any time.
///
/// The rows are divided into chunks of at most 100. A worker claims a chunk, sends its rows, and
/// records the outcomes. If it dies, another worker takes the chunk over when the
/// [`lease`](Self::lease) has ended: a request in flight is then *unknown*, and the other rows
/// are sent. Redis knows whose claim is the last one, which is checked right before each request is
/// sent and when an outcome is recorded, so a worker that was suspended for longer than its lease
/// sends nothing that another one took over.
///
/// If the service refuses several emails in a row for one cause that concerns the whole job, the job
/// is paused: see [`QueueStatus::cause`].
///
/// The rows and the outcomes stay in Redis until someone deletes the
/// keys that start with `svc:bulk:{JOB}`.
///
/// ```no_run
/// # async fn f(client: svc_sdk::EmailClient) -> Result<(), Box<dyn std::error::Error>> {
/// use svc_bulk::{Job, JobInfo, RedisQueue};
/// use svc_sdk::email::Email;
///
/// let queue = RedisQueue::connect("redis://:secret@10.0.0.5", None).await?;
/// // Once:
/// let people = ["ada@example.com", "bob@example.com"];
/// let mut info = JobInfo::new("list-7");
/// info.job = "news".to_owned();
/// queue.create(&info, 50, &[], (1..).zip(people).map(Ok)).await?;
/// // In each worker:
/// let render = |to: &String| {
///     Ok::<_, std::io::Error>(Email::new("hello@shop.example", to, "News").text("Hello"))
/// };
/// let worker = async move { Job::new(&client).work(&queue, "news", render).await };
/// tokio::spawn(worker).await??;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RedisQueue {
    connection: Connection,
    lease: Duration,
}

impl RedisQueue {
    /// Connects to a server, such as `redis://:password@host:6379/0`. The connection is made
    /// again whenever it is lost. `rediss://` is encrypted, and trusts the certificates in the PEM
    /// text of `ca_pem`, or else the platform's. It needs the crypto provider of rustls that the
    /// process has installed: which one is the program's choice, and this crate makes none.
    ///
    /// # Errors
    ///
    /// If the URL is invalid, the server cannot be reached, the text holds no valid certificate, or
    /// `rediss://` finds no crypto provider ([`Unsupported`](io::ErrorKind::Unsupported)).
    /// No error contains the URL.
    pub async fn connect(url: &str, ca_pem: Option<&[u8]>) -> io::Result<Self> {
        let connection = Connection::open(url, ca_pem).await?;
        Ok(Self {
            connection,
            lease: Duration::from_secs(60),
        })
    }

    /// Sets how long a worker may be silent before others take over what it has claimed. The
    /// deadline of its attempts is at most two thirds of it. At least one second. Default: one
    /// minute.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.max(Duration::from_secs(1));
        self
    }

    /// Stores a new job. Workers see it when all rows are stored.
    ///
    /// `emails_per_second` is the limit for all workers together; 0 means no limit. `files` are
    /// data of the application for the workers, by name.
    ///
    /// # Errors
    ///
    /// If the job exists ([`AlreadyExists`](io::ErrorKind::AlreadyExists)), a row is an error or
    /// out of order, or Redis fails. Nothing of the job is left then.
    pub async fn create<T: Serialize>(
        &self,
        info: &JobInfo,
        emails_per_second: impl Into<f64>,
        files: &[(&str, &[u8])],
        rows: impl IntoIterator<Item = io::Result<(u64, T)>>,
    ) -> io::Result<()> {
        if let Some(problem) = info.problem() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let mut claim = redis::cmd("HSETNX");
        claim.arg(key(&info.job, "")).arg("state").arg("preparing");
        if !self.connection.once::<bool>(&claim).await? {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "the job exists",
            ));
        }
        let stored = self
            .store(info, emails_per_second.into(), files, rows)
            .await;
        if stored.is_err() {
            let keys = scripts::KEYS.map(|name| key(&info.job, name));
            let _: io::Result<u64> = self.connection.once(redis::cmd("UNLINK").arg(&keys)).await;
        }
        stored
    }

    async fn store<T: Serialize>(
        &self,
        info: &JobInfo,
        rate: f64,
        files: &[(&str, &[u8])],
        rows: impl IntoIterator<Item = io::Result<(u64, T)>>,
    ) -> io::Result<()> {
        let key = |name| key(&info.job, name);
        let mut batch = redis::pipe();
        let text = serde_json::to_vec(info)?;
        batch
            .cmd("HSET")
            .arg(key(""))
            .arg("info")
            .arg(text)
            .arg("rate")
            .arg(rate)
            .ignore();
        for (name, content) in files {
            batch
                .cmd("HSET")
                .arg(key(":files"))
                .arg(*name)
                .arg(*content)
                .ignore();
        }
        // No more than a second's worth of emails in a request.
        let size = if rate > 0.0 {
            (rate as usize).clamp(1, MAX_CHUNK)
        } else {
            MAX_CHUNK
        };
        let (mut chunk, mut chunks, mut last) = (Vec::new(), 0_u64, None);
        let mut rows = rows.into_iter();
        loop {
            let row = rows.next().transpose()?;
            let is_end = row.is_none();
            if let Some((number, data)) = row {
                if last.is_some_and(|last| number <= last) {
                    let problem = format!("row {number} comes after a row with a number as high");
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
                }
                last = Some(number);
                chunk.push((number, data));
            }
            if chunk.len() == size || (is_end && !chunk.is_empty()) {
                let text = serde_json::to_vec(&chunk)?;
                batch
                    .cmd("HSET")
                    .arg(key(":rows"))
                    .arg(chunks)
                    .arg(text)
                    .ignore();
                batch
                    .cmd("XADD")
                    .arg(key(":chunks"))
                    .arg("*")
                    .arg("chunk")
                    .arg(chunks)
                    .ignore();
                chunks += 1;
                chunk.clear();
            }
            if batch.len() >= 40 || is_end {
                // So that nothing is left if the process is killed before the job is complete.
                for name in ["", ":rows", ":files", ":chunks"] {
                    batch
                        .cmd("EXPIRE")
                        .arg(key(name))
                        .arg(LIFE_OF_DRAFT)
                        .ignore();
                }
                self.connection.pipeline(std::mem::take(&mut batch)).await?;
            }
            if is_end {
                break;
            }
        }
        let publish = &mut script(scripts::PUBLISH, &info.job);
        if !self.connection.once::<bool>(publish.arg(chunks)).await? {
            return Err(io::Error::other(
                "Redis has lost the job while it was stored",
            ));
        }
        let created = info.at.timestamp_millis();
        self.connection
            .once(redis::cmd("ZADD").arg(JOBS).arg(created).arg(&info.job))
            .await
    }

    /// The ids of all jobs, the oldest first.
    ///
    /// # Errors
    ///
    /// If Redis fails.
    pub async fn jobs(&self) -> io::Result<Vec<String>> {
        self.connection
            .query(redis::cmd("ZRANGE").arg(JOBS).arg(0).arg(-1))
            .await
    }

    /// What [`create`](Self::create) stored under this name.
    ///
    /// # Errors
    ///
    /// If Redis fails, or there is no such file ([`NotFound`](io::ErrorKind::NotFound)).
    pub async fn file(&self, job: &str, name: &str) -> io::Result<Vec<u8>> {
        self.field(key(job, ":files"), name)
            .await?
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "Redis has no such file"))
    }

    /// The rows of a chunk; empty if there is no such chunk.
    ///
    /// # Errors
    ///
    /// If Redis fails, or a row is not a `T`.
    pub async fn rows<T: DeserializeOwned>(
        &self,
        job: &str,
        chunk: u64,
    ) -> io::Result<Vec<(u64, T)>> {
        let Some(rows) = self.field(key(job, ":rows"), chunk).await? else {
            return Ok(Vec::new());
        };
        Ok(serde_json::from_slice(&rows)?)
    }

    /// What is known about the rows of a chunk, whose numbers start with 0, in addition to what is
    /// `known` already. The numbers of the requests are unique in the job.
    ///
    /// # Errors
    ///
    /// If Redis fails, or an entry cannot be read.
    pub async fn read(
        &self,
        job: &str,
        chunk: u64,
        mut known: JournalState,
    ) -> io::Result<JournalState> {
        let log = self.log(job, chunk).await?;
        entries(&log)?.iter().for_each(|entry| known.apply(entry));
        Ok(known)
    }

    async fn log(&self, job: &str, chunk: u64) -> io::Result<Vec<u8>> {
        Ok(self
            .field(key(job, ":log"), chunk)
            .await?
            .unwrap_or_default())
    }

    /// Pauses, continues or cancels a job. No worker starts another attempt; those in flight are
    /// completed. A job that was cancelled cannot be continued. Returns the state of the job.
    ///
    /// # Errors
    ///
    /// If Redis fails, there is no such job ([`NotFound`](io::ErrorKind::NotFound)), or `state`
    /// is [`Complete`](SendState::Complete).
    pub async fn set_state(&self, job: &str, state: SendState) -> io::Result<SendState> {
        if state == SendState::Complete {
            let problem = "only its workers complete a job";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        self.change_state(job, state, None).await
    }

    async fn change_state(
        &self,
        job: &str,
        state: SendState,
        cause: Option<&RowRefusal>,
    ) -> io::Result<SendState> {
        let (name, cause) = (serde_json::to_value(state)?, serde_json::to_string(&cause)?);
        let command = &mut script(scripts::SET_STATE, job);
        let state: String = self
            .connection
            .query(command.arg(name.as_str()).arg(cause))
            .await?;
        state_named(&state).ok_or_else(status::missing)
    }

    /// Lets workers send rows again: those that were `refused`, those that are `unknown`, of whom
    /// some may then get the email twice, or both. Rows whose chunk a worker has are passed over.
    /// Returns how many there are.
    ///
    /// # Errors
    ///
    /// If Redis fails.
    pub async fn reopen(&self, job: &str, refused: bool, unknown: bool) -> io::Result<u64> {
        if !refused && !unknown {
            return Ok(0);
        }
        let counts = self
            .amend_all(job, |state| state.reopened(refused, unknown))
            .await?;
        Ok(counts.1)
    }

    /// Settles rows whose outcome is unknown: those that were `sent`, as someone has found out,
    /// count as accepted, and workers send those to `resend` again. Rows that are not unknown, or
    /// whose chunk a worker has, are passed over. Returns how many of each there were.
    ///
    /// # Errors
    ///
    /// If Redis fails.
    pub async fn settle(&self, job: &str, sent: &[u64], resend: &[u64]) -> io::Result<(u64, u64)> {
        self.amend_all(job, |state| state.decided(sent, resend))
            .await
    }

    /// Deletes a job with its rows, outcomes and files. Its workers end.
    ///
    /// # Errors
    ///
    /// If Redis fails.
    pub async fn remove(&self, job: &str) -> io::Result<()> {
        let _: u64 = self
            .connection
            .query(redis::cmd("ZREM").arg(JOBS).arg(job))
            .await?;
        let keys = scripts::KEYS.map(|name| key(job, name));
        let _: u64 = self
            .connection
            .query(redis::cmd("UNLINK").arg(&keys))
            .await?;
        Ok(())
    }

    /// Adds entries to all chunks with refused or unknown rows. Returns how many rows they settle, and
    /// how many they reopen.
    async fn amend_all(
        &self,
        job: &str,
        amend: impl Fn(&JournalState) -> Vec<JournalEntry>,
    ) -> io::Result<(u64, u64)> {
        let mut sum = (0, 0);
        let counts = redis::cmd("HGETALL").arg(key(job, ":counts")).to_owned();
        let counts: BTreeMap<u64, String> = self.connection.query(&counts).await?;
        for (chunk, counts) in counts {
            let Totals {
                refused, unknown, ..
            } = totals(counts.split(' '));
            if refused + unknown == 0 {
                continue;
            }
            let (settled, reopened) = self.amend(job, chunk, &amend).await?;
            sum = (sum.0 + settled, sum.1 + reopened);
        }
        Ok(sum)
    }

    /// Adds entries to a chunk, unless a worker has it.
    async fn amend(
        &self,
        job: &str,
        chunk: u64,
        amend: impl FnOnce(&JournalState) -> Vec<JournalEntry>,
    ) -> io::Result<(u64, u64)> {
        let log = self.log(job, chunk).await?;
        let mut state = JournalState::default();
        entries(&log)?.iter().for_each(|entry| state.apply(entry));
        let added = amend(&state);
        let counts = counts(&added);
        if added.is_empty() {
            return Ok(counts);
        }
        added.iter().for_each(|entry| state.apply(entry));
        let mut command = script(scripts::REOPEN, job);
        command
            .arg("")
            .arg(0)
            .arg(chunk)
            .arg("")
            .arg("")
            .arg(log.len())
            .arg(lines(&added)?);
        command.arg(u8::from(counts.1 == 0));
        let is_added = self
            .connection
            .query(with_totals(&mut command, state.totals()))
            .await?;
        Ok(if is_added { counts } else { (0, 0) })
    }

    async fn field(
        &self,
        key: String,
        field: impl redis::ToRedisArgs,
    ) -> io::Result<Option<Vec<u8>>> {
        self.connection
            .query(redis::cmd("HGET").arg(key).arg(field))
            .await
    }
}

fn state_named(name: &str) -> Option<SendState> {
    serde_json::from_value(name.into()).ok()
}

/// A key of a job. The braces keep all of them on one node of a cluster.
fn key(job: &str, name: &str) -> String {
    format!("svc:bulk:{{{job}}}{name}")
}

fn script(script: &str, job: &str) -> redis::Cmd {
    let keys = scripts::KEYS.map(|name| key(job, name));
    let mut command = redis::cmd("EVAL");
    command
        .arg([scripts::SHARED, script].concat())
        .arg(keys.len())
        .arg(&keys);
    command
}

fn with_totals(command: &mut redis::Cmd, totals: Totals) -> &mut redis::Cmd {
    let Totals {
        accepted,
        refused,
        invalid,
        unknown,
    } = totals;
    command.arg(accepted).arg(refused).arg(invalid).arg(unknown)
}

/// Accepted, refused, invalid and unknown.
fn totals<'a>(counts: impl IntoIterator<Item = &'a str>) -> Totals {
    // Those of a worker that settles what is unknown to others are negative.
    let mut counts = counts
        .into_iter()
        .map(|count| count.parse().unwrap_or_default());
    let mut next = || counts.next().unwrap_or_default();
    Totals {
        accepted: next(),
        refused: next(),
        invalid: next(),
        unknown: next(),
    }
}

/// The entries of a chunk's log.
fn entries(log: &[u8]) -> io::Result<Vec<JournalEntry>> {
    let lines = log
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line).map_err(|_| damaged()))
        .collect()
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the job in Redis is damaged")
}
