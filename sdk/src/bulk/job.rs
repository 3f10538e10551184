//! Runs a job.

use std::fmt;
use std::fmt::Display;
use std::pin::pin;
use std::time::Duration;

use chrono::TimeDelta;
use futures_core::Stream;
use futures_util::FutureExt as _;
use futures_util::future::{Either, pending, select};
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

/// The deadline of a request, with its pauses after 429.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// How long an attempt may take.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);

/// The default of [`Job::retries`].
const RETRIES: u32 = 6;

/// A job ends after this many requests in a row with an unknown outcome: the service is
/// probably down, and each further one would make more rows unknown.
const MAX_UNKNOWN_CHUNKS: u32 = 3;

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
}

type Observer = Box<dyn FnMut(&ChunkReport) + Send>;

/// Sends an email for each row of a stream. See the [module](super).
#[must_use = "a job does nothing until it runs"]
pub struct Job {
    client: EmailClient,
    chunk_size: usize,
    rate: Option<u32>,
    concurrency: usize,
    resend_unknown: bool,
    key_life: Duration,
    retries: u32,
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
            observer: None,
        }
    }

    /// Sets the number of emails in a request, 1 to 100. Default: 100, and less if that many
    /// would take more than a second at the [`rate`](Self::rate).
    pub fn chunk_size(mut self, emails: usize) -> Self {
        self.chunk_size = emails.clamp(1, MAX_CHUNK);
        self
    }

    /// Limits the emails sent in a second; 0 means no limit, which is the default. A 429 with
    /// `Retry-After` slows down all requests in any case.
    pub fn rate(mut self, emails_per_second: u32) -> Self {
        self.rate = (emails_per_second > 0).then_some(emails_per_second);
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
    /// To stop a job in order, end the stream: what is in flight is completed. Dropping the
    /// future stops it at once; the rows in flight are then unknown.
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
        let margin = (self.key_life / 2).min(2 * TIMEOUT);
        let key_life = settings.honors_idempotency_key.then(|| self.key_life - margin);
        let rate = self.rate.map_or(MAX_CHUNK, |rate| rate as usize);
        let rows = pin!(rows);
        let size = self.chunk_size.min(rate).clamp(1, MAX_CHUNK);
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
            observer: self.observer,
            state,
            journal,
            requests: JoinSet::new(),
            unknown_in_a_row: 0,
            failure: None,
        };
        run.until_the_end(&mut collector).await;
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
    is_repeat: bool,
    result: Result<BatchResponse, crate::Error>,
}

/// A job that runs.
struct Run<'a, J: ?Sized> {
    client: EmailClient,
    retries: u32,
    has_keys: bool,
    concurrency: usize,
    pace: Pace,
    observer: Option<Observer>,
    state: State,
    journal: &'a mut J,
    /// Tasks, so that they go on while the journal is written. Dropping them ends them.
    requests: JoinSet<Done>,
    unknown_in_a_row: u32,
    failure: Option<ErrorKind>,
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
            ended |= self.failure.is_some();
            let may_start = !ended && self.requests.len() < self.concurrency;
            if !may_start && self.requests.is_empty() {
                return;
            }
            let event = {
                let (pace, state, requests) = (&self.pace, &self.state, &mut self.requests);
                let next = async {
                    if !may_start {
                        return pending().await;
                    }
                    pace.wait().await;
                    collector.next(state).await
                };
                let done = async {
                    match requests.join_next().await {
                        Some(done) => done,
                        None => pending().await,
                    }
                };
                select(pin!(next), pin!(done)).map(first).await
            };
            match event {
                Either::Left(Ok(Some(Next::Chunk(chunk)))) => self.start(chunk).await,
                Either::Left(Ok(Some(Next::Invalid(row, message)))) => {
                    self.record(Entry::Invalid { row, at: now(), message }, false).await;
                }
                Either::Left(Ok(None)) => ended = true,
                Either::Left(Err(error)) => self.fail(ErrorKind::Rows(error)),
                Either::Right(Ok(done)) => self.conclude(done).await,
                // A panic of the application, such as in an attachment's source.
                Either::Right(Err(error)) => {
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
                self.record(intent, true).await;
                (number, key)
            }
        };
        if self.failure.is_some() {
            return;
        }
        self.pace.start(rows.len());
        let (client, retries) = (self.client.clone(), self.retries);
        self.requests.spawn(async move {
            let call = client.emails().send_batch(&emails);
            let call = call.timeout(TIMEOUT).attempt_timeout(ATTEMPT_TIMEOUT).retries(retries);
            let call = match &key {
                Some(key) => call.idempotency_key(key),
                None => call,
            };
            Done { chunk: number, rows, is_repeat, result: call.await }
        });
    }

    /// Records the outcome of a request.
    async fn conclude(&mut self, done: Done) {
        let Done { chunk, rows, is_repeat, result } = done;
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
        self.record(entry, false).await;
        if let Err(error) = result {
            let is_conflict = is_repeat
                && error.outcome() == Outcome::Refused
                && error.status().is_some_and(|status| status == 409);
            if error.outcome() == Outcome::Unknown {
                self.unknown_in_a_row += 1;
                results = vec![RowOutcome::Unknown; rows.len()];
            }
            let goes_on = match error.outcome() {
                Outcome::Unknown => self.unknown_in_a_row < MAX_UNKNOWN_CHUNKS,
                _ => is_conflict,
            };
            if !goes_on {
                self.fail(ErrorKind::Service(error));
            }
        }
        let totals = self.state.totals();
        if let Some(observer) = &mut self.observer {
            observer(&ChunkReport { outcomes: rows.into_iter().zip(results).collect(), totals });
        }
    }

    async fn record(&mut self, entry: Entry, durable: bool) {
        self.state.apply(&entry);
        if let Err(error) = self.journal.append(vec![entry], durable).await {
            self.fail(ErrorKind::Journal(error));
        }
    }

    /// Keeps the first failure. No further request is started.
    fn fail(&mut self, kind: ErrorKind) {
        self.failure.get_or_insert(kind);
    }
}

fn first<A, B, X, Y>(either: Either<(A, X), (B, Y)>) -> Either<A, B> {
    match either {
        Either::Left((value, _)) => Either::Left(value),
        Either::Right((value, _)) => Either::Right(value),
    }
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
