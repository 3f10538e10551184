//! Sends the rows of a send: each of its senders claims rows, and records what is about to be sent
//! and what became of it.

use std::fmt;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, join, join_all, pending};
use serde::de::DeserializeOwned;
use svc_sdk::email::Email;
use svc_sdk::{EmailClient, Outcome};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::request::{Cause, MAX_BYTES, Request, outcomes, refusal, size};
use crate::worker::{Begin, Claim, Claimed, Worker};
use crate::{Error, ErrorKind, Ledger, LedgerError, RowOutcome, RowRefusal, SendState, Totals};

/// The most emails in one request.
const MAX_SIZE: usize = 100;

/// A send stops after this many requests in a row with an unknown outcome: the service is
/// probably down, and each further one would make more rows unknown.
const MAX_UNKNOWN_REQUESTS: u32 = 3;

/// The longest back-off before the first retry, and before any.
const FIRST_BACK_OFF: Duration = Duration::from_millis(500);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(10);

/// The longest time until a sender that waits looks again whether it may send.
const POLL: Duration = Duration::from_millis(300);

/// The longest time until a pause or a cancellation is seen.
const LOOK: Duration = Duration::from_secs(1);

/// The longest `Retry-After` of a 429 that a send waits for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(15 * 60);

/// The shortest pause after a 429: some services ask for none again and again.
const MIN_PAUSE: Duration = Duration::from_millis(100);

/// The longest deadline of an attempt.
const MAX_TIMEOUT: Duration = Duration::from_secs(86_400);

/// The outcome of one request, or the reason why the send waits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestReport {
    /// The rows of the request with their outcome. Empty if they will be sent again.
    pub outcomes: Vec<(u64, RowOutcome)>,
    /// The outcome of all rows so far, those of other workers as of the last few seconds.
    pub totals: Totals,
    /// How long the send now waits, because the service asked for it.
    pub pause: Option<Duration>,
    /// Whether somebody has paused the send.
    pub is_paused: bool,
}

type Observer = Box<dyn FnMut(&RequestReport) + Send>;

/// Sends an email for each row of a send in a [`Ledger`]. See the [crate](crate).
///
/// Any number of processes may [`run`](Self::run) the same send at the same time.
#[must_use = "nothing is sent until it runs"]
pub struct BulkSend {
    client: EmailClient,
    request_size: usize,
    concurrency: usize,
    key_life: Option<Duration>,
    local_checks: bool,
    retries: u32,
    timeout: Duration,
    // In mutexes, so that references to this can be sent to other threads.
    stop: Mutex<BoxFuture<'static, ()>>,
    abort: Mutex<BoxFuture<'static, ()>>,
    observer: Mutex<Option<Observer>>,
}

impl BulkSend {
    /// Sends with this client. Its own time limits and retries do not apply.
    pub fn new(client: &EmailClient) -> Self {
        Self {
            client: client.clone(),
            request_size: MAX_SIZE,
            concurrency: 4,
            key_life: None,
            local_checks: true,
            retries: 6,
            timeout: Duration::from_secs(60),
            stop: Mutex::new(Box::pin(pending())),
            abort: Mutex::new(Box::pin(pending())),
            observer: Mutex::default(),
        }
    }

    /// Sets the number of emails in a request, 1 to 100. Default: 100, and less if that many would take
    /// more than a second at the rate of the send.
    pub fn request_size(mut self, emails: usize) -> Self {
        self.request_size = emails.clamp(1, MAX_SIZE);
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
    /// count: the send waits, up to 15 minutes, and [`RequestReport::pause`] tells of it.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sets the deadline of each attempt, at most a day. Default: one minute.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.min(MAX_TIMEOUT);
        self
    }

    /// Stops in order when this future is ready: no further attempt is started, and those in flight
    /// are completed.
    pub fn stop_when(mut self, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        self.stop = Mutex::new(Box::pin(stop));
        self
    }

    /// Stops at once when this future is ready: the rows of requests in flight are unknown.
    /// If [`run`](Self::run) is dropped instead, they are so when the lease has passed.
    pub fn abort_when(mut self, abort: impl Future<Output = ()> + Send + 'static) -> Self {
        self.abort = Mutex::new(Box::pin(abort));
        self
    }

    /// Registers a function that is called after every request.
    pub fn on_request(mut self, observer: impl FnMut(&RequestReport) + Send + 'static) -> Self {
        self.observer = Mutex::new(Some(Box::new(observer)));
        self
    }

    /// Sends the rows that wait, together with all others who do so, until none is left. Waits while
    /// the send is paused, and returns when it is cancelled.
    ///
    /// `render` makes the email of a row from its data. A row for which it fails, or whose email
    /// exceeds a documented limit, is recorded as invalid and not sent.
    ///
    /// If the service refuses a whole request as invalid or too large, its halves are sent, so
    /// that in the end only the row that causes it is refused.
    ///
    /// # Errors
    ///
    /// [`ErrorKind`] lists why a send stops early. Requests in flight are completed first.
    pub async fn run<T, R, M>(
        mut self,
        ledger: &Ledger,
        id: &str,
        render: R,
    ) -> Result<Totals, Error>
    where
        T: DeserializeOwned,
        R: FnMut(&T) -> Result<Email, M>,
        M: Display,
    {
        let failed = |error| Error {
            kind: ErrorKind::Ledger(error),
            totals: Totals::default(),
        };

        let record = ledger.send(id).await.map_err(failed)?;
        let stop = taken(&mut self.stop);
        let abort = taken(&mut self.abort);
        let run = Run {
            settings: self,
            ledger,
            send: record.send,
            worker: Mutex::default(),
            stop: CancellationToken::new(),
            progress: Mutex::new(Progress {
                totals: record.totals,
                ..Progress::default()
            }),
            unknown_in_a_row: AtomicU32::new(0),
            is_lost: AtomicBool::new(false),
            render: Mutex::new(render),
            row: std::marker::PhantomData,
        };

        let stopping = async {
            stop.await;
            run.stop.cancel();
            pending::<()>().await;
        };
        // Dropped before it leaves: it may hold a transaction, for which that would wait.
        tokio::select! {
            () = run.until_the_end() => {}
            () = abort => {}
            () = stopping => {}
        }
        run.leave().await;
        run.result().await
    }
}

impl fmt::Debug for BulkSend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkSend").finish_non_exhaustive()
    }
}

/// Takes a future, which may be awaited once.
fn taken(future: &mut Mutex<BoxFuture<'static, ()>>) -> BoxFuture<'static, ()> {
    let taken = std::mem::replace(future, Mutex::new(Box::pin(pending())));
    taken.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// A send that is running in this process.
struct Run<'a, T, R> {
    settings: BulkSend,
    ledger: &'a Ledger,
    send: i64,
    worker: Mutex<Option<Arc<Worker>>>,
    stop: CancellationToken,
    progress: Mutex<Progress>,
    unknown_in_a_row: AtomicU32,
    /// Whether others have taken over the rows of the worker.
    is_lost: AtomicBool,
    render: Mutex<R>,
    row: std::marker::PhantomData<fn(T)>,
}

/// The state that all senders of this process share.
#[derive(Default)]
struct Progress {
    totals: Totals,
    /// The cause for which all emails of the last response were refused.
    cause: Option<(Cause, RowRefusal)>,
    failure: Option<ErrorKind>,
    is_paused: bool,
}

/// Why a sender does not go on with its rows.
enum Halt {
    Stopped,
    /// Others have taken the rows over.
    Lost,
    Failed(LedgerError),
}

impl From<LedgerError> for Halt {
    fn from(error: LedgerError) -> Self {
        Self::Failed(error)
    }
}

/// The step after an attempt.
enum Next {
    /// The same request, after this time.
    Retry(Duration),
    /// These requests in its place.
    Requests(Vec<Request>),
}

impl<T, R, M> Run<'_, T, R>
where
    T: DeserializeOwned,
    R: FnMut(&T) -> Result<Email, M>,
    M: Display,
{
    /// Sends until nothing is left, it fails, or it is stopped.
    async fn until_the_end(&self) {
        loop {
            self.is_lost.store(false, Ordering::Relaxed);
            match Worker::join(self.ledger, self.send, self.key_life()).await {
                Ok(worker) => *lock(&self.worker) = Some(Arc::new(worker)),
                Err(error) => return self.fail(ErrorKind::Ledger(error)),
            }
            let Some(worker) = self.worker() else { return };
            // Not ended by a stop: requests in flight are completed, as long as the worker is alive.
            let session = CancellationToken::new();
            let senders = async {
                // Before the first claim, so that rows of workers that have died are not forgotten.
                self.look(&worker).await;
                join_all((0..self.settings.concurrency).map(|_| self.send_all(&worker))).await;
                session.cancel();
            };
            join(senders, self.watch(&worker, &session)).await;
            if !self.is_lost.load(Ordering::Relaxed) || self.stop.is_cancelled() {
                break;
            }
            // Whoever has taken the rows over has counted it out; it joins again as another one.
            self.leave().await;
        }
        self.spare_all().await;
    }

    /// A key is not used for the last requests of its life.
    fn key_life(&self) -> Option<Duration> {
        let life = self.settings.key_life?;
        let margin = self.settings.timeout.saturating_mul(2).min(life / 2);
        Some(life - margin)
    }

    fn worker(&self) -> Option<Arc<Worker>> {
        lock(&self.worker).clone()
    }

    /// Leaves the send, so that others go on with what is left at once.
    async fn leave(&self) {
        let worker = lock(&self.worker).take();
        if let Some(worker) = worker
            && let Err(error) = worker.leave().await
        {
            self.fail(ErrorKind::Ledger(error));
        }
    }

    /// If all rows of a short send were refused for a cause of the whole send, they are spared.
    async fn spare_all(&self) {
        let cause = self.progress().cause.take();
        let (Some((cause, why)), Some(worker)) = (cause, self.worker()) else {
            return;
        };
        if self.progress().failure.is_some() || self.stop.is_cancelled() {
            return;
        }

        match worker.spare_all(&cause, &why).await {
            Ok(true) => self.fail(ErrorKind::Refused(why)),
            Ok(false) => {}
            Err(error) => self.fail(ErrorKind::Ledger(error)),
        }
    }

    /// The result, with the totals at the end.
    async fn result(&self) -> Result<Totals, Error> {
        let totals = match self.ledger.totals_of(self.send).await {
            Ok(totals) => totals,
            Err(error) => {
                self.fail(ErrorKind::Ledger(error));
                self.progress().totals
            }
        };
        match self.progress().failure.take() {
            Some(kind) => Err(Error { kind, totals }),
            None => Ok(totals),
        }
    }

    /// Keeps the first failure, and stops all senders.
    fn fail(&self, kind: ErrorKind) {
        self.progress().failure.get_or_insert(kind);
        self.stop.cancel();
    }

    /// Tells that the worker is alive, and looks for pauses and cancellations.
    async fn watch(&self, worker: &Worker, session: &CancellationToken) {
        let every = (self.ledger.lease / 5).min(LOOK);
        let mut looks = 0_u32;
        while session.run_until_cancelled(sleep(every)).await.is_some() {
            self.look(worker).await;
            looks += 1;
            // What other workers have done.
            if looks.is_multiple_of(8)
                && let Ok(totals) = self.ledger.totals_of(self.send).await
            {
                self.progress().totals = totals;
            }
        }
    }

    async fn look(&self, worker: &Worker) {
        let seen = match worker.beat().await {
            Ok(seen) => seen,
            Err(error) => return self.fail(ErrorKind::Ledger(error)),
        };
        if !seen.is_alive {
            self.is_lost.store(true, Ordering::Relaxed);
        }
        if let Some(cause) = seen.cause {
            self.fail(ErrorKind::Refused(cause));
        }
        let is_paused = seen.state == SendState::Paused;
        let was_paused = std::mem::replace(&mut self.progress().is_paused, is_paused);
        if is_paused && !was_paused {
            self.report(Vec::new(), None);
        }
    }

    async fn send_all(&self, worker: &Worker) {
        let mut pause = Duration::from_millis(10);
        while !self.stop.is_cancelled() && !self.is_lost.load(Ordering::Relaxed) {
            let claim = match worker.claim(self.settings.request_size).await {
                Ok(Claimed::Rows(claim)) => claim,
                Ok(Claimed::Nothing | Claimed::Not(SendState::Cancelled)) => return,
                Ok(Claimed::Others | Claimed::Not(_)) => {
                    self.stop.run_until_cancelled(sleep(pause)).await;
                    pause = (pause * 2).min(self.poll());
                    continue;
                }
                Ok(Claimed::Lost) => return self.is_lost.store(true, Ordering::Relaxed),
                Err(error) => return self.fail(ErrorKind::Ledger(error)),
            };
            pause = Duration::from_millis(10);
            match self.send_claim(worker, claim).await {
                Ok(()) | Err(Halt::Stopped) => {}
                Err(Halt::Lost) => self.is_lost.store(true, Ordering::Relaxed),
                Err(Halt::Failed(error)) => self.fail(ErrorKind::Ledger(error)),
            }
        }
    }

    /// Sends the rows of a claim. What is not sent stays held until the worker leaves.
    async fn send_claim(&self, worker: &Worker, claim: Claim) -> Result<(), Halt> {
        let mut requests = self.render_all(worker, claim).await?;
        // The first last.
        requests.reverse();
        while let Some(request) = requests.pop() {
            let more = self.send(worker, request).await?;
            requests.extend(more.into_iter().rev());
        }
        Ok(())
    }

    /// Makes the emails of a claim, and as many requests as their size asks for.
    async fn render_all(&self, worker: &Worker, claim: Claim) -> Result<Vec<Request>, Halt> {
        let mut request = Request {
            id: claim.request,
            rows: Vec::new(),
            emails: Vec::new(),
            repeats: claim.repeats,
        };
        let mut invalid = Vec::new();
        for (number, data) in claim.rows {
            match self.render(&data) {
                Ok(email) => {
                    request.rows.push(number);
                    request.emails.push(email);
                }
                Err(problem) => invalid.push((number, problem)),
            }
        }

        if request.repeats {
            if invalid.is_empty() {
                return Ok(vec![request]);
            }
            // The body would be another one: the rows were sent, whatever they render to now.
            worker.unknown(&request.id, "interrupted", None).await?;
            return Ok(Vec::new());
        }

        let mut ends = Vec::new();
        let mut bytes = 0;
        for (at, email) in request.emails.iter().enumerate() {
            let size = size(email);
            if at > 0 && bytes + size > MAX_BYTES {
                ends.push(at);
                bytes = 0;
            }
            bytes += size;
        }

        if invalid.is_empty() && ends.is_empty() {
            return Ok(vec![request]);
        }

        self.progress().totals.invalid += invalid.len() as u64;
        self.split(worker, request, &invalid, ends).await
    }

    /// Divides a request before the emails at these positions, and leaves its invalid rows out.
    async fn split(
        &self,
        worker: &Worker,
        mut request: Request,
        invalid: &[(u64, String)],
        positions: Vec<usize>,
    ) -> Result<Vec<Request>, Halt> {
        let mut parts = Vec::new();
        for at in positions.into_iter().rev() {
            parts.push((request.rows.split_off(at), request.emails.split_off(at)));
        }

        parts.push((request.rows, request.emails));
        parts.reverse();
        parts.retain(|(rows, _)| !rows.is_empty());

        let last_rows = parts.iter().filter_map(|(rows, _)| rows.last().copied());
        let last_rows = last_rows.collect::<Vec<_>>();
        let ids = worker.split(&request.id, invalid, &last_rows).await?;
        let ids = ids.ok_or(Halt::Lost)?;
        let requests = ids
            .into_iter()
            .zip(parts)
            .map(|(id, (rows, emails))| Request {
                id,
                rows,
                emails,
                repeats: false,
            });
        Ok(requests.collect())
    }

    fn render(&self, data: &str) -> Result<Email, String> {
        let row = serde_json::from_str::<T>(data)
            .map_err(|_| "the data of the row cannot be read".to_owned())?;
        let email = (lock(&self.render))(&row).map_err(|error| error.to_string())?;
        if self.settings.local_checks {
            email.check().map_err(|error| error.to_string())?;
        }
        Ok(email)
    }

    /// Sends one request until it has an outcome. Returns the requests that take its place.
    async fn send(&self, worker: &Worker, mut request: Request) -> Result<Vec<Request>, Halt> {
        let mut retries = 0;
        let mut wait = Duration::ZERO;
        loop {
            if !wait.is_zero() {
                self.stop.run_until_cancelled(sleep(wait)).await;
            }
            if self.stop.is_cancelled() {
                if request.repeats {
                    worker.unknown(&request.id, "interrupted", None).await?;
                }
                return Err(Halt::Stopped);
            }
            match worker.begin(&request).await? {
                Begin::Now => {}
                Begin::Later(time) => {
                    // Meanwhile, the send may be cancelled.
                    wait = time.min(self.poll());
                    continue;
                }
                Begin::Paused => {
                    wait = self.poll();
                    continue;
                }
                Begin::Forgotten => {
                    worker.unknown(&request.id, "interrupted", None).await?;
                    return Ok(Vec::new());
                }
                Begin::Lost => return Err(Halt::Lost),
            }
            let call = self.settings.client.emails().send_batch(&request.emails);
            // What is tried again, and when, is decided here.
            let timeout = self.settings.timeout;
            let call = call.timeout(timeout).attempt_timeout(timeout).retries(0);
            let result = match self.settings.key_life {
                Some(_) => call.idempotency_key(&request.id).await,
                None => call.await,
            };
            let next = match result {
                Ok(response) => {
                    let (outcomes, cause) = outcomes(&response, request.rows.len());
                    self.conclude(worker, &request, outcomes, cause).await?;
                    return Ok(Vec::new());
                }
                Err(error) => self.failed(worker, &mut request, retries, error).await?,
            };
            match next {
                Next::Requests(requests) => return Ok(requests),
                Next::Retry(time) => {
                    // A pause of the whole send is not a failure of this request.
                    retries += u32::from(!time.is_zero());
                    wait = time;
                }
            }
        }
    }

    /// An attempt has failed.
    async fn failed(
        &self,
        worker: &Worker,
        request: &mut Request,
        retries: u32,
        error: svc_sdk::Error,
    ) -> Result<Next, Halt> {
        let is_unknown = error.outcome() == Outcome::Unknown;
        let is_invalid = error.outcome() == Outcome::Refused
            && matches!(
                error.kind(),
                svc_sdk::ErrorKind::Invalid | svc_sdk::ErrorKind::TooLarge
            );
        if is_invalid && !request.repeats && request.rows.len() == 1 {
            let (cause, why) = refusal(&error);
            let outcomes = vec![RowOutcome::Refused(why.clone())];
            self.conclude(worker, request, outcomes, Some((cause, why)))
                .await?;
            return Ok(Next::Requests(Vec::new()));
        }

        let may_retry = if is_unknown {
            self.settings.key_life.is_some()
        } else {
            error.is_retryable()
        };
        let asked = error.retry_after().filter(|_| error.is_rate_limited());
        let retry_in = match asked {
            Some(wait) if wait <= MAX_RETRY_AFTER => {
                let wait = wait.max(MIN_PAUSE);
                worker.hold_back(wait).await?;
                self.report(Vec::new(), Some(wait));
                Some(Duration::ZERO)
            }
            None if may_retry && retries < self.settings.retries => Some(self.back_off(retries)),
            _ => None,
        };
        if let Some(time) = retry_in {
            // A refusal of a repetition says nothing about the first request.
            request.repeats |= is_unknown;
            if !request.repeats {
                worker.not_sent(&request.id).await?;
            }
            return Ok(Next::Retry(time));
        }

        if is_unknown || request.repeats {
            let status = || error.status().map(|status| status.as_u16().to_string());
            let code = error.code().map(str::to_owned).or_else(status);
            let code = code.as_deref().unwrap_or("no_response");
            let (_, why) = refusal(&error);
            worker
                .unknown(&request.id, code, why.message.as_deref())
                .await?;
            let rows = request.rows.iter();
            self.report(rows.map(|row| (*row, RowOutcome::Unknown)).collect(), None);
            let in_a_row = self.unknown_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
            let is_conflict = *error.kind() == svc_sdk::ErrorKind::Conflict;
            if (is_unknown && in_a_row >= MAX_UNKNOWN_REQUESTS) || !(is_unknown || is_conflict) {
                self.fail(ErrorKind::Service(error));
            }
            return Ok(Next::Requests(Vec::new()));
        }

        worker.not_sent(&request.id).await?;
        if is_invalid {
            let half = request.rows.len() / 2;
            let whole = Request {
                id: std::mem::take(&mut request.id),
                rows: std::mem::take(&mut request.rows),
                emails: std::mem::take(&mut request.emails),
                repeats: false,
            };
            let halves = self.split(worker, whole, &[], vec![half]).await?;
            return Ok(Next::Requests(halves));
        }

        self.fail(ErrorKind::Service(error));
        Ok(Next::Requests(Vec::new()))
    }

    /// The longest time until a sender that waits looks again.
    fn poll(&self) -> Duration {
        POLL.min(self.ledger.lease / 2)
    }

    fn back_off(&self, retries: u32) -> Duration {
        let longest = LONGEST_BACK_OFF.min(self.settings.timeout / 2);
        let most = FIRST_BACK_OFF
            .saturating_mul(1 << retries.min(16))
            .min(longest);
        most.mul_f64(fastrand::f64()).max(Duration::from_millis(1))
    }

    /// Records the outcome of each row of a request. `cause` is that of all, if they were refused
    /// for one.
    async fn conclude(
        &self,
        worker: &Worker,
        request: &Request,
        outcomes: Vec<RowOutcome>,
        cause: Option<(Cause, RowRefusal)>,
    ) -> Result<(), LedgerError> {
        let outcomes = request.rows.iter().copied().zip(outcomes);
        let outcomes = outcomes.collect::<Vec<_>>();
        self.unknown_in_a_row.store(0, Ordering::Relaxed);
        let is_paused = worker
            .conclude(&request.id, &outcomes, cause.as_ref())
            .await?;
        self.progress().cause.clone_from(&cause);
        if let Some((_, why)) = cause.filter(|_| is_paused) {
            self.fail(ErrorKind::Refused(why));
            return Ok(());
        }

        self.report(outcomes, None);
        Ok(())
    }

    fn report(&self, outcomes: Vec<(u64, RowOutcome)>, pause: Option<Duration>) {
        let mut progress = self.progress();
        for (_, outcome) in &outcomes {
            let totals = &mut progress.totals;
            totals.not_sent = totals.not_sent.saturating_sub(1);
            match outcome {
                RowOutcome::Accepted(_) => totals.accepted += 1,
                RowOutcome::Refused(_) => totals.refused += 1,
                RowOutcome::Unknown => totals.unknown += 1,
            }
        }

        let report = RequestReport {
            outcomes,
            totals: progress.totals,
            pause,
            is_paused: progress.is_paused,
        };
        drop(progress);
        if let Some(observer) = &mut *lock(&self.settings.observer) {
            observer(&report);
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        lock(&self.progress)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A send can run in a task of its own.
const _: fn(BulkSend, &Ledger) = |send, ledger| {
    fn is_send(_: impl Send) {}
    let render = |_: &String| Ok::<_, String>(Email::default());
    is_send(send.run(ledger, "", render));
};
