//! A job that runs: starts requests, and records and judges their outcomes.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Either, pending, select};
use tokio::task::JoinSet;

use crate::collect::{Chunk, Next};
use crate::driver::{Begin, Driver};
use crate::job::{ChunkReport, Observer};
use crate::pace::Pace;
use crate::{Entry, ErrorKind, RowOutcome};
use svc_sdk::email::{BatchOutcome, BatchResponse, Email};
use svc_sdk::{EmailClient, Outcome};

/// A job ends after this many requests in a row with an unknown outcome: the service is
/// probably down, and each further one would make more rows unknown.
const MAX_UNKNOWN_CHUNKS: u32 = 3;

/// A job ends after this many rows in a row that were refused alone in their request: the
/// service probably refuses every request, whatever it contains.
const MAX_REFUSED_ALONE: usize = 20;

/// A job stops after this many rows in a row that were refused for one reason that concerns the
/// whole job. Fewer rows may have a sender of their own.
const MAX_REFUSED_ALIKE: usize = 5;

/// The first pause after an attempt that failed, and the longest.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// No further request is rendered ahead if those that are ready have this many bytes.
const MAX_READ_AHEAD: u64 = 4 << 20;

/// A request that has ended.
pub(crate) struct Done {
    chunk: u64,
    rows: Vec<u64>,
    emails: Vec<Email>,
    key: Option<String>,
    is_repeat: bool,
    result: Result<BatchResponse, svc_sdk::Error>,
}

/// A job that runs.
pub(crate) struct Run<D> {
    pub(crate) client: EmailClient,
    pub(crate) retries: u32,
    pub(crate) timeout: Duration,
    pub(crate) max_retry_after: Duration,
    /// `None` after it was ready.
    pub(crate) stop: Option<BoxFuture<'static, ()>>,
    pub(crate) concurrency: usize,
    pub(crate) pace: Pace,
    pub(crate) observer: Option<Observer>,
    /// What the observer is told when it is written.
    pub(crate) unreported: Vec<ChunkReport>,
    pub(crate) driver: D,
    /// Tasks, so that they go on while the journal is written. Dropping them ends them.
    pub(crate) requests: JoinSet<Done>,
    pub(crate) failed_in_a_row: u32,
    pub(crate) unknown_in_a_row: u32,
    /// Whether this run has had a request accepted.
    pub(crate) has_accepted: bool,
    /// Rows that were refused and count as not sent until another request tells whether the whole
    /// job is concerned: the row, its recipient and its outcome.
    pub(crate) refused: Vec<(u64, String, RowOutcome)>,
    /// Whether these were refused for a reason that may concern the whole job.
    pub(crate) refused_alike: bool,
    pub(crate) refused_in_a_row: usize,
    pub(crate) failure: Option<ErrorKind>,
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
    pub(crate) async fn until_the_end(&mut self) {
        // Requests that are read and rendered while all slots are busy.
        let (mut ended, mut ready) = (false, VecDeque::new());
        loop {
            let is_stopped = self.failure.is_some() || self.stop.is_none();
            if is_stopped {
                self.give_up(std::mem::take(&mut ready)).await;
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

    /// Requests that would have been repeated with their keys stay unknown.
    async fn give_up(&mut self, ready: VecDeque<Chunk>) {
        for (chunk, _) in ready.into_iter().filter_map(|chunk| chunk.repeats) {
            let at = self.driver.now();
            self.record(vec![Entry::Unknown { chunk, at, code: None }]).await;
        }
    }

    /// Starts no further request.
    fn stop(&mut self) {
        self.stop = None;
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
        let (client, timeout) = (self.client.clone(), self.timeout);
        self.requests.spawn(async move {
            // The job decides what is tried again, and when.
            let call = client.emails().send_batch(&emails).timeout(timeout).retries(0);
            let result = match &key {
                Some(key) => call.idempotency_key(key).await,
                None => call.await,
            };
            Done { chunk: number, rows, emails, key, is_repeat, result }
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
                for chunk in self.conclude(done).await {
                    ready.push_front(chunk);
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

    /// Records the outcome of a request. Returns what is sent again, the last first.
    async fn conclude(&mut self, done: Done) -> Vec<Chunk> {
        let Done { chunk, rows, emails, key, is_repeat, result } = done;
        let pause = result.as_ref().err().and_then(|error| self.pause_before_retry(error, &key));
        if let (Some(wait), Err(error)) = (pause, &result)
            && error.outcome() == Outcome::Unknown
        {
            // Its intent is recorded, and it is repeated with the same key.
            self.pace.pause(wait);
            self.report(Vec::new(), Some(wait));
            let mut again = Chunk::again(rows, emails);
            again.repeats = key.map(|key| (chunk, key));
            return vec![again];
        }
        let (at, mut results) = (self.driver.now(), Vec::new());
        let mut refused = Vec::new();
        let entry = match &result {
            Ok(response) => {
                results = outcomes(response, rows.len());
                match refused_alike(response, &results) {
                    // Not known yet whether this is the fault of these rows.
                    true if !is_repeat => {
                        refused = std::mem::take(&mut results);
                        Entry::NotSent { chunk, at, code: code_of(&refused) }
                    }
                    _ => Entry::Outcome { chunk, at, results: results.clone() },
                }
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
        let mut again = Vec::new();
        match result {
            Ok(_) if !refused.is_empty() => {
                (self.failed_in_a_row, self.unknown_in_a_row) = (0, 0);
                if self.refused.last().is_some_and(|(.., before)| *before != refused[0]) {
                    self.refuse().await;
                }
                let to = emails.iter().map(|email| address(email).to_owned());
                let rows = rows.iter().copied().zip(to).zip(refused);
                self.refused.extend(rows.map(|((row, to), outcome)| (row, to, outcome)));
                self.refused_alike = true;
                if self.refused.len() >= MAX_REFUSED_ALIKE {
                    self.stop_as_refused();
                }
            }
            Ok(_) => {
                (self.failed_in_a_row, self.unknown_in_a_row) = (0, 0);
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
            Err(_) if let Some(wait) = pause => {
                self.pace.pause(wait);
                if let Err(error) = self.driver.pause(wait).await {
                    self.fail(ErrorKind::Journal(error));
                }
                // Rows of a repeated request stay unknown.
                if !is_repeat {
                    again.push(Chunk::again(rows.clone(), emails));
                }
            }
            Err(error) if is_repeat => {
                let is_conflict = error.outcome() == Outcome::Refused
                    && error.status().is_some_and(|status| status == 409);
                if !is_conflict {
                    self.fail(ErrorKind::Service(error));
                }
            }
            Err(error) if !is_invalid(&error) => self.fail(ErrorKind::Service(error)),
            Err(_) if rows.len() > 1 => again = halves(rows.clone(), emails),
            Err(error) => {
                let outcome = refusal(&error);
                let to = emails.first().map_or("", address).to_owned();
                self.refused.extend(rows.first().map(|row| (*row, to, outcome)));
                self.refused_in_a_row += 1;
                if self.has_accepted {
                    self.refuse().await;
                }
                if self.refused_in_a_row >= MAX_REFUSED_ALONE {
                    self.fail(ErrorKind::Service(error));
                }
            }
        }
        self.report(rows.into_iter().zip(results).collect(), pause);
        // Another worker sends what it has taken over.
        if is_recorded { again } else { Vec::new() }
    }

    /// How long to wait before the same request is sent again; `None` if it is not. One that may
    /// have been processed is only repeated with a key.
    fn pause_before_retry(
        &mut self,
        error: &svc_sdk::Error,
        key: &Option<String>,
    ) -> Option<Duration> {
        if let Some(wait) = self.pause_of(error) {
            return Some(wait);
        }
        let is_safe = error.outcome() != Outcome::Unknown || key.is_some();
        let is_temporary = error.is_retryable() || error.outcome() == Outcome::Unknown;
        if !is_safe || !is_temporary || error.is_rate_limited() && error.retry_after().is_some() {
            return None;
        }
        self.failed_in_a_row += 1;
        let (first, longest) = BACK_OFF;
        let doubled = first.saturating_mul(1 << self.failed_in_a_row.min(16)).min(longest);
        (self.failed_in_a_row <= self.retries).then(|| doubled.mul_f64(fastrand::f64()))
    }

    /// How long to wait before a request is sent again that the service limited.
    fn pause_of(&self, error: &svc_sdk::Error) -> Option<Duration> {
        let wait = error.retry_after().filter(|_| error.is_rate_limited())?;
        (wait <= self.max_retry_after).then_some(wait)
    }

    /// At the end of the rows: records those that were refused, unless nothing else was sent.
    pub(crate) async fn settle(&mut self) {
        match self.refused_alike && !self.has_accepted {
            true => self.stop_as_refused(),
            false => self.refuse().await,
        }
    }

    /// The rows that were refused count as not sent.
    fn stop_as_refused(&mut self) {
        let refused = std::mem::take(&mut self.refused).pop();
        if let Some((.., RowOutcome::Refused { code, message })) = refused {
            self.fail(ErrorKind::Refused { code, message });
        }
    }

    /// Records the rows that were refused.
    pub(crate) async fn refuse(&mut self) {
        self.refused_alike = false;
        for (row, to, outcome) in std::mem::take(&mut self.refused) {
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
    pub(crate) fn report_written(&mut self) {
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
    pub(crate) fn fail(&mut self, kind: ErrorKind) {
        self.failure.get_or_insert(kind);
    }
}

fn first<A, X, Y>(either: Either<(A, X), (A, Y)>) -> A {
    match either {
        Either::Left((value, _)) | Either::Right((value, _)) => value,
    }
}

/// Whether the service refused a whole request because of what it contains.
fn is_invalid(error: &svc_sdk::Error) -> bool {
    error.outcome() == Outcome::Refused
        && matches!(error.kind(), svc_sdk::ErrorKind::Invalid | svc_sdk::ErrorKind::TooLarge)
}

/// The outcome of a row whose request was refused.
fn refusal(error: &svc_sdk::Error) -> RowOutcome {
    let field = error.fields().first().map(|each| format!("{}: {}", each.field, each.message));
    let status = error.status().map(|status| format!("http_{}", status.as_u16()));
    let code = error.code().or(status.as_deref());
    RowOutcome::refused(code, field.as_deref().or(error.message()))
}

/// Both halves of a request, the second first.
fn halves(mut rows: Vec<u64>, mut emails: Vec<Email>) -> Vec<Chunk> {
    let half = rows.len() / 2;
    let second = Chunk::again(rows.split_off(half), emails.split_off(half));
    vec![second, Chunk::again(rows, emails)]
}

/// Whether all emails were refused for one reason that concerns the whole job, and not a recipient:
/// the sender, the template or the scope.
fn refused_alike(response: &BatchResponse, outcomes: &[RowOutcome]) -> bool {
    const CODES: [&str; 4] =
        ["domain_not_verified", "insufficient_scope", "forbidden", "template_not_found"];
    const FIELDS: [&str; 3] = ["from", "templateId", "template_id"];
    let Some(first @ RowOutcome::Refused { .. }) = outcomes.first() else { return false };
    let concerns_all = response.items.iter().all(|item| match &item.outcome {
        BatchOutcome::Refused(refusal) => {
            let is_field = |field: &svc_sdk::FieldProblem| FIELDS.contains(&field.field.as_str());
            refusal.code.as_deref().is_some_and(|code| CODES.contains(&code))
                || refusal.fields.iter().any(is_field)
        }
        _ => false,
    });
    concerns_all && outcomes.iter().all(|outcome| outcome == first)
}

fn code_of(outcomes: &[RowOutcome]) -> Option<String> {
    match outcomes.first() {
        Some(RowOutcome::Refused { code, .. }) => code.clone(),
        _ => None,
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
            _ => RowOutcome::Unknown,
        };
        seen[index] = true;
    }
    outcomes
}

/// The address of the first recipient, without a name.
pub(crate) fn address(email: &Email) -> &str {
    let text = email.to.first().map_or("", |to| to.trim());
    let named = text.strip_suffix('>').and_then(|named| named.rsplit_once('<'));
    named.map_or(text, |(_, address)| address)
}
