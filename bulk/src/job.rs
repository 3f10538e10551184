//! Runs a job.

use std::fmt;
use std::fmt::Display;
use std::pin::{Pin, pin};
use std::time::Duration;

use chrono::TimeDelta;
use futures_core::Stream;
use futures_util::future::{BoxFuture, pending};
use tokio::task::JoinSet;

use crate::collect::Collector;
use crate::driver::{Driver as _, JournalDriver};
use crate::error::Cause;
use crate::pace::Pace;
use crate::run::Run;
use crate::{Error, ErrorKind, Journal, RowOutcome, Totals};
use svc_sdk::EmailClient;
use svc_sdk::email::Email;

/// The most emails in one request.
const MAX_CHUNK: usize = 100;

/// The default of [`Job::timeout`].
const TIMEOUT: Duration = Duration::from_secs(60);

/// The default of [`Job::max_retry_after`].
const MAX_RETRY_AFTER: Duration = Duration::from_secs(15 * 60);

/// The default of [`Job::retries`].
const RETRIES: u32 = 6;

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

pub(crate) type Observer = Box<dyn FnMut(&ChunkReport) + Send>;

/// Sends an email for each row of a stream. See the [module](super).
#[must_use = "a job does nothing until it runs"]
pub struct Job {
    client: EmailClient,
    chunk_size: usize,
    rate: Option<f64>,
    concurrency: usize,
    resend_unknown: bool,
    key_life: Option<Duration>,
    local_checks: bool,
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
            key_life: None,
            local_checks: true,
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

    /// Gives each request an idempotency key, which the service remembers for this long, such as
    /// 24 hours: a request with an unknown outcome is then repeated with its key. Only for a
    /// service that honors the header `Idempotency-Key`. Default: `None`, no keys.
    pub fn idempotency_key_life(mut self, life: impl Into<Option<Duration>>) -> Self {
        self.key_life = life.into();
        self
    }

    /// Sets whether emails that exceed a documented limit are recorded as invalid and not sent.
    /// Default: true.
    pub fn local_checks(mut self, check: bool) -> Self {
        self.local_checks = check;
        self
    }

    /// Sets how many attempts in a row may fail that were certainly not processed, or have an
    /// idempotency key, before the job stops. Default: 6. A 429 with `Retry-After` does not count.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sets the deadline of each attempt. Default: one minute.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the longest `Retry-After` of a 429 that the job waits for. If the service asks for
    /// more, the job stops. Default: 15 minutes. [`ChunkReport::pause`] tells of each pause.
    pub fn max_retry_after(mut self, max: Duration) -> Self {
        self.max_retry_after = max;
        self
    }

    /// Stops the job when this future is ready: no further request is started or tried again, and
    /// attempts in flight are completed.
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
        let mut rows = pin!(rows);
        let collector = self.collector(rows.as_mut(), render);
        let state = match journal.load().await {
            Ok(state) => state.stopped(),
            Err(error) => return Err(Error::new(ErrorKind::Journal(error), Totals::default())),
        };
        let mut run = self.start(JournalDriver::new(collector, state, journal));
        run.until_the_end().await;
        if run.failure.is_none() {
            run.settle().await;
        }
        if let Err(error) = run.driver.sync().await {
            run.fail(ErrorKind::Journal(error));
        }
        run.report_written();
        let totals = run.driver.totals();
        run.failure.map_or(Ok(totals), |kind| Err(Error::new(kind, totals)))
    }

    /// Shortens the deadline of each request.
    #[cfg(feature = "redis")]
    pub(crate) fn timeout_at_most(mut self, timeout: Duration) -> Self {
        self.timeout = self.timeout.min(timeout);
        self
    }

    /// What makes requests of rows with the settings of this job.
    pub(crate) fn collector<'a, S, T, E, R, M>(
        &self,
        rows: Pin<&'a mut S>,
        render: R,
    ) -> Collector<'a, S, T, R>
    where
        S: Stream<Item = Result<Row<T>, E>>,
        E: Into<Cause>,
        R: FnMut(&T) -> Result<Email, M>,
        M: Display,
    {
        // A key is not used for the last requests of its life.
        let margin = |life: Duration| life - (life / 2).min(2 * self.timeout);
        let rate = self.rate.map_or(MAX_CHUNK, |rate| rate as usize);
        let size = self.chunk_size.min(rate).clamp(1, MAX_CHUNK);
        let mut collector = Collector::new(rows, render, size);
        collector.resend_unknown = self.resend_unknown;
        collector.key_life = self.key_life.and_then(|life| TimeDelta::from_std(margin(life)).ok());
        collector.check = self.local_checks;
        collector
    }

    pub(crate) fn start<D>(self, driver: D) -> Run<D> {
        Run {
            pace: Pace::new(self.rate),
            concurrency: self.concurrency,
            client: self.client,
            retries: self.retries,
            timeout: self.timeout,
            max_retry_after: self.max_retry_after,
            stop: Some(self.stop),
            observer: self.observer,
            unreported: Vec::new(),
            driver,
            requests: JoinSet::new(),
            failed_in_a_row: 0,
            unknown_in_a_row: 0,
            has_accepted: false,
            refused: Vec::new(),
            refused_alike: false,
            refused_in_a_row: 0,
            failure: None,
        }
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
