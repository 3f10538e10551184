//! A worker: claims chunks of a job, sends their rows, and records the outcomes.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::marker::PhantomData;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Mutex;
use std::time::Duration;

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use serde::de::DeserializeOwned;
use svc_sdk::email::Email;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{RedisQueue, damaged, entries, key, script, scripts, status, totals, with_totals};
use crate::entries::JournalEntry;
use crate::journal::lines;
use crate::request::{Collector, Request};
use crate::run::{Begin, Ledger, POLL, Run, Work, lock};
use crate::{Error, ErrorKind, Job, JournalState, RowRefusal, SendState, Totals};

/// How long a sender without rows to send waits at first before it looks again, as the others will
/// probably have sent the last rows soon.
const FIRST_POLL: Duration = Duration::from_millis(10);

/// The bits of a request's number that count the requests of its chunk; the others are the number
/// of the chunk.
const REQUEST_BITS: u32 = 20;

/// How often a request is sent with its idempotency key, by all workers that take it over.
const MAX_REPEATS: usize = 10;

impl Job {
    /// Works on a job in Redis until none of its rows is left to send, together with other
    /// workers. Returns the outcomes of the whole job.
    ///
    /// `render` is as for [`run`](Self::run), and must make the same email of a row in every worker. The
    /// [`rate`](Self::rate) is that of the job; the one of this worker is not used. If Redis cannot be
    /// reached for two minutes, the worker ends.
    ///
    /// [`stop_when`](Self::stop_when) ends this worker in order. Dropping the future ends it at
    /// once; its rows in flight are unknown when its lease has ended.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run). After [`ErrorKind::Refused`], the job is paused; otherwise it
    /// goes on with the other workers.
    pub async fn work<T, R, M>(
        mut self,
        queue: &RedisQueue,
        job: &str,
        render: R,
    ) -> Result<Totals, Error>
    where
        T: DeserializeOwned,
        R: FnMut(&T) -> Result<Email, M>,
        M: Display,
    {
        let failed = |error| Error {
            kind: ErrorKind::Journal(error),
            totals: Totals::default(),
        };
        queue.check_durability().await.map_err(failed)?;
        self = self.rate(0);
        self.timeout = self.timeout.min(queue.lease * 2 / 3);
        let ledger = QueueLedger {
            queue,
            job,
            worker: format!("{:016x}", fastrand::u64(..)),
            settings: self.collector(),
            render: Mutex::new(render),
            totals: Mutex::default(),
            row: PhantomData,
        };
        let run = Run::new(self, ledger);
        run.until_the_end().await;
        let mut leave = redis::cmd("ZREM");
        leave.arg(key(job, ":alive")).arg(&run.ledger.worker);
        let status = async {
            let _: u64 = queue.connection.query(&leave).await?;
            queue.status(job).await
        };
        let totals = match status.await {
            Ok(status) => status.totals,
            Err(error) => {
                run.fail(ErrorKind::Journal(error));
                run.ledger.totals()
            }
        };
        run.result(totals)
    }
}

/// The chunks of a job.
struct QueueLedger<'a, T, R> {
    queue: &'a RedisQueue,
    job: &'a str,
    worker: String,
    /// How rows are collected.
    settings: Collector,
    render: Mutex<R>,
    /// Those of the job when an outcome was last recorded.
    totals: Mutex<Totals>,
    row: PhantomData<fn(T)>,
}

/// A chunk that this worker has claimed.
struct Claim {
    chunk: u64,
    /// Its id in the stream.
    id: String,
    /// How often it was claimed.
    claims: u64,
    /// The length of its log.
    length: usize,
    /// How often a request became unknown.
    unknown: usize,
    state: JournalState,
    /// What the clock of this machine lacks.
    clock_offset: TimeDelta,
}

/// The response to a claim: the time in ms, the id in the stream, the number of the chunk, how often
/// it was claimed, and its log.
type ClaimResponse = (i64, String, u64, u64, Vec<u8>);

impl<T, R> QueueLedger<'_, T, R> {
    /// Claims a chunk. `Continue` if there is none now, and `Break(None)` if no row is left or the job
    /// was cancelled.
    async fn claim(&self) -> io::Result<ControlFlow<Option<Claim>>> {
        let command = self.script(scripts::CLAIM);
        let response: Vec<redis::Value> = self.queue.connection.query(&command).await?;
        let mut response = response.into_iter();
        match response.next().map_or(Ok(String::new()), parse)?.as_str() {
            "chunk" => {}
            "end" => return Ok(Break(None)),
            "missing" => return Err(status::missing()),
            _ => return Ok(Continue(())),
        }
        let claimed: ClaimResponse = response.next().map_or_else(|| Err(damaged()), parse)?;
        let (now, id, chunk, claims, log) = claimed;
        let now = DateTime::from_timestamp_millis(now).unwrap_or_default();
        let mut claim = Claim {
            chunk,
            id,
            claims,
            length: log.len(),
            unknown: 0,
            state: JournalState::default(),
            clock_offset: now - Utc::now(),
        };
        entries(&log)?.iter().for_each(|entry| claim.apply(entry));
        // The worker that sent them has not recorded an outcome and cannot do so any more.
        let (at, in_flight) = (claim.now(), claim.state.in_flight().into_iter());
        let lost = in_flight.map(|request| JournalEntry::Unknown {
            request,
            at,
            code: None,
        });
        let lost = lost.collect::<Vec<_>>();
        if !lost.is_empty() && !self.append(&mut claim, lost, false).await? {
            return Ok(Continue(()));
        }
        Ok(Break(Some(claim)))
    }

    /// Appends entries to the log of a chunk. Returns false if another worker has claimed it since.
    async fn append(
        &self,
        claim: &mut Claim,
        entries: Vec<JournalEntry>,
        is_done: bool,
    ) -> io::Result<bool> {
        let text = lines(&entries)?;
        entries.iter().for_each(|entry| claim.apply(entry));
        let mut command = self.script_about(scripts::RECORD, claim);
        command.arg(claim.length).arg(&text).arg(u8::from(is_done));
        with_totals(&mut command, claim.state.totals());
        let counts: Option<Vec<Option<String>>> = self.queue.connection.query(&command).await?;
        let Some(counts) = counts else {
            return Ok(false);
        };
        claim.length += text.len();
        let counts = counts
            .iter()
            .map(|count| count.as_deref().unwrap_or_default());
        *lock(&self.totals) = totals(counts);
        Ok(true)
    }

    fn script(&self, body: &str) -> redis::Cmd {
        let mut command = script(body, self.job);
        command.arg(&self.worker).arg(millis(self.queue.lease));
        command
    }

    /// A script about a claimed chunk.
    fn script_about(&self, body: &str, claim: &Claim) -> redis::Cmd {
        let mut command = self.script(body);
        command.arg(claim.chunk).arg(&claim.id).arg(claim.claims);
        command
    }

    /// Whether a request of a chunk may be repeated with its key.
    fn key_life(&self, claim: &Claim) -> Option<TimeDelta> {
        self.settings
            .key_life
            .filter(|_| claim.unknown < MAX_REPEATS)
    }
}

impl<T, R, M> Ledger for QueueLedger<'_, T, R>
where
    T: DeserializeOwned,
    R: FnMut(&T) -> Result<Email, M>,
    M: Display,
{
    type Part = Claim;

    async fn next(&self, stop: &CancellationToken) -> Result<Option<Work<Self::Part>>, ErrorKind> {
        let mut wait = FIRST_POLL;
        let part = loop {
            match self.claim().await.map_err(ErrorKind::Journal)? {
                Break(Some(claim)) => break claim,
                Continue(()) if stop.run_until_cancelled(sleep(wait)).await.is_some() => {
                    wait = (wait * 2).min(POLL);
                }
                _ => return Ok(None),
            }
        };
        let rows = self
            .queue
            .rows(self.job, part.chunk)
            .await
            .map_err(ErrorKind::Journal)?;
        let Collector { size, check, .. } = self.settings;
        let mut collector = Collector::new(size, self.key_life(&part), check);
        let mut render = lock(&self.render);
        let mut invalid = Vec::new();
        for (row, data) in rows {
            let problem = collector.take(row, &part.state, part.now(), || render(&data));
            invalid.extend(problem.map(|problem| (row, problem)));
        }
        collector.finish();
        let mut requests = std::iter::from_fn(|| collector.pop()).collect::<Vec<_>>();
        requests.reverse();
        Ok(Some(Work {
            part,
            requests,
            invalid,
        }))
    }

    async fn begin(&self, claim: &mut Self::Part, request: &Request) -> io::Result<Begin> {
        let (number, key, intent) = match &request.repeats {
            Some((number, key)) => {
                // It may have waited for long.
                let (row, now) = (request.rows[0], claim.now());
                let is_alive = |life| claim.state.repeatable(row, now, life).is_some();
                if !self.settings.key_life.is_some_and(is_alive) {
                    return Ok(Begin::Forgotten);
                }
                (*number, Some(key.clone()), None)
            }
            None => {
                let number = claim.state.next_request().max(claim.chunk << REQUEST_BITS);
                let key = self
                    .settings
                    .key_life
                    .map(|_| format!("{}-{number}", self.job));
                let (rows, at) = (request.rows.clone(), claim.now());
                let intent = JournalEntry::Intent {
                    request: number,
                    at,
                    key: key.clone(),
                    rows,
                };
                (number, key, Some(intent))
            }
        };
        let text = lines(intent.as_slice())?;
        let mut command = self.script_about(scripts::BEGIN, claim);
        command.arg(claim.length).arg(&text).arg(request.rows.len());
        let asked = Instant::now();
        let response: Vec<String> = self.queue.connection.query(&command).await?;
        match response.first().map(String::as_str) {
            Some("ok") => {}
            Some("wait") => {
                let wait = response
                    .get(1)
                    .and_then(|wait| wait.parse().ok())
                    .unwrap_or_default();
                return Ok(Begin::Later(Duration::from_micros(wait)));
            }
            Some("paused") => return Ok(Begin::Later(POLL)),
            // Or the job was cancelled, and this worker ends.
            _ => return Ok(Begin::Lost),
        }
        claim.length += text.len();
        intent.iter().for_each(|intent| claim.apply(intent));
        // This process may have been suspended since Redis responded.
        if asked.elapsed() > self.queue.lease / 4 {
            let is_mine = self.script_about(scripts::IS_MINE, claim);
            if !self.queue.connection.query::<bool>(&is_mine).await? {
                return Ok(Begin::Lost);
            }
        }
        Ok(Begin::Send(number, key))
    }

    async fn record(&self, claim: &mut Self::Part, entries: Vec<JournalEntry>) -> io::Result<bool> {
        self.append(claim, entries, false).await
    }

    async fn end(&self, mut claim: Self::Part, is_done: bool) -> io::Result<()> {
        if !is_done {
            let release = self.script_about(scripts::RELEASE, &claim);
            return self.queue.connection.query(&release).await;
        }
        // The worker that claims the chunk when the lease has ended repeats such a request.
        let life = self.key_life(&claim);
        if life.is_some_and(|life| claim.state.has_repeatable(claim.now(), life)) {
            return Ok(());
        }
        self.append(&mut claim, Vec::new(), true).await.map(|_| ())
    }

    async fn pause(&self, time: Duration) -> io::Result<()> {
        let mut command = script(scripts::PAUSE, self.job);
        self.queue.connection.query(command.arg(millis(time))).await
    }

    async fn refused(&self, refusal: &RowRefusal, rows: Vec<(u64, u64)>) -> io::Result<bool> {
        let state = self
            .queue
            .change_state(self.job, SendState::Paused, Some(refusal))
            .await?;
        if state == SendState::Cancelled {
            return Ok(false);
        }
        let mut chunks = BTreeMap::<u64, Vec<u64>>::new();
        for (chunk, row) in rows {
            chunks.entry(chunk).or_default().push(row);
        }
        for (chunk, rows) in chunks {
            let reopened = JournalEntry::reopened(rows);
            self.queue
                .amend(self.job, chunk, |_| reopened.into_iter().collect())
                .await?;
        }
        Ok(true)
    }

    fn number(claim: &Self::Part) -> u64 {
        claim.chunk
    }

    fn now(&self, claim: &Self::Part) -> DateTime<Utc> {
        claim.now()
    }

    fn totals(&self) -> Totals {
        *lock(&self.totals)
    }
}

impl Claim {
    fn apply(&mut self, entry: &JournalEntry) {
        self.unknown += usize::from(matches!(entry, JournalEntry::Unknown { .. }));
        self.state.apply(entry);
    }

    /// The current time by the clock of Redis, in milliseconds.
    fn now(&self) -> DateTime<Utc> {
        (Utc::now() + self.clock_offset).trunc_subsecs(3)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn parse<T: redis::FromRedisValue>(value: redis::Value) -> io::Result<T> {
    redis::from_redis_value(value).map_err(|_| damaged())
}
