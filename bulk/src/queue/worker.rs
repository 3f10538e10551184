//! A worker: claims chunks of a job, sends their rows, and records the outcomes.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::Display;
use std::io;
use std::pin::pin;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::stream::{self, Empty};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::claim::{Answer, Claimed, Claims, ENTRY_BITS, FIRST_POLL, Held, POLL, millis};
use super::keys::Keys;
use super::{RedisQueue, lines, scripts, scripts_cmd};
use crate::collect::{Chunk, Collector, Next};
use crate::driver::{Begin, Driver, refusal};
use crate::{Entry, Error, ErrorKind, Job, Row, RowOutcome, Totals};
use svc_sdk::email::Email;

/// How often a request is repeated with its idempotency key by workers that take it over.
const MAX_REPEATS: usize = 10;

impl Job {
    /// Works on a job in Redis until none of its rows is left to send, together with other
    /// workers. Returns the outcomes of the whole job.
    ///
    /// `worker` names this process in [`RedisQueue::status`]; a random suffix is added. `render`
    /// is as for [`run`](Self::run), and must make the same email of a row in every worker. The
    /// [`rate`](Self::rate) is that of the job; the one of this worker is not used. So is
    /// [`resend_unknown`](Self::resend_unknown): see [`RedisQueue::resend_unknown`]. If Redis
    /// cannot be reached for two minutes, the worker ends.
    ///
    /// [`stop_when`](Self::stop_when) ends this worker in order. Dropping the future ends it at
    /// once; its rows in flight are unknown when its lease has ended.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run). The job then goes on with the other workers.
    pub async fn work<T, R, M>(
        mut self,
        queue: &RedisQueue,
        job: &str,
        worker: &str,
        render: R,
    ) -> Result<Totals, Error>
    where
        T: DeserializeOwned,
        R: FnMut(&T) -> Result<Email, M>,
        M: Display,
    {
        let failed = |error| Error::new(ErrorKind::Journal(error), Totals::default());
        queue.check_durability().await.map_err(failed)?;
        self = self.rate(0).resend_unknown(false).timeout_at_most(queue.lease * 2 / 3);
        let mut rows = pin!(stream::empty::<Result<Row<T>, Infallible>>());
        let collector = self.collector(rows.as_mut(), render);
        let claims = Claims {
            queue: queue.clone(),
            keys: Keys::new(job),
            worker: format!("{worker}-{:08x}", fastrand::u32(..)),
        };
        let mut run = self.start(QueueDriver {
            job: job.to_owned(),
            claims,
            collector,
            invalid: Vec::new(),
            held: HashMap::new(),
            chunk_of: HashMap::new(),
            claiming: None,
            poll_at: Instant::now(),
            poll: FIRST_POLL,
            clock_offset: TimeDelta::zero(),
            totals: Totals::default(),
        });
        run.until_the_end().await;
        if run.failure.is_none() {
            run.settle().await;
        }
        if let Err(error) = run.driver.leave().await {
            run.fail(ErrorKind::Journal(error));
        }
        let totals = match queue.status(job).await {
            Ok(status) => status.totals,
            Err(error) => {
                run.fail(ErrorKind::Journal(error));
                run.driver.totals()
            }
        };
        run.failure.map_or(Ok(totals), |kind| Err(Error::new(kind, totals)))
    }
}

/// The source and the record of a worker.
struct QueueDriver<'a, T, R> {
    job: String,
    claims: Claims,
    collector: Collector<'a, Empty<Result<Row<T>, Infallible>>, T, R>,
    /// Rows without a valid email.
    invalid: Vec<(u64, String)>,
    held: HashMap<u64, Box<Held>>,
    /// The chunk of each row that has to be sent.
    chunk_of: HashMap<u64, u64>,
    /// A task, so that a claim is not forgotten when something else happens first.
    claiming: Option<JoinHandle<io::Result<Claimed>>>,
    /// When to look for chunks again, and how long to wait after that.
    poll_at: Instant,
    poll: Duration,
    clock_offset: TimeDelta,
    /// Those of the job when an outcome was last recorded.
    totals: Totals,
}

impl<T, R, M> QueueDriver<'_, T, R>
where
    T: DeserializeOwned,
    R: FnMut(&T) -> Result<Email, M>,
    M: Display,
{
    /// Makes requests of the rows of a chunk.
    fn take(&mut self, mut held: Box<Held>, rows: &[u8]) -> io::Result<()> {
        let rows: Vec<(u64, T)> = serde_json::from_slice(rows)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a row in Redis is damaged"))?;
        self.clock_offset = held.clock_offset;
        let key_life = self.collector.key_life;
        if held.unknown >= MAX_REPEATS {
            self.collector.key_life = None;
        }
        for (row, data) in rows {
            self.collector.resend_unknown = held.again.contains(&row);
            if let Some(Next::Invalid(row, problem)) = self.collector.add(row, &data, &held.state) {
                self.invalid.push((row, problem));
                held.open.insert(row);
            }
        }
        held.open.extend(self.collector.end_part());
        self.collector.key_life = key_life;
        if held.open.is_empty() {
            let claims = self.claims.clone();
            self.claiming = Some(tokio::spawn(async move {
                claims.append(&mut held, Vec::new(), true).await?;
                Ok(Claimed::Nothing)
            }));
            self.poll_at = Instant::now();
            return Ok(());
        }
        self.chunk_of.extend(held.open.iter().map(|row| (*row, held.number)));
        self.held.insert(held.number, held);
        Ok(())
    }

    /// Returns false if the entries are not of a chunk, or of a request, of this worker's claims.
    async fn append(&mut self, chunk: u64, entries: Vec<Entry>) -> io::Result<bool> {
        let Some(mut held) = self.held.remove(&chunk) else { return Ok(false) };
        if let Some(
            Entry::Outcome { chunk: request, .. }
            | Entry::NotSent { chunk: request, .. }
            | Entry::Unknown { chunk: request, .. },
        ) = entries.first()
            && !held.requests.contains_key(request)
        {
            // It was sent before this worker lost the chunk and claimed it again.
            self.held.insert(chunk, held);
            return Ok(false);
        }
        for entry in &entries {
            let (request, closes) = match entry {
                Entry::Outcome { chunk, .. } | Entry::Unknown { chunk, .. } => (Some(chunk), true),
                Entry::NotSent { chunk, .. } => (Some(chunk), false),
                Entry::Intent { chunk, rows, .. } => {
                    held.requests.insert(*chunk, rows.clone());
                    (None, false)
                }
                Entry::Invalid { row, .. } => {
                    held.open.remove(row);
                    self.chunk_of.remove(row);
                    (None, false)
                }
            };
            let rows = request.and_then(|request| held.requests.remove(request));
            for row in rows.into_iter().flatten().filter(|_| closes) {
                held.open.remove(&row);
                self.chunk_of.remove(&row);
            }
            held.apply(entry);
        }
        let is_over = held.open.is_empty();
        // The worker that claims the chunk after the lease has ended repeats such a request.
        let repeats = is_over
            && held.unknown < MAX_REPEATS
            && self.collector.key_life.is_some_and(|life| held.state.has_repeatable(life));
        match self.claims.append(&mut held, entries, is_over && !repeats).await? {
            Some(totals) => {
                self.totals = totals;
                // That may have been the last chunk of the job.
                (self.poll_at, self.poll) = (Instant::now(), FIRST_POLL);
            }
            // Another worker has taken the chunk over.
            None => {
                self.forget(&held);
                return Ok(false);
            }
        }
        if !is_over {
            self.held.insert(chunk, held);
        }
        Ok(true)
    }

    /// Asks whether a request may be sent now, and records its intent if so.
    async fn begin_one(&mut self, chunk: &Chunk) -> io::Result<Begin> {
        let of_row = chunk.rows.first().and_then(|row| self.chunk_of.get(row));
        let Some(held) = of_row.and_then(|number| self.held.get_mut(number)) else {
            return Ok(Begin::Skip);
        };
        let (number, key, intent) = match &chunk.repeats {
            Some((number, key)) => (*number, Some(key.clone()), None),
            None => {
                let number = held.next_number();
                let has_keys = self.collector.key_life.is_some();
                let key = has_keys.then(|| format!("{}-{number}", self.job));
                (number, key.clone(), Some(chunk.intent(number, held.state.now(), key)))
            }
        };
        let text = lines(intent.iter().cloned().collect())?;
        let asked = Instant::now();
        let mut answer = self.claims.begin(held, &text, chunk.rows.len()).await?;
        if let (Answer::Send, Some(intent)) = (&answer, &intent) {
            held.apply(intent);
            held.length += text.len();
        }
        // This process may have been suspended since Redis answered.
        if matches!(answer, Answer::Send) && asked.elapsed() > self.claims.queue.lease / 4 {
            answer = match self.claims.is_mine(held).await? {
                true => Answer::Send,
                false => Answer::Lost,
            };
        }
        match answer {
            Answer::Send => {
                held.requests.insert(number, chunk.rows.clone());
                Ok(Begin::Send { chunk: number, key })
            }
            Answer::Wait(time) => Ok(Begin::Later(time)),
            Answer::Stop => Ok(Begin::Stop),
            Answer::Lost => {
                let lost = held.number;
                if let Some(held) = self.held.remove(&lost) {
                    self.forget(&held);
                }
                Ok(Begin::Skip)
            }
        }
    }

    /// Another worker has taken a chunk over.
    fn forget(&mut self, held: &Held) {
        for row in &held.open {
            self.chunk_of.remove(row);
        }
    }

    /// Gives back what was claimed and not sent.
    async fn leave(&mut self) -> io::Result<()> {
        if let Some(claiming) = self.claiming.take()
            && let Ok(Ok(Claimed::Chunk(held, _))) = claiming.await
        {
            self.held.insert(held.number, held);
        }
        for held in std::mem::take(&mut self.held).into_values() {
            self.claims.release(&held).await?;
        }
        let Claims { queue, keys, worker } = &self.claims;
        let mut command = redis::cmd("HSET");
        command.arg(&keys.workers).arg(format!("{worker}|left")).arg(1);
        queue.connection.query(&command).await
    }
}

impl<T, R, M> Driver for QueueDriver<'_, T, R>
where
    T: DeserializeOwned,
    R: FnMut(&T) -> Result<Email, M>,
    M: Display,
{
    async fn next(&mut self) -> Result<Option<Next>, ErrorKind> {
        loop {
            if let Some((row, problem)) = self.invalid.pop() {
                return Ok(Some(Next::Invalid(row, problem)));
            }
            if let Some(chunk) = self.collector.pop() {
                return Ok(Some(Next::Chunk(chunk)));
            }
            if self.claiming.is_none() {
                sleep_until(self.poll_at).await;
            }
            let claim = || tokio::spawn(self.claims.clone().claim());
            let claimed = self.claiming.get_or_insert_with(claim).await;
            self.claiming = None;
            match claimed.map_err(io::Error::other).flatten().map_err(ErrorKind::Journal)? {
                // This worker was suspended for longer than its lease, and has claimed its own
                // chunk again. Nothing that it has of it must be sent.
                Claimed::Chunk(held, _) if self.held.contains_key(&held.number) => {
                    if let Some(lost) = self.held.remove(&held.number) {
                        self.forget(&lost);
                    }
                    self.claims.release(&held).await.map_err(ErrorKind::Journal)?;
                }
                Claimed::Chunk(held, rows) => {
                    self.poll = FIRST_POLL;
                    self.take(held, &rows).map_err(ErrorKind::Journal)?;
                }
                Claimed::Nothing => {
                    self.poll_at = Instant::now() + self.poll;
                    self.poll = (self.poll * 2).min(POLL);
                }
                Claimed::End => return Ok(None),
            }
        }
    }

    /// One: another worker may be idle. The deadline of a request is shorter than the lease, so
    /// what is claimed while it is in flight is still claimed when it has ended.
    fn read_ahead(&self, _: usize) -> usize {
        1
    }

    /// Begins one request, so that a failure of Redis leaves no more of them unknown.
    async fn begin(&mut self, chunks: &[Chunk]) -> io::Result<Vec<Begin>> {
        match chunks.first() {
            Some(chunk) => Ok(vec![self.begin_one(chunk).await?]),
            None => Ok(Vec::new()),
        }
    }

    async fn record(&mut self, entries: Vec<Entry>) -> io::Result<bool> {
        let chunk = entries.first().and_then(|entry| match entry {
            Entry::Invalid { row, .. } => self.chunk_of.get(row).copied(),
            Entry::Intent { chunk, .. }
            | Entry::Outcome { chunk, .. }
            | Entry::NotSent { chunk, .. }
            | Entry::Unknown { chunk, .. } => Some(chunk >> ENTRY_BITS),
        });
        match chunk {
            Some(chunk) => self.append(chunk, entries).await,
            None => Ok(false),
        }
    }

    async fn refuse(&mut self, row: u64, to: String, outcome: RowOutcome) -> io::Result<()> {
        let Some(chunk) = self.chunk_of.get(&row) else { return Ok(()) };
        let Some(held) = self.held.get(chunk) else { return Ok(()) };
        let (number, at) = (held.next_number(), held.state.now());
        self.append(*chunk, refusal(number, at, row, to, outcome)).await.map(|_| ())
    }

    async fn write(&mut self) -> io::Result<()> {
        Ok(())
    }

    async fn pause(&mut self, time: Duration) -> io::Result<()> {
        let Claims { queue, keys, .. } = &self.claims;
        let mut command = scripts_cmd(scripts::PAUSE, &[&keys.job]);
        queue.connection.query(command.arg(millis(time))).await
    }

    fn now(&self) -> DateTime<Utc> {
        Utc::now() + self.clock_offset
    }

    fn totals(&self) -> Totals {
        self.totals
    }
}
