//! A job that runs: each of its senders takes rows, sends them request by request, and records
//! what is about to be sent and what became of it.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::{Either, join_all, pending, select};
use svc_sdk::Outcome;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::entries::JournalEntry;
use crate::request::{Cause, Request, outcomes, refusal};
use crate::{Error, ErrorKind, Job, RowOutcome, RowRefusal, Totals};

/// A job stops after this many requests in a row with an unknown outcome: the service is
/// probably down, and each further one would make more rows unknown.
const MAX_UNKNOWN_REQUESTS: u32 = 3;

/// The longest back-off before the first retry, and before any.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

/// The longest time until a sender that waits looks again whether it may send.
pub(crate) const POLL: Duration = Duration::from_millis(300);

/// The longest `Retry-After` of a 429 that a job waits for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(15 * 60);

/// The shortest pause after a 429: some services ask for none again and again.
const MIN_PAUSE: Duration = Duration::from_millis(100);

/// What became of one request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestReport {
    /// The rows of the request with their outcome. Empty if they will be sent again.
    pub outcomes: Vec<(u64, RowOutcome)>,
    /// The outcome of the job's rows so far.
    pub totals: Totals,
    /// How long the job now waits, because the service asked for it.
    pub pause: Option<Duration>,
}

pub(crate) type Observer = Box<dyn FnMut(&RequestReport) + Send>;

/// Where rows come from, and where it is recorded what is sent. [`Run`] makes all other decisions,
/// so that they are the same with a journal and with a queue.
pub(crate) trait Ledger {
    /// What a sender holds while it sends some rows.
    type Part;

    /// The next rows to send; `None` at the end, and perhaps after a stop.
    fn next(
        &self,
        stop: &CancellationToken,
    ) -> impl Future<Output = Result<Option<Work<Self::Part>>, ErrorKind>>;

    /// Records, durably, that a request is about to be sent, if it may be sent now.
    fn begin(
        &self,
        part: &mut Self::Part,
        request: &Request,
    ) -> impl Future<Output = io::Result<Begin>>;

    /// Records what became of rows. Returns false if another worker has taken them over.
    fn record(
        &self,
        part: &mut Self::Part,
        entries: Vec<JournalEntry>,
    ) -> impl Future<Output = io::Result<bool>>;

    /// Ends the work on a part, of which nothing is left to send if `is_done`.
    fn end(&self, part: Self::Part, is_done: bool) -> impl Future<Output = io::Result<()>>;

    /// No request of the job starts within this time.
    fn pause(&self, time: Duration) -> impl Future<Output = io::Result<()>>;

    /// The service refuses the emails of the job. Rows of other parts, given as the part and the
    /// row, are to be sent again. Returns false if the job was cancelled.
    fn refused(
        &self,
        refusal: &RowRefusal,
        reopened: Vec<(u64, u64)>,
    ) -> impl Future<Output = io::Result<bool>>;

    /// The number of a part.
    fn number(part: &Self::Part) -> u64;

    /// The time by the clock of the record.
    fn now(&self, part: &Self::Part) -> DateTime<Utc>;

    /// The outcomes of the job so far.
    fn totals(&self) -> Totals;
}

/// Rows to send.
pub(crate) struct Work<P> {
    pub(crate) part: P,
    /// The first last.
    pub(crate) requests: Vec<Request>,
    /// Rows of which no valid email can be made, and why.
    pub(crate) invalid: Vec<(u64, String)>,
}

/// Whether a request may be sent.
pub(crate) enum Begin {
    /// Now, with this number and idempotency key.
    Send(u64, Option<String>),
    /// Ask again after this time.
    Later(Duration),
    /// Never: the service has forgotten its key. Its rows stay unknown.
    Forgotten,
    /// Another worker has taken its rows over, or the job was cancelled.
    Lost,
}

/// A job that runs.
pub(crate) struct Run<L> {
    job: Job,
    pub(crate) ledger: L,
    stop: CancellationToken,
    progress: Mutex<Progress>,
}

/// What all senders know about the job.
#[derive(Default)]
struct Progress {
    unknown_in_a_row: u32,
    /// Rows that were refused in a row for one cause, with their parts.
    refused: Vec<(u64, u64)>,
    /// The cause, and the last of these refusals.
    cause: Option<(Cause, RowRefusal)>,
    /// Whether the cause has stopped the job.
    is_stopped: bool,
    failure: Option<ErrorKind>,
}

/// Why a sender does not go on with its part.
enum End {
    Stopped,
    Lost,
}

/// What follows an attempt.
enum Next {
    /// The same request, after this time.
    Retry(Duration),
    /// These requests in its place, the first last.
    Requests(Vec<Request>),
}

impl<L: Ledger> Run<L> {
    pub(crate) fn new(job: Job, ledger: L) -> Self {
        Self {
            job,
            ledger,
            stop: CancellationToken::new(),
            progress: Mutex::default(),
        }
    }

    /// Sends until nothing is left, the job fails, or it is stopped.
    pub(crate) async fn until_the_end(&self) {
        let stop = std::mem::replace(&mut *lock(&self.job.stop), Box::pin(pending()));
        let senders = join_all((0..self.job.concurrency).map(|_| self.send_all()));
        if let Either::Right(((), senders)) = select(senders, stop).await {
            self.stop.cancel();
            senders.await;
        } else if let Some((refusal, rows)) = self.all_refused() {
            self.refuse(refusal, rows).await;
        }
    }

    /// The rows of a short job that were all refused for a cause of the whole job.
    fn all_refused(&self) -> Option<(RowRefusal, Vec<(u64, u64)>)> {
        let mut progress = self.progress();
        let (cause, refusal) = progress.cause.take()?;
        let are_all =
            cause.concerns_job() && !progress.is_stopped && self.ledger.totals().accepted == 0;
        are_all.then(|| (refusal, std::mem::take(&mut progress.refused)))
    }

    /// Fails because the service refuses the emails of the job, unless it was cancelled.
    async fn refuse(&self, refusal: RowRefusal, reopened: Vec<(u64, u64)>) {
        match self.ledger.refused(&refusal, reopened).await {
            Ok(true) => self.fail(ErrorKind::Refused(refusal)),
            Ok(false) => {}
            Err(error) => self.fail(ErrorKind::Journal(error)),
        }
    }

    /// The result, with the totals at the end.
    pub(crate) fn result(&self, totals: Totals) -> Result<Totals, Error> {
        let failure = self.progress().failure.take();
        failure.map_or(Ok(totals), |kind| Err(Error { kind, totals }))
    }

    /// Keeps the first failure, and stops all senders.
    pub(crate) fn fail(&self, kind: ErrorKind) {
        self.progress().failure.get_or_insert(kind);
        self.stop.cancel();
    }

    async fn send_all(&self) {
        while !self.stop.is_cancelled() {
            match self.ledger.next(&self.stop).await {
                Ok(Some(work)) => self.send_part(work).await,
                Ok(None) => return,
                Err(kind) => self.fail(kind),
            }
        }
    }

    async fn send_part(&self, work: Work<L::Part>) {
        let Work {
            mut part,
            mut requests,
            invalid,
        } = work;
        let at = self.ledger.now(&part);
        let invalid = invalid.into_iter();
        let invalid = invalid.map(|(row, message)| JournalEntry::Invalid { row, at, message });
        let invalid = invalid.collect::<Vec<_>>();
        if !invalid.is_empty() && !self.record(&mut part, invalid).await {
            return;
        }
        let mut is_done = true;
        while let Some(request) = requests.pop() {
            match self.send(&mut part, request).await {
                Ok(more) => requests.extend(more),
                Err(End::Lost) => return,
                Err(End::Stopped) => {
                    is_done = false;
                    break;
                }
            }
        }
        if let Err(error) = self.ledger.end(part, is_done).await {
            self.fail(ErrorKind::Journal(error));
        }
    }

    /// Sends one request until it has an outcome. Returns the requests that take its place.
    async fn send(&self, part: &mut L::Part, mut request: Request) -> Result<Vec<Request>, End> {
        let (mut retries, mut wait) = (0, Duration::ZERO);
        loop {
            if !wait.is_zero() {
                self.stop.run_until_cancelled(sleep(wait)).await;
            }
            if self.stop.is_cancelled() {
                return Err(End::Stopped);
            }
            let (number, key) = match self.ledger.begin(part, &request).await {
                Ok(Begin::Send(number, key)) => (number, key),
                Ok(Begin::Later(time)) => {
                    // Meanwhile, the job may be cancelled.
                    wait = time.min(POLL);
                    continue;
                }
                Ok(Begin::Forgotten) => return Ok(Vec::new()),
                Ok(Begin::Lost) => return Err(End::Lost),
                Err(error) => {
                    self.fail(ErrorKind::Journal(error));
                    return Err(End::Stopped);
                }
            };
            let call = self.job.client.emails().send_batch(&request.emails);
            // What is tried again, and when, is decided here.
            let call = call.timeout(self.job.timeout).retries(0);
            let result = match &key {
                Some(key) => call.idempotency_key(key).await,
                None => call.await,
            };
            let next = match result {
                Ok(response) => {
                    let results = outcomes(&response, request.rows.len());
                    self.conclude(part, &request, number, results).await?;
                    return Ok(Vec::new());
                }
                Err(error) => {
                    self.failed(part, &mut request, (number, key), retries, error)
                        .await?
                }
            };
            match next {
                Next::Requests(requests) => return Ok(requests),
                Next::Retry(time) => {
                    // A pause of the whole job is not a failure of this request.
                    retries += u32::from(!time.is_zero());
                    wait = time;
                }
            }
        }
    }

    /// An attempt has failed.
    async fn failed(
        &self,
        part: &mut L::Part,
        request: &mut Request,
        (number, key): (u64, Option<String>),
        retries: u32,
        error: svc_sdk::Error,
    ) -> Result<Next, End> {
        let (is_unknown, is_repeat) = (
            error.outcome() == Outcome::Unknown,
            request.repeats.is_some(),
        );
        let is_invalid = error.outcome() == Outcome::Refused
            && matches!(
                error.kind(),
                svc_sdk::ErrorKind::Invalid | svc_sdk::ErrorKind::TooLarge
            );
        if is_invalid && !is_repeat && request.rows.len() == 1 {
            let (cause, refusal) = refusal(&error);
            let results = vec![RowOutcome::Refused(refusal.clone())];
            self.conclude(part, request, number, (results, Some((cause, refusal))))
                .await?;
            return Ok(Next::Requests(Vec::new()));
        }
        let status = || error.status().map(|status| status.as_u16().to_string());
        let code = error.code().map(str::to_owned).or_else(status);
        let at = self.ledger.now(part);
        // A refusal of the repetition says nothing about the first request.
        let entry = match is_unknown || is_repeat {
            true => JournalEntry::Unknown {
                request: number,
                at,
                code,
            },
            false => JournalEntry::NotSent { request: number },
        };
        if !self.record(part, vec![entry]).await {
            return Err(End::Lost);
        }
        let may_retry = match is_unknown {
            true => key.is_some(),
            false => error.is_retryable(),
        };
        let asked = error.retry_after().filter(|_| error.is_rate_limited());
        let next = match asked {
            Some(wait) if wait <= MAX_RETRY_AFTER => {
                let wait = wait.max(MIN_PAUSE);
                if let Err(error) = self.ledger.pause(wait).await {
                    self.fail(ErrorKind::Journal(error));
                }
                self.report(Vec::new(), Some(wait));
                Next::Retry(Duration::ZERO)
            }
            None if may_retry && retries < self.job.retries => {
                if let Some(key) = key.filter(|_| is_unknown) {
                    request.repeats = Some((number, key));
                }
                let (first, longest) = BACK_OFF;
                let longest = longest.min(self.job.timeout / 2);
                let most = first.saturating_mul(1 << retries.min(16)).min(longest);
                Next::Retry(most.mul_f64(fastrand::f64()).max(Duration::from_millis(1)))
            }
            _ if is_unknown => {
                let unknown = request.rows.iter().map(|row| (*row, RowOutcome::Unknown));
                self.report(unknown.collect(), None);
                let in_a_row = {
                    let mut progress = self.progress();
                    progress.unknown_in_a_row += 1;
                    progress.unknown_in_a_row
                };
                if in_a_row >= MAX_UNKNOWN_REQUESTS {
                    self.fail(ErrorKind::Service(error));
                }
                Next::Requests(Vec::new())
            }
            // Its rows stay unknown.
            _ if is_repeat && *error.kind() == svc_sdk::ErrorKind::Conflict => {
                Next::Requests(Vec::new())
            }
            _ if is_invalid && !is_repeat => Next::Requests(std::mem::take(request).halves()),
            _ => {
                self.fail(ErrorKind::Service(error));
                return Err(End::Stopped);
            }
        };
        Ok(next)
    }

    /// Records the outcome of each row of a request. `cause` is that of all, if they were refused
    /// for one.
    async fn conclude(
        &self,
        part: &mut L::Part,
        request: &Request,
        number: u64,
        (results, cause): (Vec<RowOutcome>, Option<(Cause, RowRefusal)>),
    ) -> Result<(), End> {
        let (at, place) = (self.ledger.now(part), L::number(part));
        let outcome = JournalEntry::Outcome {
            request: number,
            at,
            results: results.clone(),
        };
        let rows = request.rows.iter().map(|row| (place, *row));
        let stopped = self
            .progress()
            .take(rows, cause, self.ledger.totals().accepted);
        let (refusal, reopened) = stopped.unzip();
        let (here, elsewhere) = reopened
            .unwrap_or_default()
            .into_iter()
            .partition::<Vec<_>, _>(|(at, _)| *at == place);
        let reopened = JournalEntry::reopened(here.iter().map(|(_, row)| *row).collect());
        if !self
            .record(part, [outcome].into_iter().chain(reopened).collect())
            .await
        {
            return Err(End::Lost);
        }
        let outcomes = request.rows.iter().copied().zip(results);
        self.report(outcomes.filter(|_| here.is_empty()).collect(), None);
        if let Some(refusal) = refusal {
            self.refuse(refusal, elsewhere).await;
        }
        if here.is_empty() {
            Ok(())
        } else {
            Err(End::Stopped)
        }
    }

    /// Returns whether the entries were recorded.
    async fn record(&self, part: &mut L::Part, entries: Vec<JournalEntry>) -> bool {
        self.ledger
            .record(part, entries)
            .await
            .unwrap_or_else(|error| {
                self.fail(ErrorKind::Journal(error));
                false
            })
    }

    fn report(&self, outcomes: Vec<(u64, RowOutcome)>, pause: Option<Duration>) {
        let totals = self.ledger.totals();
        if let Some(observer) = &mut *lock(&self.job.observer) {
            observer(&RequestReport {
                outcomes,
                totals,
                pause,
            });
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        lock(&self.progress)
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Progress {
    /// Takes in the rows of a response, and the cause if all were refused for the same one. Returns
    /// what stops the job, and the rows that were refused and are to be sent again.
    fn take(
        &mut self,
        rows: impl Iterator<Item = (u64, u64)>,
        refused: Option<(Cause, RowRefusal)>,
        accepted: u64,
    ) -> Option<(RowRefusal, Vec<(u64, u64)>)> {
        self.unknown_in_a_row = 0;
        if self.cause.as_ref().map(|(cause, _)| cause) != refused.as_ref().map(|(cause, _)| cause) {
            self.refused.clear();
            self.is_stopped = false;
        }
        self.cause = refused;
        let (cause, refusal) = self.cause.clone()?;
        self.refused.extend(rows);
        // Also the rows of requests that were in flight then.
        if self.refused.len() < cause.limit() && !self.is_stopped {
            return None;
        }
        self.is_stopped = true;
        // If not, rows that are refused whatever their sender does would stop every run.
        let are_spared = cause.concerns_job() || accepted == 0;
        let refused = std::mem::take(&mut self.refused);
        Some((refusal, if are_spared { refused } else { Vec::new() }))
    }
}
