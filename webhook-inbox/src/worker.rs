//! The worker: runs a handler for each delivery.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::try_join_all;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval_at, sleep, timeout};

use crate::backoff::Backoff;
use crate::error::text_of;
use crate::job::Ticket;
use crate::{BoxError, Database, Error, ErrorKind, Inbox, Job};

/// The time between two attempts to reach a database that is not available.
const RECONNECT: Backoff =
    Backoff { first: Duration::from_millis(200), max: Duration::from_secs(10) };

/// Runs a handler for each delivery of an inbox.
///
/// Get one from [`Inbox::worker`]. Any number of workers in any number of processes share an
/// inbox. There is **no order**: deliveries are handled at the same time, and a failed one
/// again later.
///
/// A worker claims a delivery until its [`lease`](Self::lease) ends, and renews the lease
/// while the handler runs. If the process crashes, another worker claims the delivery when
/// the lease has ended. Each claim has a higher token, and only the holder of the highest can
/// commit, so a worker that was paused cannot complete what another one took over.
///
/// An attempt that fails is repeated with exponential back-off and jitter. After the last one
/// the delivery is a [dead letter](Inbox::dead_letters). An attempt counts when its handler
/// starts: a delivery that crashes the process becomes a dead letter, too. It does not count if
/// the database is lost before the handler starts or while its transaction is committed.
#[derive(Debug)]
#[must_use = "a worker does nothing until it runs"]
pub struct Worker<D> {
    inbox: Inbox<D>,
    concurrency: usize,
    pub(crate) lease: Duration,
    poll_interval: Duration,
    max_attempts: u32,
    backoff: Backoff,
}

/// A handler with its transaction.
///
/// It is a trait, because the compiler does not find out that the future of a worker is `Send`
/// if it contains an asynchronous closure that borrows.
pub(crate) trait Handle {
    async fn handle(&self, job: &Job) -> Result<Ended, BoxError>;
}

/// How a handler has ended, if it did not fail.
pub(crate) enum Ended {
    /// Its writes and the end of the delivery were committed together.
    Committed,
    /// Another worker has claimed the delivery, so nothing was committed.
    LeaseLost,
    /// The database was not available before the handler or for the commit. The attempt does
    /// not count.
    Unavailable(Error),
}

impl<D: Database> Worker<D> {
    pub(crate) fn new(inbox: Inbox<D>) -> Self {
        Self {
            inbox,
            concurrency: 8,
            lease: Duration::from_secs(30),
            poll_interval: Duration::from_secs(1),
            max_attempts: 15,
            backoff: Backoff { first: Duration::from_secs(5), max: Duration::from_secs(3600) },
        }
    }

    /// Sets how many deliveries are handled at the same time. Default: 8.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.max(1);
        self
    }

    /// Sets after which time without a renewal a delivery counts as abandoned. Default: 30
    /// seconds.
    ///
    /// The lease is renewed three times in this duration, so a handler may take longer. At least
    /// 3 ms and at most one day.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.clamp(Duration::from_millis(3), Duration::from_secs(24 * 60 * 60));
        self
    }

    /// Sets how often the worker looks for deliveries of which it was not notified. Default:
    /// 1 second.
    ///
    /// A delivery accepted in this process, or through PostgreSQL in any process, is handled
    /// at once. With SQLite, deliveries of other processes wait for this interval.
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
        self.backoff = Backoff { first, max: max.min(Duration::from_secs(30 * 24 * 60 * 60)) };
        self
    }

    pub(crate) fn database(&self) -> D {
        self.inbox.database.clone()
    }

    /// Handles deliveries until [`Inbox::stop`].
    pub(crate) async fn work(&self, handler: &impl Handle) -> Result<(), Error> {
        // One at a time looks for work, so that an idle worker makes one query per interval.
        let looking = Mutex::new(());
        let has_looked = AtomicBool::new(false);
        let slots = (0..self.concurrency).map(|_| async {
            while let Some(job) = self.next(&looking, &has_looked).await? {
                self.process(&job, handler).await;
            }
            Ok(())
        });
        try_join_all(slots).await.map(drop)
    }

    /// Waits for a delivery and claims it. `None` if the worker is to stop. A missing table is an
    /// error at the start only: later, it may come back, for example after a restore.
    async fn next(
        &self,
        looking: &Mutex<()>,
        has_looked: &AtomicBool,
    ) -> Result<Option<Job>, Error> {
        let mut stopped = self.inbox.signals.stopped.subscribe();
        let mut failures = 0;
        let _looking = tokio::select! {
            guard = looking.lock() => guard,
            _ = stopped.wait_for(|stopped| *stopped) => return Ok(None),
        };
        loop {
            if *stopped.borrow() {
                return Ok(None);
            }
            let looked = self.look().await;
            if looked.is_ok() {
                has_looked.store(true, Ordering::Relaxed);
            }
            let wait = match looked {
                Ok(Ok(job)) => return Ok(Some(job)),
                Ok(Err(wait)) => wait,
                Err(error)
                    if error.kind() == ErrorKind::NotMigrated
                        && !has_looked.load(Ordering::Relaxed) =>
                {
                    return Err(error);
                }
                Err(error) => {
                    let error = text_of(&error);
                    tracing::error!(error, "the webhook inbox cannot claim deliveries");
                    failures += 1;
                    RECONNECT.after(failures)
                }
            };
            tokio::select! {
                () = self.inbox.signals.wake.notified() => {}
                () = sleep(wait) => {}
                _ = stopped.wait_for(|stopped| *stopped) => {}
            }
        }
    }

    /// Claims a delivery, or returns how long to wait.
    async fn look(&self) -> Result<Result<Job, Duration>, Error> {
        if let Some(job) = self.inbox.database.claim(self.lease).await? {
            return Ok(Ok(job));
        }
        let next = self.inbox.database.next_due().await?;
        Ok(Err(next.map_or(self.poll_interval, |next| next.min(self.poll_interval))))
    }

    async fn process(&self, job: &Job, handler: &impl Handle) {
        let id = job.id();
        let attempt = job.attempt;
        if attempt > self.max_attempts {
            let error = "the process stopped during the last attempt".to_owned();
            return self.fail(job, error, None).await;
        }
        let mut renewal = Renewal::start(self.inbox.database.clone(), job.ticket, self.lease);
        let ended = tokio::select! {
            ended = AssertUnwindSafe(handler.handle(job)).catch_unwind() => ended,
            // Dropping the handler rolls back.
            _ = &mut renewal.0 => Ok(Ok(Ended::LeaseLost)),
        };
        drop(renewal);
        let error = match ended {
            Ok(Ok(Ended::Committed)) => {
                tracing::debug!(id, attempt, "a webhook delivery was handled");
                return;
            }
            Ok(Ok(Ended::LeaseLost)) => {
                tracing::warn!(
                    id,
                    attempt,
                    "the lease of a webhook delivery has ended while its handler ran, and another \
                     worker has claimed it"
                );
                return;
            }
            Ok(Ok(Ended::Unavailable(error))) => return self.give_back(job, &error).await,
            Ok(Err(error)) => text_of(&*error),
            Err(panic) => format!("the handler panicked: {}", panic_text(&*panic)),
        };
        let retry_in = (attempt < self.max_attempts).then(|| self.backoff.after(attempt));
        self.fail(job, error, retry_in).await;
    }

    /// Waits for the database, and makes the delivery due again.
    async fn give_back(&self, job: &Job, error: &Error) {
        let (id, attempt, error) = (job.id(), job.attempt, text_of(error));
        tracing::warn!(id, attempt, error, "an attempt does not count: the database failed");
        let mut stopped = self.inbox.signals.stopped.subscribe();
        for failures in 1.. {
            let is_stopped = tokio::select! {
                () = sleep(RECONNECT.after(failures)) => false,
                _ = stopped.wait_for(|stopped| *stopped) => true,
            };
            let released = self.inbox.database.release(job.ticket, attempt - 1).await;
            // If it is not released, the lease ends.
            if released.is_ok() || is_stopped {
                return self.inbox.wake();
            }
        }
    }

    async fn fail(&self, job: &Job, error: String, retry_in: Option<Duration>) {
        let (id, attempt) = (job.id(), job.attempt);
        let failed = self.inbox.database.fail(job.ticket, error, retry_in).await;
        match (failed, retry_in) {
            (Ok(true), Some(retry_in)) => {
                tracing::warn!(id, attempt, ?retry_in, "handling a webhook delivery failed");
            }
            (Ok(true), None) => {
                tracing::error!(id, attempt, "a webhook delivery is a dead letter");
            }
            // It was committed although the commit reported an error, or its lease has ended.
            (Ok(false), _) => tracing::debug!(id, attempt, "a failed attempt had ended before"),
            (Err(error), _) => tracing::warn!(
                id,
                attempt,
                kind = ?error.kind(),
                "a failed attempt cannot be recorded; it is repeated when its lease ends"
            ),
        }
    }
}

/// Renews a lease until it is dropped. Ends by itself only if the lease is lost.
struct Renewal(JoinHandle<()>);

impl Renewal {
    /// A task of its own: a handler that blocks its thread for a while keeps its lease.
    fn start(database: impl Database, ticket: Ticket, lease: Duration) -> Self {
        let period = lease / 3;
        Self(tokio::spawn(async move {
            let mut times = interval_at(Instant::now() + period, period);
            loop {
                times.tick().await;
                match timeout(lease, database.renew(ticket, lease)).await {
                    Ok(Ok(true)) => {}
                    Ok(Ok(false)) => return,
                    Ok(Err(_)) | Err(_) => tracing::warn!(
                        id = ticket.id,
                        "the lease of a webhook delivery cannot be renewed"
                    ),
                }
            }
        }))
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}
