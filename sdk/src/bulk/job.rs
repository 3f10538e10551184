//! Runs a job.

use std::fmt;
use std::fmt::Display;
use std::pin::pin;
use std::time::Duration;

use chrono::TimeDelta;
use futures_core::Stream;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Either, pending, select};
use tokio::task::JoinSet;

use super::collect::{Chunk, Collector, Next};
use super::entry::now;
use super::error::Cause;
use super::pace::Pace;
use super::{Entry, Error, ErrorKind, Journal, RowOutcome, State, Totals};
use crate::email::{BatchOutcome, BatchResponse, Email};
use crate::{EmailClient, Outcome};

/// The most emails in one request.
const MAX_CHUNK: usize = 100;

/// The default of [`Job::timeout`].
const TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// How long an attempt may take.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);

/// The default of [`Job::max_retry_after`].
const MAX_RETRY_AFTER: Duration = Duration::from_secs(15 * 60);

/// The default of [`Job::retries`].
const RETRIES: u32 = 6;

/// A job ends after this many requests in a row with an unknown outcome: the service is
/// probably down, and each further one would make more rows unknown.
const MAX_UNKNOWN_CHUNKS: u32 = 3;

/// A job ends after this many rows in a row that were refused alone in their request: the
/// service probably refuses every request, whatever it contains.
const MAX_REFUSED_ALONE: usize = 20;

/// A row of a job.
#[derive(Clone, Debug)]
pub struct Row<T> {
    /// The number by which the journal knows the row. Numbers ascend in the stream, and a row
    /// has the same one in every run.
    pub number: u64,
    /// What the email is rendered from.
    pub data: T,
}

impl<T> Row<T> {
    /// Creates a row.
    pub fn new(number: u64, data: T) -> Self {
        Self { number, data }
    }
}

/// What became of one request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChunkReport {
    /// The rows of the request with their outcome. Empty if it was not processed.
    pub outcomes: Vec<(u64, RowOutcome)>,
    /// The outcome of the job's rows so far.
    pub totals: Totals,
    /// How long the job now waits, because the service asked for it.
    pub pause: Option<Duration>,
}

type Observer = Box<dyn FnMut(&ChunkReport) + Send>;

/// Sends an email for each row of a stream. See the [module](super).
#[must_use = "a job does nothing until it runs"]
pub struct Job {
    client: EmailClient,
    chunk_size: usize,
    rate: Option<f64>,
    concurrency: usize,
    resend_unknown: bool,
    key_life: Duration,
    retries: u32,
    timeout: Duration,
    max_retry_after: Duration,
    stop: BoxFuture<'static, ()>,
    observer: Option<Observer>,
}

impl Job {
    /// Creates a job that sends with this client.
    pub fn new(client: &EmailClient) -> Self {
        Self {
            client: client.clone(),
            chunk_size: MAX_CHUNK,
            rate: None,
            concurrency: 4,
            resend_unknown: false,
            key_life: Duration::from_secs(24 * 60 * 60),
            retries: RETRIES,
            timeout: TIMEOUT,
            max_retry_after: MAX_RETRY_AFTER,
            stop: Box::pin(pending()),
            observer: None,
        }
    }

    /// Sets the number of emails in a request, 1 to 100. Default: 100, and less if that many
    /// would take more than a second at the [`rate`](Self::rate).
    pub fn chunk_size(mut self, emails: usize) -> Self {
        self.chunk_size = emails.clamp(1, MAX_CHUNK);
        self
    }

    /// Limits the emails sent in a second, such as 50 or 0.5; 0 means no limit, which is the
    /// default. A 429 with `Retry-After` slows down all requests in any case.
    pub fn rate(mut self, emails_per_second: impl Into<f64>) -> Self {
        let rate = emails_per_second.into();
        self.rate = (rate > 0.0).then_some(rate);
        self
    }

    /// Sets the number of requests in flight, at least 1. Default: 4.
    pub fn concurrency(mut self, requests: usize) -> Self {
        self.concurrency = requests.max(1);
        self
    }

    /// Sends rows with an unknown outcome again. Some recipients may then get the email
    /// twice. Default: false, they are kept back.
    pub fn resend_unknown(mut self, resend: bool) -> Self {
        self.resend_unknown = resend;
        self
    }

    /// Sets how long the service remembers an idempotency key. Default: 24 hours. Only used
    /// if the client was built with
    /// [`service_honors_idempotency_key(true)`](crate::EmailClientBuilder::service_honors_idempotency_key).
    pub fn idempotency_key_life(mut self, life: Duration) -> Self {
        self.key_life = life;
        self
    }

    /// Sets how often a request is retried that was certainly not processed, or has an
    /// idempotency key. Default: 6. Pauses after a 429 with `Retry-After` do not count.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sets the deadline of each request, with its retries and their pauses. Default: 5
    /// minutes.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the longest `Retry-After` of a 429 that the job waits for. If the service asks for
    /// more, the job ends. Default: 15 minutes. [`ChunkReport::pause`] tells of a pause that
    /// exceeds the deadline of a request or the
    /// [`max_retry_after`](crate::EmailClientBuilder::max_retry_after) of the client.
    pub fn max_retry_after(mut self, max: Duration) -> Self {
        self.max_retry_after = max;
        self
    }

    /// Stops the job when this future is ready: no further request is started, and what is in
    /// flight is completed.
    pub fn stop_when(mut self, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        self.stop = Box::pin(stop);
        self
    }

    /// Registers a function that is called after every request.
    pub fn on_chunk(mut self, observer: impl FnMut(&ChunkReport) + Send + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// Runs the job until the stream ends, and returns the outcome of all its rows.
    ///
    /// `render` makes the email of a row. A row for which it fails, or whose email exceeds a
    /// documented limit, is recorded as invalid and not sent.
    ///
    /// [`stop_when`](Self::stop_when) stops a job in order. Dropping the future stops it at
    /// once; the rows in flight are then unknown.
    ///
    /// If the service refuses a whole request as invalid or too large, its halves are sent, so
    /// that in the end only the row that causes it is refused.
    ///
    /// # Errors
    ///
    /// If the service cannot be reached or refuses whole requests, if the journal cannot be
    /// written, or if the stream yields an error. Requests in flight are completed first.
    pub async fn run<S, T, E, R, M>(
        self,
        rows: S,
        render: R,
        journal: &mut (impl Journal + ?Sized),
    ) -> Result<Totals, Error>
    where
        S: Stream<Item = Result<Row<T>, E>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
        R: FnMut(&T) -> Result<Email, M>,
        M: Display,
    {
        let settings = &self.client.shared.settings;
        let margin = (self.key_life / 2).min(2 * self.timeout);
        let key_life = settings.honors_idempotency_key.then(|| self.key_life - margin);
        let rate = self.rate.map_or(MAX_CHUNK, |rate| rate as usize);
        let guard = self.client.shared.guard.as_ref().and_then(|it| it.guard().smallest_limit());
        let limit = guard.map_or(MAX_CHUNK, |limit| usize::try_from(limit).unwrap_or(MAX_CHUNK));
        let rows = pin!(rows);
        let size = self.chunk_size.min(rate).min(limit).clamp(1, MAX_CHUNK);
        let mut collector = Collector::new(rows, render, size);
        collector.resend_unknown = self.resend_unknown;
        collector.key_life = key_life.and_then(|life| TimeDelta::from_std(life).ok());
        collector.check = settings.local_checks;
        let state = match journal.load().await {
            Ok(state) => state.stopped(),
            Err(error) => return Err(Error::new(ErrorKind::Journal(error), Totals::default())),
        };
        let mut run = Run {
            has_keys: collector.key_life.is_some(),
            pace: Pace::new(self.rate),
            concurrency: self.concurrency,
            client: self.client,
            retries: self.retries,
            timeout: self.timeout,
            max_retry_after: self.max_retry_after,
            stop: Some(self.stop),
            observer: self.observer,
            state,
            journal,
            requests: JoinSet::new(),
            unknown_in_a_row: 0,
            has_accepted: false,
            refused_alone: Vec::new(),
            refused_in_a_row: 0,
            failure: None,
        };
        run.until_the_end(&mut collector).await;
        if run.failure.is_none() {
            run.refuse().await;
        }
        if let Err(error) = run.journal.append(Vec::new(), true).await {
            run.fail(ErrorKind::Journal(error));
        }
        let totals = run.state.totals();
        run.failure.map_or(Ok(totals), |kind| Err(Error::new(kind, totals)))
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("chunk_size", &self.chunk_size)
            .field("rate", &self.rate)
            .field("concurrency", &self.concurrency)
            .field("resend_unknown", &self.resend_unknown)
            .field("key_life", &self.key_life)
            .finish_non_exhaustive()
    }
}

/// A request that has ended.
struct Done {
    chunk: u64,
    rows: Vec<u64>,
    emails: Vec<Email>,
    is_repeat: bool,
    result: Result<BatchResponse, crate::Error>,
}

/// A job that runs.
struct Run<'a, J: ?Sized> {
    client: EmailClient,
    retries: u32,
    timeout: Duration,
    max_retry_after: Duration,
    /// `None` after it was ready.
    stop: Option<BoxFuture<'static, ()>>,
    has_keys: bool,
    concurrency: usize,
    pace: Pace,
    observer: Option<Observer>,
    state: State,
    journal: &'a mut J,
    /// Tasks, so that they go on while the journal is written. Dropping them ends them.
    requests: JoinSet<Done>,
    unknown_in_a_row: u32,
    /// Whether this run has had a request accepted.
    has_accepted: bool,
    /// Rows that were refused alone before that: the row, its recipient and its outcome.
    refused_alone: Vec<(u64, String, RowOutcome)>,
    refused_in_a_row: usize,
    failure: Option<ErrorKind>,
}

/// What happens next in a job.
enum Event<T> {
    Next(T),
    Done(Result<Done, tokio::task::JoinError>),
    Stop,
}

impl<J: Journal + ?Sized> Run<'_, J> {
    async fn until_the_end<S, T, E, R, M>(&mut self, collector: &mut Collector<'_, S, T, R>)
    where
        S: Stream<Item = Result<Row<T>, E>>,
        E: Into<Cause>,
        R: FnMut(&T) -> Result<Email, M>,
        M: Display,
    {
        let mut ended = false;
        loop {
            ended |= self.failure.is_some() || self.stop.is_none();
            let may_start = !ended && self.requests.len() < self.concurrency;
            if !may_start && self.requests.is_empty() {
                return;
            }
            let event = {
                let (pace, state, requests) = (&self.pace, &self.state, &mut self.requests);
                let stop = &mut self.stop;
                let next = async {
                    if !may_start {
                        return pending().await;
                    }
                    pace.wait().await;
                    Event::Next(collector.next(state).await)
                };
                let done = async {
                    match requests.join_next().await {
                        Some(done) => Event::Done(done),
                        None => pending().await,
                    }
                };
                let stopped = async {
                    match stop {
                        Some(stop) => stop.await,
                        None => pending().await,
                    }
                    Event::Stop
                };
                let (next, done) = (pin!(next), pin!(done));
                select(pin!(stopped), select(next, done).map(first)).map(first).await
            };
            match event {
                Event::Stop => self.stop = None,
                Event::Next(Ok(Some(Next::Chunk(chunk)))) => self.start(chunk).await,
                Event::Next(Ok(Some(Next::Invalid(row, message)))) => {
                    self.record(vec![Entry::Invalid { row, at: now(), message }], false).await;
                }
                Event::Next(Ok(None)) => ended = true,
                Event::Next(Err(error)) => self.fail(ErrorKind::Rows(error)),
                Event::Done(Ok(done)) => {
                    for (rows, emails) in self.conclude(done).await {
                        collector.put_back(rows, emails);
                        ended = false;
                    }
                }
                // A panic of the application, such as in an attachment's source.
                Event::Done(Err(error)) => {
                    if let Ok(panic) = error.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    }
                }
            }
        }
    }

    /// Records the intent and sends the request.
    async fn start(&mut self, chunk: Chunk) {
        let Chunk { rows, emails, repeats, .. } = chunk;
        let is_repeat = repeats.is_some();
        let (number, key) = match repeats {
            Some((number, key)) => (number, Some(key)),
            None => {
                let number = self.state.next_chunk();
                let key = self.has_keys.then(|| format!("{}-{number}", self.journal.job()));
                let to = emails.iter().map(|email| address(email).to_owned()).collect();
                let (key_of_entry, rows) = (key.clone(), rows.clone());
                let at = now();
                let intent = Entry::Intent { chunk: number, at, key: key_of_entry, rows, to };
                self.record(vec![intent], true).await;
                (number, key)
            }
        };
        if self.failure.is_some() {
            return;
        }
        self.pace.start(rows.len());
        let (client, retries, timeout) = (self.client.clone(), self.retries, self.timeout);
        self.requests.spawn(async move {
            let call = client.emails().send_batch(&emails);
            let call = call.timeout(timeout).attempt_timeout(ATTEMPT_TIMEOUT.min(timeout)).retries(retries);
            let call = match &key {
                Some(key) => call.idempotency_key(key),
                None => call,
            };
            let result = call.await;
            Done { chunk: number, rows, emails, is_repeat, result }
        });
    }

    /// Records the outcome of a request. Returns the rows that are sent again, with their
    /// emails, the last first.
    async fn conclude(&mut self, done: Done) -> Vec<(Vec<u64>, Vec<Email>)> {
        let Done { chunk, rows, emails, is_repeat, result } = done;
        let (at, mut results) = (now(), Vec::new());
        let entry = match &result {
            Ok(response) => {
                self.unknown_in_a_row = 0;
                results = outcomes(response, rows.len());
                Entry::Outcome { chunk, at, results: results.clone() }
            }
            Err(error) => {
                let code = error.code().map(str::to_owned);
                // A refusal of the repetition says nothing about the first request.
                if is_repeat || error.outcome() == Outcome::Unknown {
                    Entry::Unknown { chunk, at, code }
                } else {
                    Entry::NotSent { chunk, at, code }
                }
            }
        };
        self.record(vec![entry], false).await;
        let (mut again, mut pause) = (Vec::new(), None);
        match result {
            Ok(_) => {
                (self.has_accepted, self.refused_in_a_row) = (true, 0);
                self.refuse().await;
            }
            Err(error) if error.outcome() == Outcome::Unknown => {
                self.unknown_in_a_row += 1;
                results = vec![RowOutcome::Unknown; rows.len()];
                if self.unknown_in_a_row >= MAX_UNKNOWN_CHUNKS {
                    self.fail(ErrorKind::Service(error));
                }
            }
            Err(error) if is_repeat => {
                let is_conflict = error.outcome() == Outcome::Refused
                    && error.status().is_some_and(|status| status == 409);
                if !is_conflict {
                    self.fail(ErrorKind::Service(error));
                }
            }
            Err(error) => match self.pause_of(&error) {
                Some(wait) => {
                    self.pace.pause(wait);
                    pause = Some(wait);
                    again.push((rows.clone(), emails));
                }
                None if !is_invalid(&error) => self.fail(ErrorKind::Service(error)),
                None if rows.len() > 1 => again = halves(rows.clone(), emails),
                None => {
                    let outcome = refusal(&error);
                    let to = emails.first().map_or("", address).to_owned();
                    self.refused_alone.extend(rows.first().map(|row| (*row, to, outcome)));
                    self.refused_in_a_row += 1;
                    if self.has_accepted {
                        self.refuse().await;
                    }
                    if self.refused_in_a_row >= MAX_REFUSED_ALONE {
                        self.fail(ErrorKind::Service(error));
                    }
                }
            },
        }
        self.report(rows.into_iter().zip(results).collect(), pause);
        again
    }

    /// How long to wait before a request is sent again that the service limited.
    fn pause_of(&self, error: &crate::Error) -> Option<Duration> {
        let wait = error.retry_after().filter(|_| error.is_rate_limited())?;
        (wait <= self.max_retry_after).then_some(wait)
    }

    /// Records the rows that were refused alone.
    async fn refuse(&mut self) {
        for (row, to, outcome) in std::mem::take(&mut self.refused_alone) {
            let (chunk, at) = (self.state.next_chunk(), now());
            let results = vec![outcome.clone()];
            let intent = Entry::Intent { chunk, at, key: None, rows: vec![row], to: vec![to] };
            self.record(vec![intent, Entry::Outcome { chunk, at, results }], false).await;
            self.report(vec![(row, outcome)], None);
        }
    }

    fn report(&mut self, outcomes: Vec<(u64, RowOutcome)>, pause: Option<Duration>) {
        let totals = self.state.totals();
        if let Some(observer) = &mut self.observer {
            observer(&ChunkReport { outcomes, totals, pause });
        }
    }

    async fn record(&mut self, entries: Vec<Entry>, durable: bool) {
        entries.iter().for_each(|entry| self.state.apply(entry));
        if let Err(error) = self.journal.append(entries, durable).await {
            self.fail(ErrorKind::Journal(error));
        }
    }

    /// Keeps the first failure. No further request is started.
    fn fail(&mut self, kind: ErrorKind) {
        self.failure.get_or_insert(kind);
    }
}

fn first<A, X, Y>(either: Either<(A, X), (A, Y)>) -> A {
    match either {
        Either::Left((value, _)) | Either::Right((value, _)) => value,
    }
}

/// Whether the service refused a whole request because of what it contains.
fn is_invalid(error: &crate::Error) -> bool {
    error.outcome() == Outcome::Refused
        && matches!(error.kind(), crate::ErrorKind::Invalid | crate::ErrorKind::TooLarge)
}

/// The outcome of a row whose request was refused.
fn refusal(error: &crate::Error) -> RowOutcome {
    let field = error.fields().first().map(|each| format!("{}: {}", each.field, each.message));
    let status = error.status().map(|status| format!("http_{}", status.as_u16()));
    let code = error.code().or(status.as_deref());
    RowOutcome::refused(code, field.as_deref().or(error.message()))
}

/// Both halves of a request, the second first.
fn halves(mut rows: Vec<u64>, mut emails: Vec<Email>) -> Vec<(Vec<u64>, Vec<Email>)> {
    let half = rows.len() / 2;
    let second = (rows.split_off(half), emails.split_off(half));
    vec![second, (rows, emails)]
}

/// The outcome of each email of a request.
fn outcomes(response: &BatchResponse, sent: usize) -> Vec<RowOutcome> {
    let mut outcomes = vec![RowOutcome::Unknown; sent];
    let mut seen = vec![false; sent];
    for item in &response.items {
        let Some(index) = item.index.filter(|index| *index < sent) else { continue };
        outcomes[index] = match &item.outcome {
            // Two results for one email contradict each other.
            _ if seen[index] => RowOutcome::Unknown,
            BatchOutcome::Accepted(email) => RowOutcome::Accepted(email.id.clone()),
            BatchOutcome::Refused(refusal) => {
                let field = refusal.fields.first();
                let field = field.map(|each| format!("{}: {}", each.field, each.message));
                let message = field.as_deref().or(refusal.message.as_deref());
                RowOutcome::refused(refusal.code.as_deref(), message)
            }
            BatchOutcome::Unrecognized(_) => RowOutcome::Unknown,
        };
        seen[index] = true;
    }
    outcomes
}

/// The address of the first recipient, without a name.
fn address(email: &Email) -> &str {
    let text = email.to.first().map_or("", |to| to.trim());
    let named = text.strip_suffix('>').and_then(|named| named.rsplit_once('<'));
    named.map_or(text, |(_, address)| address)
}
