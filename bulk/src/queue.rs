//! A job in Redis, which any number of workers share.

mod claim;
mod connection;
mod durability;
mod keys;
mod scripts;
mod status;
mod worker;

use std::io;
use std::time::Duration;

use connection::Connection;
use keys::Keys;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::entry::Line;
use crate::{Entry, JobInfo, Row};

pub use status::{QueueState, QueueStatus, WorkerStatus};

/// How long a job that is being stored is kept if its process ends.
const LIFE_OF_DRAFT: i64 = 3600;

/// The default of [`RedisQueue::lease`].
const LEASE: Duration = Duration::from_secs(60);

/// The jobs, with the time of their creation.
const JOBS: &str = "svc:bulk:jobs";

/// Jobs in Redis or Valkey, version 7 or later. Any number of processes, on any number of
/// machines, send the rows of a job with [`Job::work`](super::Job::work), and may join and leave
/// at any time.
///
/// The rows are divided into chunks of at most 100. A worker claims a chunk, sends its rows, and
/// records the outcomes. If it dies, another worker takes the chunk over when the
/// [`lease`](Self::lease) has ended: a request in flight is then *unknown*, and the other rows
/// are sent. Each claim has a token, which is checked in Redis right before each request is sent
/// and when an outcome is recorded, so a worker that was suspended for longer than its lease
/// sends nothing that another one took over.
///
/// The rows, the outcomes and the recipients' addresses stay in Redis until someone deletes the
/// keys that start with `svc:bulk:{JOB}`.
///
/// ```no_run
/// # async fn f(client: svc_sdk::EmailClient) -> Result<(), Box<dyn std::error::Error>> {
/// use svc_bulk::{Job, JobInfo, RedisQueue, Row};
/// use svc_sdk::email::Email;
///
/// let queue = RedisQueue::connect("redis://:secret@10.0.0.5").await?;
/// // Once:
/// let people = ["ada@example.com", "bob@example.com"];
/// let rows = people.iter().zip(1..).map(|(address, number)| Ok(Row::new(number, address)));
/// let info = JobInfo::new("list-7").id("news");
/// queue.create(&info, 50, &[], rows).await?;
/// // In each worker:
/// let render = |to: &String| {
///     Ok::<_, std::io::Error>(Email::new("hello@shop.example", to, "News").text("Hello"))
/// };
/// let worker = async move { Job::new(&client).work(&queue, "news", "worker-1", render).await };
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
    /// again whenever it is lost. `rediss://` is encrypted, and trusts the platform's certificates. If the process has no default crypto
    /// provider of rustls, ring becomes it.
    ///
    /// # Errors
    ///
    /// If the URL is invalid, or the server cannot be reached. No error contains the URL.
    pub async fn connect(url: &str) -> io::Result<Self> {
        Ok(Self { connection: Connection::open(url, None).await?, lease: LEASE })
    }

    /// As [`connect`](Self::connect), but trusts the certificates in this PEM text instead of the
    /// platform's.
    ///
    /// # Errors
    ///
    /// As for [`connect`](Self::connect), or if the text holds no valid certificate.
    pub async fn connect_with_ca(url: &str, pem: impl AsRef<[u8]>) -> io::Result<Self> {
        let connection = Connection::open(url, Some(pem.as_ref())).await?;
        Ok(Self { connection, lease: LEASE })
    }

    /// Sets how long a worker may be silent before others take over what it has claimed. The
    /// deadline of its requests is two thirds of it. At least one second. Default: one minute.
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
        rows: impl IntoIterator<Item = io::Result<Row<T>>>,
    ) -> io::Result<()> {
        if let Some(problem) = info.problem() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let keys = Keys::new(&info.job);
        let is_new: bool = self
            .connection
            .once(redis::cmd("HSETNX").arg(&keys.job).arg("state").arg("preparing"))
            .await?;
        if !is_new {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the job exists"));
        }
        let stored = self.store(&keys, info, emails_per_second.into(), files, rows).await;
        if stored.is_err() {
            let mut remove = redis::cmd("UNLINK");
            for key in keys.all() {
                remove.arg(key);
            }
            let _: io::Result<u64> = self.connection.once(&remove).await;
        }
        stored
    }

    async fn store<T: Serialize>(
        &self,
        keys: &Keys,
        info: &JobInfo,
        rate: f64,
        files: &[(&str, &[u8])],
        rows: impl IntoIterator<Item = io::Result<Row<T>>>,
    ) -> io::Result<()> {
        let mut first = redis::pipe();
        let text = serde_json::to_vec(info)?;
        first.cmd("HSET").arg(&keys.job).arg("info").arg(text).arg("rate").arg(rate).ignore();
        for (name, content) in files {
            first.cmd("HSET").arg(&keys.files).arg(*name).arg(*content).ignore();
        }
        self.connection.pipeline(self.expiring(keys, first)).await?;
        // No more than a second's worth of emails in a request.
        let size = if rate > 0.0 { (rate as usize).clamp(1, 100) } else { 100 };
        let (mut chunk, mut chunks, mut last) = (Vec::new(), 0_u64, None);
        let mut batch = redis::pipe();
        let mut rows = rows.into_iter();
        loop {
            let row = rows.next().transpose()?;
            let is_end = row.is_none();
            if let Some(Row { number, data }) = row {
                if last.is_some_and(|last| number <= last) {
                    let problem = format!("row {number} comes after a row with a number as high");
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
                }
                last = Some(number);
                chunk.push((number, data));
            }
            if chunk.len() == size || (is_end && !chunk.is_empty()) {
                let text = serde_json::to_vec(&chunk)?;
                batch.cmd("HSET").arg(&keys.rows).arg(chunks).arg(text).ignore();
                batch.cmd("XADD").arg(&keys.chunks).arg("*").arg("chunk").arg(chunks).ignore();
                chunks += 1;
                chunk.clear();
            }
            if batch.len() >= 40 || is_end {
                self.connection.pipeline(self.expiring(keys, std::mem::take(&mut batch))).await?;
            }
            if is_end {
                break;
            }
        }
        let publish = [&keys.job, &keys.rows, &keys.files, &keys.chunks];
        let is_published: bool =
            self.connection.once(scripts_cmd(scripts::PUBLISH, &publish).arg(chunks)).await?;
        if !is_published {
            return Err(io::Error::other("Redis has lost the job while it was stored"));
        }
        let created = info.at.timestamp_millis();
        self.connection.once(redis::cmd("ZADD").arg(JOBS).arg(created).arg(&info.job)).await
    }

    /// So that nothing is left if the process is killed before the job is complete.
    fn expiring(&self, keys: &Keys, mut batch: redis::Pipeline) -> redis::Pipeline {
        for key in [&keys.job, &keys.rows, &keys.files, &keys.chunks] {
            batch.cmd("EXPIRE").arg(key).arg(LIFE_OF_DRAFT).ignore();
        }
        batch
    }

    /// The ids of all jobs, the oldest first.
    ///
    /// # Errors
    ///
    /// If Redis fails.
    pub async fn jobs(&self) -> io::Result<Vec<String>> {
        self.connection.query(redis::cmd("ZRANGE").arg(JOBS).arg(0).arg(-1)).await
    }

    /// What [`create`](Self::create) stored under this name.
    ///
    /// # Errors
    ///
    /// If Redis fails, or there is no such file ([`NotFound`](io::ErrorKind::NotFound)).
    pub async fn file(&self, job: &str, name: &str) -> io::Result<Vec<u8>> {
        let keys = Keys::new(job);
        let content: Option<Vec<u8>> =
            self.connection.query(redis::cmd("HGET").arg(&keys.files).arg(name)).await?;
        content.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "Redis has no such file"))
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
    ) -> io::Result<Vec<Row<T>>> {
        let keys = Keys::new(job);
        let rows: Option<Vec<u8>> =
            self.connection.query(redis::cmd("HGET").arg(&keys.rows).arg(chunk)).await?;
        let Some(rows) = rows else { return Ok(Vec::new()) };
        let rows: Vec<(u64, T)> = serde_json::from_slice(&rows)?;
        Ok(rows.into_iter().map(|(number, data)| Row { number, data }).collect())
    }

    /// The entries of a chunk, whose numbers start with 0; empty if it was not sent yet. The
    /// numbers of the requests in the entries are unique in the job.
    ///
    /// # Errors
    ///
    /// If Redis fails, or an entry cannot be read.
    pub async fn entries(&self, job: &str, chunk: u64) -> io::Result<Vec<Entry>> {
        let keys = Keys::new(job);
        let log: Option<Vec<u8>> =
            self.connection.query(redis::cmd("HGET").arg(&keys.log).arg(chunk)).await?;
        entries(&log.unwrap_or_default())
    }

    /// Pauses, continues or cancels a job. All workers start no further request at once, and try
    /// none again within a second; attempts in flight are completed. A job that was cancelled
    /// cannot be continued. Returns the state of the job.
    ///
    /// # Errors
    ///
    /// If Redis fails, there is no such job ([`NotFound`](io::ErrorKind::NotFound)), or `state`
    /// is [`Complete`](QueueState::Complete).
    pub async fn set_state(&self, job: &str, state: QueueState) -> io::Result<QueueState> {
        let keys = Keys::new(job);
        if state == QueueState::Complete {
            let problem = "only its workers complete a job";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let name = serde_json::to_value(state)?;
        let command = &mut scripts_cmd(scripts::SET_STATE, &[&keys.job]);
        let state: String = self.connection.query(command.arg(name.as_str())).await?;
        QueueState::parse(&state).ok_or_else(status::missing)
    }

    /// Sends rows with an unknown outcome again, if no worker is sending others of their chunk.
    /// Some recipients may then get the email twice. Returns the number of chunks with such rows.
    ///
    /// # Errors
    ///
    /// If Redis fails.
    pub async fn resend_unknown(&self, job: &str) -> io::Result<u64> {
        let keys = Keys::new(job);
        let (mut cursor, mut again) = ("0".to_owned(), 0);
        loop {
            let command = &mut redis::cmd("HSCAN");
            let command = command.arg(&keys.counts).arg(&cursor).arg("COUNT").arg(1000);
            let (next, counts): (String, Vec<(String, String)>) =
                self.connection.query(command).await?;
            for (chunk, counts) in counts {
                if counts.ends_with(" 0") {
                    continue;
                }
                let script_keys = [&keys.chunks, &keys.log, &keys.done];
                let command = &mut scripts_cmd(scripts::SEND_AGAIN, &script_keys);
                again += self.connection.query::<u64>(command.arg(chunk)).await?;
            }
            if next == "0" {
                return Ok(again);
            }
            cursor = next;
        }
    }
}

fn scripts_cmd(script: &str, keys: &[&String]) -> redis::Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(keys.len());
    keys.iter().for_each(|key| {
        command.arg(key);
    });
    command
}

/// The entries of a chunk's log.
fn entries(log: &[u8]) -> io::Result<Vec<Entry>> {
    let lines = log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let entry = |line: &[u8]| {
        serde_json::from_slice::<Line>(line).ok().and_then(Line::into_entry).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "an entry of the job in Redis is damaged")
        })
    };
    lines.map(entry).collect()
}

/// The lines of entries.
fn lines(entries: Vec<Entry>) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    for entry in entries {
        serde_json::to_writer(&mut text, &Line::from(entry))?;
        text.push(b'\n');
    }
    Ok(text)
}
