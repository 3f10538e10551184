//! A job: its settings, and how it runs with a journal.

use std::fmt;
use std::fmt::Display;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_core::Stream;
use futures_util::StreamExt as _;
use futures_util::future::{BoxFuture, pending};
use svc_sdk::EmailClient;
use svc_sdk::email::Email;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::entries::{JournalEntry, now};
use crate::request::{Collector, Request};
use crate::run::{Begin, Ledger, Observer, POLL, RequestReport, Run, Work, lock};
use crate::{Error, ErrorKind, Journal, JournalState, RowRefusal, SendState, Totals};

/// The most emails in one request.
const MAX_SIZE: usize = 100;

/// The most invalid rows that are kept before they are recorded.
const MAX_INVALID: usize = 1_000;

/// The longest time between two requests, so that the clock can represent it.
const MAX_SPACE: Duration = Duration::from_secs(365 * 86_400);

/// Sends an email for each row. See the [crate](crate).
#[must_use = "a job does nothing until it runs"]
pub struct Job {
    pub(crate) client: EmailClient,
    request_size: usize,
    rate: Option<f64>,
    pub(crate) concurrency: usize,
    key_life: Option<Duration>,
    local_checks: bool,
    pub(crate) retries: u32,
    pub(crate) timeout: Duration,
    pub(crate) stop: Mutex<BoxFuture<'static, ()>>,
    state: StateOf,
    pub(crate) observer: Mutex<Option<Observer>>,
}

impl Job {
    /// Creates a job that sends with this client.
    pub fn new(client: &EmailClient) -> Self {
        Self {
            client: client.clone(),
            request_size: MAX_SIZE,
            rate: None,
            concurrency: 4,
            key_life: None,
            local_checks: true,
            retries: 6,
            timeout: Duration::from_secs(60),
            stop: Mutex::new(Box::pin(pending())),
            state: Arc::new(|| SendState::Running),
            observer: Mutex::default(),
        }
    }

    /// Sets the number of emails in a request, 1 to 100. Default: 100, and less if that many
    /// would take more than a second at the [`rate`](Self::rate).
    pub fn request_size(mut self, emails: usize) -> Self {
        self.request_size = emails;
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

    /// Sets how often a request is tried again that was certainly not processed, or has an
    /// idempotency key, with pauses of up to 10 s. Default: 6. A 429 with `Retry-After` does not
    /// count: the job waits, up to 15 minutes, and [`RequestReport::pause`] tells of it.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sets the deadline of each attempt. Default: one minute.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Stops the job when this future is ready: no further attempt is started, and those in flight
    /// are completed.
    pub fn stop_when(mut self, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        self.stop = Mutex::new(Box::pin(stop));
        self
    }

    /// Asks this function before each attempt what someone wants of the job: none is started while it
    /// is paused, and no other one once it is cancelled. Only for a job with a journal: a queue has
    /// a state of its own.
    pub fn state(mut self, state: impl Fn() -> SendState + Send + Sync + 'static) -> Self {
        self.state = Arc::new(state);
        self
    }

    /// Registers a function that is called after every request.
    pub fn on_request(mut self, observer: impl FnMut(&RequestReport) + Send + 'static) -> Self {
        self.observer = Mutex::new(Some(Box::new(observer)));
        self
    }

    /// Runs the job until the stream ends, and returns the outcome of all its rows.
    ///
    /// Each row has a number, by which the journal knows it. Numbers ascend in the stream, and a row has
    /// the same one in every run.
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
    /// [`ErrorKind`] lists why a job stops early. Requests in flight are completed first.
    pub async fn run<S, T, E, R, M>(
        self,
        rows: S,
        render: R,
        journal: &mut Journal,
    ) -> Result<Totals, Error>
    where
        S: Stream<Item = Result<(u64, T), E>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
        R: FnMut(&T) -> Result<Email, M>,
        M: Display,
    {
        let failed = |error| Error {
            kind: ErrorKind::Journal(error),
            totals: Totals::default(),
        };
        let state = journal.load().await.map_err(failed)?;
        let rows = pin!(rows);
        let (collector, pace) = (self.collector(), Mutex::new(Pace::new(self.rate)));
        let key_life = collector.key_life;
        let source = RowSource {
            rows,
            render,
            collector,
            last: None,
            ended: false,
        };
        let ledger = JournalLedger {
            key_life,
            state_of: Arc::clone(&self.state),
            source: tokio::sync::Mutex::new(source),
            state: Mutex::new(state),
            journal,
            pace,
        };
        let run = Run::new(self, ledger);
        run.until_the_end().await;
        // Outcomes survive a crash of the machine from here on.
        if let Err(error) = run.ledger.journal.append(Vec::new(), true).await {
            run.fail(ErrorKind::Journal(error));
        }
        run.result(run.ledger.totals())
    }

    /// What makes requests of rows with the settings of this job.
    pub(crate) fn collector(&self) -> Collector {
        // A key is not used for the last requests of its life.
        let margin = |life: Duration| life - (life / 2).min(2 * self.timeout);
        let key_life = self
            .key_life
            .and_then(|life| TimeDelta::from_std(margin(life)).ok());
        let rate = self.rate.map_or(MAX_SIZE, |rate| rate as usize);
        let size = self.request_size.min(rate).clamp(1, MAX_SIZE);
        Collector::new(size, key_life, self.local_checks)
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job").finish_non_exhaustive()
    }
}

/// What someone wants of a job.
type StateOf = Arc<dyn Fn() -> SendState + Send + Sync>;

/// The rows of a stream, and a journal.
struct JournalLedger<'a, S, R> {
    source: tokio::sync::Mutex<RowSource<'a, S, R>>,
    state: Mutex<JournalState>,
    journal: &'a Journal,
    pace: Mutex<Pace>,
    /// As in [`Collector`].
    key_life: Option<TimeDelta>,
    state_of: StateOf,
}

struct RowSource<'a, S, R> {
    rows: Pin<&'a mut S>,
    render: R,
    collector: Collector,
    last: Option<u64>,
    ended: bool,
}

impl<S, T, E, R, M> Ledger for JournalLedger<'_, S, R>
where
    S: Stream<Item = Result<(u64, T), E>>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
    R: FnMut(&T) -> Result<Email, M>,
    M: Display,
{
    type Part = ();

    async fn next(&self, stop: &CancellationToken) -> Result<Option<Work<()>>, ErrorKind> {
        let (mut source, mut invalid) = (self.source.lock().await, Vec::new());
        let source = &mut *source;
        if (self.state_of)() == SendState::Cancelled {
            return Ok(None);
        }
        loop {
            let request = source.collector.pop();
            if request.is_some() || source.ended || invalid.len() >= MAX_INVALID {
                let requests = request.into_iter().collect::<Vec<_>>();
                let is_end = requests.is_empty() && invalid.is_empty();
                return Ok((!is_end).then_some(Work {
                    part: (),
                    requests,
                    invalid,
                }));
            }
            let Some(row) = stop.run_until_cancelled(source.rows.next()).await else {
                return Ok(None);
            };
            let Some(row) = row else {
                source.collector.finish();
                source.ended = true;
                continue;
            };
            let (number, data) = row.map_err(|error| ErrorKind::Rows(error.into()))?;
            if source.last.is_some_and(|last| number <= last) {
                let problem = format!("row {number} comes after a row with a number as high");
                return Err(ErrorKind::Rows(problem.into()));
            }
            source.last = Some(number);
            let state = lock(&self.state);
            let render = || (source.render)(&data);
            let problem = source.collector.take(number, &state, now(), render);
            invalid.extend(problem.map(|problem| (number, problem)));
        }
    }

    async fn begin(&self, (): &mut (), request: &Request) -> io::Result<Begin> {
        match (self.state_of)() {
            SendState::Paused => return Ok(Begin::Later(POLL)),
            SendState::Cancelled => return Ok(Begin::Lost),
            _ => {}
        }
        let wait = lock(&self.pace).start(request.rows.len());
        if let Some(wait) = wait {
            return Ok(Begin::Later(wait));
        }
        // It has its intent already.
        if let Some((number, key)) = &request.repeats {
            // It may have waited for long.
            let state = lock(&self.state);
            let is_alive = |life| state.repeatable(request.rows[0], now(), life).is_some();
            if !self.key_life.is_some_and(is_alive) {
                return Ok(Begin::Forgotten);
            }
            return Ok(Begin::Send(*number, Some(key.clone())));
        }
        let (number, key, intent) = {
            let mut state = lock(&self.state);
            let number = state.next_request();
            let key = self
                .key_life
                .map(|_| format!("{}-{number}", self.journal.info().job));
            let (rows, at) = (request.rows.clone(), now());
            let intent = JournalEntry::Intent {
                request: number,
                at,
                key: key.clone(),
                rows,
            };
            state.apply(&intent);
            (number, key, intent)
        };
        self.journal.append(vec![intent], true).await?;
        Ok(Begin::Send(number, key))
    }

    async fn record(&self, (): &mut (), entries: Vec<JournalEntry>) -> io::Result<bool> {
        {
            let mut state = lock(&self.state);
            entries.iter().for_each(|entry| state.apply(entry));
        }
        self.journal.append(entries, false).await?;
        Ok(true)
    }

    async fn end(&self, (): (), _: bool) -> io::Result<()> {
        Ok(())
    }

    async fn pause(&self, time: Duration) -> io::Result<()> {
        lock(&self.pace).pause(time);
        Ok(())
    }

    async fn refused(&self, _: &RowRefusal, rows: Vec<(u64, u64)>) -> io::Result<bool> {
        if (self.state_of)() == SendState::Cancelled {
            return Ok(false);
        }
        let rows = rows.into_iter().map(|(_, row)| row).collect();
        let reopened = JournalEntry::reopened(rows);
        self.record(&mut (), reopened.into_iter().collect()).await
    }

    fn number((): &()) -> u64 {
        0
    }

    fn now(&self, (): &()) -> DateTime<Utc> {
        now()
    }

    fn totals(&self) -> Totals {
        lock(&self.state).totals()
    }
}

/// Spaces requests so that their emails keep to a rate.
struct Pace {
    /// Emails a second.
    rate: Option<f64>,
    /// When the next request may start.
    due: Instant,
}

impl Pace {
    fn new(rate: Option<f64>) -> Self {
        Self {
            rate,
            due: Instant::now(),
        }
    }

    /// Starts a request with this many emails, or returns how long it has to wait.
    fn start(&mut self, emails: usize) -> Option<Duration> {
        let now = Instant::now();
        if self.due > now {
            return Some(self.due - now);
        }
        if let Some(rate) = self.rate {
            let space = Duration::try_from_secs_f64(emails as f64 / rate).unwrap_or(MAX_SPACE);
            self.due = now + space.min(MAX_SPACE);
        }
        None
    }

    fn pause(&mut self, time: Duration) {
        self.due = self.due.max(Instant::now() + time.min(MAX_SPACE));
    }
}
