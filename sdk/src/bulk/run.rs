//! A job that runs: starts requests, and records and judges their outcomes.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Either, pending, select};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::collect::{Chunk, Next};
use super::driver::{Begin, Driver};
use super::job::{ChunkReport, Observer};
use super::pace::Pace;
use super::{Entry, ErrorKind, RowOutcome};
use crate::client::MayTry;
use crate::email::{BatchOutcome, BatchResponse, Email};
use crate::{EmailClient, Outcome};

/// How long an attempt may take.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);

/// A job ends after this many requests in a row with an unknown outcome: the service is
/// probably down, and each further one would make more rows unknown.
const MAX_UNKNOWN_CHUNKS: u32 = 3;

/// A job ends after this many rows in a row that were refused alone in their request: the
/// service probably refuses every request, whatever it contains.
const MAX_REFUSED_ALONE: usize = 20;

/// No further request is rendered ahead if those that are ready have this many bytes.
const MAX_READ_AHEAD: u64 = 4 << 20;

/// A request that has ended.
pub(super) struct Done {
    chunk: u64,
    rows: Vec<u64>,
    emails: Vec<Email>,
    is_repeat: bool,
    result: Result<BatchResponse, crate::Error>,
}

/// A job that runs.
pub(super) struct Run<D> {
    pub(super) client: EmailClient,
    pub(super) retries: u32,
    pub(super) timeout: Duration,
    pub(super) max_retry_after: Duration,
    /// `None` after it was ready.
    pub(super) stop: Option<BoxFuture<'static, ()>>,
    pub(super) concurrency: usize,
    pub(super) pace: Pace,
    pub(super) observer: Option<Observer>,
    /// What the observer is told when it is written.
    pub(super) unreported: Vec<ChunkReport>,
    pub(super) driver: D,
    /// Tasks, so that they go on while the journal is written. Dropping them ends them.
    pub(super) requests: JoinSet<Done>,
    /// Whether requests in flight may be tried again.
    pub(super) may_try: watch::Sender<MayTry>,
    pub(super) unknown_in_a_row: u32,
    /// Whether this run has had a request accepted.
    pub(super) has_accepted: bool,
    /// Rows that were refused alone before that: the row, its recipient and its outcome.
    pub(super) refused_alone: Vec<(u64, String, RowOutcome)>,
    pub(super) refused_in_a_row: usize,
    pub(super) failure: Option<ErrorKind>,
}

/// What happens next in a job.
enum Event<T> {
    Stop,
    Done(Result<Done, tokio::task::JoinError>),
    /// The time for the next requests has come.
    Start,
    Next(T),
}

impl<D: Driver> Run<D> {
    pub(super) async fn until_the_end(&mut self) {
        // Requests that are read and rendered while all slots are busy.
        let (mut ended, mut ready) = (false, VecDeque::new());
        loop {
            let is_stopped = self.failure.is_some() || self.stop.is_none();
            if is_stopped {
                ready.clear();
            }
            let is_busy = self.requests.len() >= self.concurrency;
            let may_read = !ended && !is_stopped && self.reads_ahead(&ready);
            let may_start = !ready.is_empty() && !is_busy;
            // What is recorded now and what starts at once are written together.
            if !may_start || !self.pace.is_due() {
                self.write().await;
                if self.failure.is_some() && !is_stopped {
                    continue;
                }
            }
            if !may_start && !may_read && self.requests.is_empty() {
                return;
            }
            let event = {
                let (pace, driver) = (&self.pace, &mut self.driver);
                let (stop, requests) = (&mut self.stop, &mut self.requests);
                let stopped = async {
                    match stop {
                        Some(stop) => stop.await,
                        None => pending().await,
                    }
                    Event::Stop
                };
                let done = async {
                    match requests.join_next().await {
                        Some(done) => Event::Done(done),
                        None => pending().await,
                    }
                };
                let start = async {
                    match may_start {
                        true => pace.wait().await,
                        false => pending().await,
                    }
                    Event::Start
                };
                let next = async {
                    match may_read {
                        true => Event::Next(driver.next().await),
                        false => pending().await,
                    }
                };
                // Rows are read last: that may take longer than everything else.
                let (stopped, done) = (pin!(stopped), pin!(done));
                let (start, next) = (pin!(start), pin!(next));
                let work = select(start, next).map(first);
                select(stopped, select(done, work).map(first)).map(first).await
            };
            match event {
                Event::Stop => self.stop(),
                Event::Start => self.start(&mut ready).await,
                Event::Next(Ok(Some(Next::Chunk(chunk)))) => {
                    ready.push_back(chunk);
                    // Reading may never wait, and requests need this thread.
                    tokio::task::yield_now().await;
                }
                Event::Next(Ok(Some(Next::Invalid(row, message)))) => {
                    let at = self.driver.now();
                    self.record(vec![Entry::Invalid { row, at, message }]).await;
                }
                Event::Next(Ok(None)) => ended = true,
                Event::Next(Err(kind)) => self.fail(kind),
                Event::Done(done) => {
                    let mut next = Some(done);
                    while let Some(done) = next {
                        self.finish(done, &mut ready).await;
                        next = self.requests.try_join_next();
                    }
                }
            }
        }
    }

    /// Whether another request is rendered, although none can be started yet.
    fn reads_ahead(&self, ready: &VecDeque<Chunk>) -> bool {
        let bytes = ready.iter().map(Chunk::bytes).sum::<u64>();
        ready.len() < self.driver.read_ahead(self.concurrency) && bytes < MAX_READ_AHEAD
    }

    /// Starts no further request, and ends those in flight instead of trying them again.
    fn stop(&mut self) {
        self.stop = None;
        self.may_try.send_replace(MayTry::Never);
    }

    /// Records the intents of the requests that may start, and sends them.
    async fn start(&mut self, ready: &mut VecDeque<Chunk>) {
        // If all requests started together, the service would have nothing to do while the next
        // intents are synced.
        let most = self.concurrency.div_ceil(2);
        let mut chunks = Vec::new();
        while chunks.len() < most.min(self.concurrency - self.requests.len())
            && self.pace.is_due()
            && let Some(chunk) = ready.pop_front()
        {
            self.pace.start(chunk.rows.len());
            chunks.push(chunk);
        }
        let begun = match self.driver.begin(&chunks).await {
            Ok(begun) => begun,
            Err(error) => return self.fail(ErrorKind::Journal(error)),
        };
        self.report_written();
        let mut begun = begun.into_iter();
        let mut later = Vec::new();
        for chunk in chunks {
            match begun.next() {
                Some(Begin::Send { chunk: number, key }) => self.send(number, key, chunk),
                Some(Begin::Later(wait)) => {
                    self.pace.pause(wait);
                    later.push(chunk);
                }
                Some(Begin::Skip) => {}
                Some(Begin::Stop) => self.stop(),
                None => later.push(chunk),
            }
        }
        later.into_iter().rev().for_each(|chunk| ready.push_front(chunk));
        // The requests need this thread.
        tokio::task::yield_now().await;
    }

    fn send(&mut self, number: u64, key: Option<String>, chunk: Chunk) {
        let Chunk { rows, emails, repeats, .. } = chunk;
        let is_repeat = repeats.is_some();
        // A pause that has just ended.
        self.may_try.send_if_modified(|may_try| {
            let is_paused = matches!(may_try, MayTry::NotNow);
            if is_paused {
                *may_try = MayTry::Yes;
            }
            is_paused
        });
        let (client, retries, timeout) = (self.client.clone(), self.retries, self.timeout);
        let may_try = self.may_try.subscribe();
        self.requests.spawn(async move {
            let call = client.emails().send_checked_batch(&emails);
            let call = call
                .timeout(timeout)
                .attempt_timeout(ATTEMPT_TIMEOUT.min(timeout))
                .retries(retries)
                .while_allowed(may_try);
            let call = match &key {
                Some(key) => call.idempotency_key(key),
                None => call,
            };
            let result = call.await;
            Done { chunk: number, rows, emails, is_repeat, result }
        });
    }

    /// Concludes a request. What has to be sent again comes next.
    async fn finish(
        &mut self,
        done: Result<Done, tokio::task::JoinError>,
        ready: &mut VecDeque<Chunk>,
    ) {
        match done {
            Ok(done) => {
                for (rows, emails) in self.conclude(done).await {
                    ready.push_front(Chunk::again(rows, emails));
                }
            }
            // A panic of the application, such as in an attachment's source.
            Err(error) => {
                if let Ok(panic) = error.try_into_panic() {
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }

    /// Records the outcome of a request. Returns the rows that are sent again, with their
    /// emails, the last first.
    async fn conclude(&mut self, done: Done) -> Vec<(Vec<u64>, Vec<Email>)> {
        let Done { chunk, rows, emails, is_repeat, result } = done;
        let (at, mut results) = (self.driver.now(), Vec::new());
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
        let is_recorded = self.record(vec![entry]).await;
        let (mut again, mut pause) = (Vec::new(), None);
        match result {
            Ok(_) => {
                (self.has_accepted, self.refused_in_a_row) = (true, 0);
                self.refuse().await;
            }
            Err(error) if error.outcome() == Outcome::Unknown => {
                // A pause says nothing about the service.
                self.unknown_in_a_row += u32::from(!error.is_job_paused());
                results = vec![RowOutcome::Unknown; rows.len()];
                if self.unknown_in_a_row >= MAX_UNKNOWN_CHUNKS {
                    self.fail(ErrorKind::Service(error));
                }
            }
            Err(error) if error.is_job_paused() => {
                // Rows of a repeated request stay unknown.
                if !is_repeat {
                    again.push((rows.clone(), emails));
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
                    if let Err(error) = self.driver.pause(wait).await {
                        self.fail(ErrorKind::Journal(error));
                    }
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
        // Another worker sends what it has taken over.
        if is_recorded { again } else { Vec::new() }
    }

    /// How long to wait before a request is sent again that the service limited.
    fn pause_of(&self, error: &crate::Error) -> Option<Duration> {
        let wait = error.retry_after().filter(|_| error.is_rate_limited())?;
        (wait <= self.max_retry_after).then_some(wait)
    }

    /// Records the rows that were refused alone.
    pub(super) async fn refuse(&mut self) {
        for (row, to, outcome) in std::mem::take(&mut self.refused_alone) {
            if let Err(error) = self.driver.refuse(row, to, outcome.clone()).await {
                self.fail(ErrorKind::Journal(error));
            }
            self.report(vec![(row, outcome)], None);
        }
    }

    fn report(&mut self, outcomes: Vec<(u64, RowOutcome)>, pause: Option<Duration>) {
        if self.observer.is_some() {
            let totals = self.driver.totals();
            self.unreported.push(ChunkReport { outcomes, totals, pause });
        }
    }

    /// Writes what was recorded.
    async fn write(&mut self) {
        if let Err(error) = self.driver.write().await {
            self.fail(ErrorKind::Journal(error));
        }
        self.report_written();
    }

    /// Tells the observer what was written.
    pub(super) fn report_written(&mut self) {
        for report in std::mem::take(&mut self.unreported) {
            if let Some(observer) = &mut self.observer {
                observer(&report);
            }
        }
    }

    /// Returns whether the entries were recorded.
    async fn record(&mut self, entries: Vec<Entry>) -> bool {
        self.driver.record(entries).await.unwrap_or_else(|error| {
            self.fail(ErrorKind::Journal(error));
            false
        })
    }

    /// Keeps the first failure. No further request is started.
    pub(super) fn fail(&mut self, kind: ErrorKind) {
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
pub(super) fn address(email: &Email) -> &str {
    let text = email.to.first().map_or("", |to| to.trim());
    let named = text.strip_suffix('>').and_then(|named| named.rsplit_once('<'));
    named.map_or(text, |(_, address)| address)
}
