//! `Worker<D>` runs a handler for each delivery. `work` starts a thread, on which `serve` claims
//! what is due for its free slots and runs the handlers; `keep_alive` shows that the worker runs
//! and finds those that have vanished. Only the newest claim of a delivery can commit. A delivery
//! whose worker vanished is tried alone in its process. An attempt does not count if the database
//! was lost before the handler started or during its commit. Claims are in `queue.rs`, the order of
//! tenants in `turns.rs`.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use svc_sql::params;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::Instrument as _;
use tracing::instrument::WithSubscriber as _;

use crate::claims::{Backoff, Clock, Watch};
use crate::error::text_of;
use crate::inbox::Phase;
use crate::turns::Turns;
use crate::{BoxError, Database, Error, ErrorKind, Failed, Inbox, Job};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How often handled deliveries are deleted.
const PURGE_INTERVAL: Duration = Duration::from_secs(60);

/// The time between two attempts to use a database that is not available.
const RECONNECT: Backoff = Backoff {
    first: Duration::from_millis(200),
    max: Duration::from_secs(5),
};

/// The shortest time between two surveys, also if many attempts fail.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs a handler for each delivery of an inbox.
///
/// Get one from [`Inbox::worker`]. Any number of workers in any number of processes share an
/// inbox. There is **no order**: deliveries are handled at the same time, and a failed one
/// again later. Tenants take turns.
///
/// A worker claims as many deliveries as it has free slots, and shows three times in its
/// [`lease`](Self::lease) that it runs. If it does not, because its process was killed, its
/// deliveries are due again, each alone: it does not share a process with others, and only now its
/// attempt counts if the process ends again. Each claim has a higher token, and only the holder of
/// the highest can commit, so a worker that was paused cannot complete what another one took over.
///
/// An attempt that fails, or exceeds its [time limit](Self::handler_timeout), is repeated with
/// exponential back-off and jitter, or as the handler says with [`Failed`]. After the last one the
/// delivery is a [dead letter](Inbox::dead_letters). An attempt does not count if the database is
/// lost before the handler starts or while its transaction is committed.
///
/// `run` ends when [`Inbox::stop`] is called, or with the error
/// [`OtherSchema`](ErrorKind::OtherSchema), which is also logged, if a newer version of this crate
/// has changed the tables. It waits, says so in the log, and goes on after everything that an
/// operator can mend: an outage, a failover, a password, missing tables. If its future is dropped,
/// it stops at once, and gives back what it was handling.
///
/// The handlers of a worker share a thread, which `run` starts.
#[derive(Debug)]
#[must_use = "a worker does nothing until it runs"]
pub struct Worker<D> {
    pub(crate) inbox: Inbox<D>,
    concurrency: usize,
    tenant_limit: usize,
    lease: Duration,
    pub(crate) handler_timeout: Duration,
    poll_interval: Duration,
    max_attempts: u32,
    backoff: Backoff,
    retention: Duration,
    pub(crate) keep_bodies: bool,
    #[cfg(any(feature = "postgres", feature = "sqlx"))]
    pub(crate) isolation: crate::Isolation,
}

/// Why nothing was committed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Handler(#[from] BoxError),
    #[error(transparent)]
    Database(#[from] Error),
    #[error("another worker has claimed a webhook delivery")]
    ClaimLost,
}

impl<D: Database> Worker<D> {
    pub(crate) fn new(inbox: Inbox<D>) -> Self {
        Self {
            inbox,
            concurrency: 8,
            tenant_limit: usize::MAX,
            lease: Duration::from_secs(30),
            handler_timeout: Duration::from_secs(5 * 60),
            poll_interval: Duration::from_millis(500),
            max_attempts: 15,
            backoff: Backoff {
                first: Duration::from_secs(5),
                max: Duration::from_secs(3600),
            },
            retention: 30 * DAY,
            keep_bodies: false,
            #[cfg(any(feature = "postgres", feature = "sqlx"))]
            isolation: crate::Isolation::Database,
        }
    }

    /// Sets how many deliveries are handled at the same time. Default: 8.
    ///
    /// With PostgreSQL it is at most one less than the pool has connections, so that deliveries
    /// can be accepted while handlers run.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Sets how many deliveries of one tenant or scope this worker handles at the same time.
    /// Default: as many as it can.
    pub fn tenant_limit(mut self, limit: usize) -> Self {
        self.tenant_limit = limit.max(1);
        self
    }

    /// Sets after which time a delivery is due again whose worker has vanished. Default: 30
    /// seconds.
    ///
    /// A handler may take longer: the worker shows three times in this duration that it runs. It
    /// is measured by the clocks of the other workers, which cannot be set. At least 3 ms and at
    /// most one day.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.clamp(Duration::from_millis(3), DAY);
        self
    }

    /// Sets the time limit of an attempt. Default: 5 minutes.
    ///
    /// After it, the handler is dropped and its transaction rolled back, and the attempt has
    /// failed. A handler that blocks its thread is not dropped before it returns; it cannot
    /// commit any more. At least 1 ms and at most one day.
    pub fn handler_timeout(mut self, limit: Duration) -> Self {
        self.handler_timeout = limit.clamp(Duration::from_millis(1), DAY);
        self
    }

    /// Sets how often the worker looks for deliveries of which it was not notified. Default:
    /// 500 ms.
    ///
    /// A delivery that [`Inbox::accept`] stores in this process is handled at once. Deliveries
    /// of other processes wait for this interval.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }

    /// Sets how many attempts are made before a delivery becomes a dead letter. Default: 15,
    /// which with the default back-off takes about five hours.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts.max(1);
        self
    }

    /// Sets the delay after the first failed attempt and the longest delay. Default: 5
    /// seconds and 1 hour.
    ///
    /// The delay doubles with each attempt. A random part of up to half of it is subtracted. At
    /// most 30 days.
    pub fn backoff(mut self, first: Duration, max: Duration) -> Self {
        self.backoff = Backoff {
            first,
            max: max.min(30 * DAY),
        };
        self
    }

    /// Sets how long a handled delivery stays in the table. Default: 30 days.
    ///
    /// Its body is removed at once. After the retention it is deleted and not remembered: the retention must be longer than the period over
    /// which the sender retries, and not shorter than the receiver's `max_age` (24 hours by default),
    /// or a replay is handled again. Dead letters are kept.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Keeps the bodies of handled deliveries for the [`retention`](Self::retention), so that
    /// [`replay_handled`](Inbox::replay_handled) can let them be handled again. Default: no.
    pub fn keep_bodies(mut self) -> Self {
        self.keep_bodies = true;
        self
    }

    /// Handles deliveries until [`Inbox::stop`], on a thread of its own: the compiler cannot know
    /// whether the futures of an asynchronous closure that borrows are `Send`, and a handler that
    /// blocks its thread does not hold up the runtime.
    pub(crate) async fn work<F>(self, attempt: F) -> Result<(), Error>
    where
        F: AsyncFn(&Worker<D>, Job) -> Result<(), Failure> + Send + 'static,
    {
        let (mut ended, result) = oneshot::channel();
        let runtime = Handle::current();
        let subscriber = tracing::dispatcher::get_default(Clone::clone);
        let serve = async move || {
            let owner = fastrand::i64(1..);
            let owners = &self.inbox.signals.owners;
            owners.send_if_modified(|owners| owners.insert(owner));
            let served = tokio::select! {
                biased;
                () = ended.closed() => Ok(()),
                () = self.inbox.signals.reached(Phase::Stopped) => Ok(()),
                served = self.serve(owner, &attempt) => served,
            };
            self.inbox.leave_soon(owner).await;
            owners.send_if_modified(|owners| owners.remove(&owner));
            if let Err(error) = &served {
                let cause = text_of(error);
                tracing::error!(cause, "the worker of the webhook inbox has ended");
            }
            // Nobody waits for it any more.
            let _ = ended.send(served);
        };

        let run = move || runtime.block_on(serve().with_subscriber(subscriber));
        let thread = std::thread::Builder::new().name("webhook-inbox".to_owned());
        let unavailable = |error: BoxError| Error::new(ErrorKind::Unavailable, error);
        thread
            .spawn(run)
            .map_err(|error| unavailable(error.into()))?;
        result.await.map_err(|error| unavailable(error.into()))?
    }

    async fn serve<F>(&self, owner: i64, attempt: &F) -> Result<(), Error>
    where
        F: AsyncFn(&Worker<D>, Job) -> Result<(), Failure>,
    {
        if !self.enter(owner).await? {
            return Ok(());
        }

        let (taken_for_dead, lost) = watch::channel(());
        let mut background = JoinSet::new();
        background.spawn(keep_alive(
            self.inbox.clone(),
            owner,
            self.lease,
            taken_for_dead,
        ));
        background.spawn(purge_handled(self.inbox.clone(), self.retention));

        let connections = self.inbox.database.connections().saturating_sub(1);
        let slots = self.concurrency.min(connections).max(1);
        let signals = &self.inbox.signals;
        let mut stopping = pin!(signals.reached(Phase::Stopping));
        let mut stops = false;
        let mut looks = Looks::new(self);
        let mut running = FuturesUnordered::new();
        loop {
            let free = slots - running.len();
            let may_look = !stops && free > 0 && (running.is_empty() || !looks.wants_alone);
            tokio::select! {
                biased;
                () = &mut stopping, if !stops => stops = true,
                Some(ended) = running.next() => looks.ended(&ended),
                () = signals.wake.notified(), if may_look => looks.at = Instant::now(),
                () = sleep_until(looks.at), if may_look => {
                    let mut ended = Vec::new();
                    let look = self.look(owner, &mut looks, free);
                    let claimed = meanwhile(&mut running, &mut ended, look).await;
                    for ended in &ended {
                        looks.ended(ended);
                    }
                    for job in claimed.jobs {
                        let tenant = job.scope().unwrap_or_default().to_owned();
                        looks.turns.held.insert(job.id, tenant);
                        running.push(self.process(job, attempt, lost.clone(), claimed.guard.clone()));
                    }
                }
                // It stops, and nothing runs.
                else => return Ok(()),
            }
        }
    }

    /// Waits until the tables can be used, and shows for the first time that the worker runs: what it
    /// claims afterwards is its own, and it notices when others took it for dead. Returns whether the
    /// worker goes on.
    async fn enter(&self, owner: i64) -> Result<bool, Error> {
        let mut failures = 0;
        while let Err(error) = self.try_enter(owner).await {
            if error.kind() == ErrorKind::OtherSchema {
                return Err(error);
            }
            failures += 1;
            if self.wait_for_database(failures, &error).await {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn try_enter(&self, owner: i64) -> Result<(), Error> {
        self.inbox.check_schema().await?;
        self.inbox.beat(owner, self.lease).await.map(drop)
    }

    /// Claims what is due for the free slots, and sets the time of the next look.
    async fn look(&self, owner: i64, looks: &mut Looks, free: usize) -> Claimed {
        let found = self.try_look(owner, looks, free).await;
        let claimed = match found {
            Ok(claimed) => claimed,
            Err(error) => {
                looks.failures += 1;
                // The claim may have been made, although nobody was told.
                looks.release_at = Instant::now();
                self.log_outage(&error);
                looks.at = Instant::now() + RECONNECT.after(looks.failures);
                return Claimed::default();
            }
        };
        looks.failures = 0;
        looks.at = if claimed.jobs.is_empty() || !looks.turns.any() {
            looks.survey_at
        } else {
            Instant::now()
        };
        claimed
    }

    async fn try_look(&self, owner: i64, looks: &mut Looks, free: usize) -> Result<Claimed, Error> {
        let signals = &self.inbox.signals;
        let now = Instant::now();
        if now >= looks.release_at {
            let held = looks.turns.held.keys();
            self.inbox.release(owner, held).await?;
            looks.release_at = now + self.lease / 3;
        }

        let news = std::mem::take(&mut *signals.news());
        if now >= looks.survey_at || news.all {
            let survey = self.inbox.survey().await?;
            looks.wants_alone = survey.alone;
            looks.turns.restart(survey);
            looks.surveyed = now;
            looks.survey_at = now + self.poll_interval;
        }

        looks.turns.add(news);
        if looks.wants_alone && looks.turns.held.is_empty() {
            return self.claim_alone(owner, looks).await;
        }

        let turns = looks.turns.next(free);
        if turns.is_empty() || looks.wants_alone {
            return Ok(Claimed::default());
        }

        let guard = Arc::new(signals.alone.clone().read_owned().await);
        let claim = self.inbox.claim(owner, self.handler_timeout, &turns, free);
        let jobs = claim.await?;
        looks.turns.claimed(&turns, &jobs, free);
        Ok(Claimed {
            jobs,
            guard: Some(guard),
        })
    }

    /// Claims a delivery whose worker has vanished, when no other handler runs in this process.
    async fn claim_alone(&self, owner: i64, looks: &mut Looks) -> Result<Claimed, Error> {
        let signals = &self.inbox.signals;
        let guard = tokio::select! {
            guard = signals.alone.clone().write_owned() => guard,
            () = signals.reached(Phase::Stopping) => return Ok(Claimed::default()),
        };
        let job = self.inbox.claim_alone(owner, self.handler_timeout).await?;
        looks.wants_alone = job.is_some();
        looks.survey_at = Instant::now() + PAUSE;
        Ok(Claimed {
            jobs: job.into_iter().collect(),
            guard: Some(Arc::new(guard)),
        })
    }

    fn log_outage(&self, error: &Error) {
        let cause = text_of(error);
        if error.needs_somebody() {
            tracing::error!(cause, "the webhook inbox cannot use its database");
        } else {
            tracing::warn!(cause, "the webhook inbox cannot use its database");
        }
    }

    /// Logs the error, and waits. Returns whether the worker is to stop.
    async fn wait_for_database(&self, failures: u32, error: &Error) -> bool {
        self.log_outage(error);
        tokio::select! {
            () = self.inbox.signals.reached(Phase::Stopping) => true,
            () = sleep(RECONNECT.after(failures)) => false,
        }
    }

    /// Runs the handler, and records a failure. `guard` is held meanwhile.
    async fn process<F>(
        &self,
        job: Job,
        attempt: &F,
        lost: watch::Receiver<()>,
        guard: Option<Guard>,
    ) -> Ended
    where
        F: AsyncFn(&Worker<D>, Job) -> Result<(), Failure>,
    {
        let tenant = job.scope().unwrap_or_default().to_owned();
        let event = job.delivery().event().as_str();
        let span = tracing::info_span!(
            "webhook_delivery",
            id = job.id,
            attempt = job.attempt,
            tenant,
            event
        );
        let started = Instant::now();
        let retry_in = self.handle(&job, attempt, lost).instrument(span).await;
        let is_handled = retry_in == Next::Handled;
        #[cfg(feature = "metrics")]
        crate::metrics::attempt(&tenant, is_handled, started.elapsed(), &job);
        #[cfg(not(feature = "metrics"))]
        let _ = (started, is_handled);
        drop(guard);
        Ended {
            id: job.id,
            next: retry_in,
        }
    }

    async fn handle<F>(&self, job: &Job, attempt: &F, mut lost: watch::Receiver<()>) -> Next
    where
        F: AsyncFn(&Worker<D>, Job) -> Result<(), Failure>,
    {
        if job.attempt > self.max_attempts {
            let error = "the process stopped during the last attempt".to_owned();
            return self.failed(job, error, None, true).await;
        }

        lost.mark_unchanged();
        let limit = self.handler_timeout;
        let handled = AssertUnwindSafe(attempt(self, job.clone())).catch_unwind();
        let ended = tokio::select! {
            biased;
            () = sleep(limit) => {
                let text = format!("the handler exceeded its time limit of {limit:?}");
                Ok(Err(Failure::Handler(text.into())))
            }
            // If it has blocked its thread, it must not commit now.
            () = self.inbox.signals.reached(Phase::Stopped) => return Next::Other,
            Ok(()) = lost.changed() => Ok(Err(Failure::ClaimLost)),
            ended = handled => ended,
        };
        let failure = match ended {
            Ok(Ok(())) => {
                tracing::debug!("a webhook delivery was handled");
                return Next::Handled;
            }
            Ok(Err(Failure::ClaimLost)) => {
                tracing::warn!("{}", Failure::ClaimLost);
                return Next::Other;
            }
            Ok(Err(failure)) => failure,
            Err(panic) => {
                Failure::Handler(format!("the handler panicked: {}", panic_text(&*panic)).into())
            }
        };
        let text = text_of(&failure);
        if let Failure::Database(error) = &failure
            && error.is_outage()
        {
            self.log_outage(error);
            let soon = RECONNECT.after(1);
            return self.failed(job, text, Some(soon), false).await;
        }

        let said = match &failure {
            Failure::Handler(error) => error.downcast_ref::<Failed>(),
            _ => None,
        };
        let usual = Some(self.backoff.after(job.attempt));
        let delay = said.map_or(usual, Failed::delay);
        let retry_in = delay.filter(|_| job.attempt < self.max_attempts);
        self.failed(job, text, retry_in, true).await
    }

    /// Records a failed attempt as soon as the database is available. What it refuses to store is
    /// given back with the next look.
    async fn failed(
        &self,
        job: &Job,
        error: String,
        retry_in: Option<Duration>,
        counts: bool,
    ) -> Next {
        for failures in 1.. {
            match self.inbox.fail(job, &error, retry_in, counts).await {
                // It was committed although the commit reported an error, or was claimed again.
                Ok(false) => tracing::debug!("a failed attempt had ended before"),
                Ok(true) if retry_in.is_none() => {
                    tracing::error!("a webhook delivery is a dead letter");
                }
                Ok(true) => {
                    tracing::warn!(counts, ?retry_in, "handling a webhook delivery failed");
                }
                Err(error) if !error.is_outage() => self.log_outage(&error),
                Err(error) if self.wait_for_database(failures, &error).await => {}
                Err(_) => continue,
            }
            break;
        }
        retry_in.map_or(Next::Other, Next::RetryIn)
    }
}

/// When the worker looks for deliveries, and what it knows of them.
struct Looks {
    at: Instant,
    turns: Turns,
    /// Whether a delivery is due that is tried alone.
    wants_alone: bool,
    surveyed: Instant,
    survey_at: Instant,
    /// When what is held without being handled is given back: a claim whose answer was lost, or a
    /// failure that could not be stored.
    release_at: Instant,
    failures: u32,
}

impl Looks {
    fn new<D>(worker: &Worker<D>) -> Self {
        let now = Instant::now();
        Self {
            at: now,
            turns: Turns::new(worker.tenant_limit),
            wants_alone: false,
            surveyed: now,
            survey_at: now,
            release_at: now + worker.lease / 3,
            failures: 0,
        }
    }

    fn ended(&mut self, ended: &Ended) {
        self.turns.held.remove(&ended.id);
        let now = Instant::now();
        if let Next::RetryIn(delay) = ended.next
            && let Some(due) = now.checked_add(delay)
        {
            self.survey_at = self.survey_at.min(due.max(self.surveyed + PAUSE));
            self.at = self.at.min(self.survey_at);
        }

        if self.failures == 0 && (self.wants_alone || self.turns.any()) {
            self.at = now;
        }
    }
}

/// Held while a handler runs.
type Guard = Arc<dyn Any + Send + Sync>;

#[derive(Default)]
struct Claimed {
    jobs: Vec<Job>,
    guard: Option<Guard>,
}

struct Ended {
    id: i64,
    next: Next,
}

#[derive(Clone, Copy, PartialEq)]
enum Next {
    Handled,
    RetryIn(Duration),
    /// Dead, or claimed by another worker.
    Other,
}

/// Waits for `work`, while handlers go on.
async fn meanwhile<T>(
    running: &mut FuturesUnordered<impl Future<Output = Ended>>,
    ended: &mut Vec<Ended>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            Some(handler) = running.next() => ended.push(handler),
        }
    }
}

/// Shows that a worker runs, and gives back what others held that have vanished. Never ends.
async fn keep_alive<D: Database>(
    inbox: Inbox<D>,
    owner: i64,
    lease: Duration,
    taken_for_dead: watch::Sender<()>,
) {
    let mut watch = Watch::default();
    let mut clock = Clock::default();
    #[cfg(feature = "metrics")]
    let mut known = std::collections::BTreeSet::new();
    loop {
        let beat = async {
            let (number, now) = inbox.beat(owner, lease).await?;
            // Its row was removed since the last beat: `enter` made it.
            if number == 1 {
                tracing::warn!("other workers took this worker of the webhook inbox for dead");
                taken_for_dead.send_replace(());
            }
            if clock.was_set_back(now) {
                inbox
                    .execute(include_str!("sql/bound.sql"), params![])
                    .await?;
            }
            let beats = include_str!("sql/beats.sql");
            let beats = inbox.query(beats, params![lease]).await?;
            for vanished in watch.vanished(beats) {
                let abandon = include_str!("sql/abandon.sql");
                let count = inbox.execute(abandon, params![vanished]).await?;
                inbox.remove_worker(vanished).await?;
                if count > 0 {
                    tracing::warn!(
                        count,
                        "a worker vanished; its webhook deliveries are tried again"
                    );
                    inbox.wake();
                }
            }
            Ok::<_, Error>(())
        };
        if let Err(error) = beat.await {
            let cause = text_of(&error);
            tracing::warn!(
                cause,
                "a worker of the webhook inbox cannot show that it runs"
            );
            watch.restart();
        }
        #[cfg(feature = "metrics")]
        crate::metrics::backlog(&inbox, &mut known).await;
        sleep(lease / 3).await;
    }
}

/// Deletes what was handled long ago. Never ends.
async fn purge_handled<D: Database>(inbox: Inbox<D>, retention: Duration) {
    loop {
        match inbox.purge(retention).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => {
                let cause = text_of(&error);
                tracing::warn!(cause, "handled webhook deliveries are not deleted");
            }
        }
        sleep(PURGE_INTERVAL).await;
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}
