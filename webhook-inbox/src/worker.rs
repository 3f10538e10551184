//! The worker: runs a handler for each delivery.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::try_join_all;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use crate::error::text_of;
use crate::inbox::Phase;
use crate::{BoxError, Database, Error, ErrorKind, Inbox, Job};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How often handled deliveries are deleted.
const PURGE_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// The time between two attempts to use a database that is not available.
const RECONNECT: Backoff = Backoff {
    first: Duration::from_millis(200),
    max: Duration::from_secs(10),
};

/// Runs a handler for each delivery of an inbox.
///
/// Get one from [`Inbox::worker`]. Any number of workers in any number of processes share an
/// inbox. There is **no order**: deliveries are handled at the same time, and a failed one
/// again later.
///
/// A worker claims a delivery for the duration of its [`lease`](Self::lease). If the process
/// crashes, another worker claims the delivery when the lease has ended. Each claim has a higher
/// token, and only the holder of the highest can commit, so a worker that was paused cannot
/// complete what another one took over.
///
/// An attempt that fails, or exceeds its [time limit](Self::handler_timeout), is repeated with
/// exponential back-off and jitter. After the last one the delivery is a
/// [dead letter](Inbox::dead_letters), also if its handler crashes the process. An attempt does
/// not count if the database is lost before the handler starts or while its transaction is
/// committed.
///
/// `run` ends when [`Inbox::stop`] is called, or with an error that is also logged: the tables
/// are missing or of another version at the start, or the database has refused for a whole
/// lease what the worker needs. While the database is unavailable, the worker waits for it.
#[derive(Debug)]
#[must_use = "a worker does nothing until it runs"]
pub struct Worker<D> {
    pub(crate) inbox: Inbox<D>,
    concurrency: usize,
    lease: Duration,
    pub(crate) handler_timeout: Duration,
    poll_interval: Duration,
    max_attempts: u32,
    backoff: Backoff,
    retention: Duration,
}

/// A handler with its transaction.
///
/// It is a trait, because the compiler does not find out that the future of a worker is `Send`
/// if it contains an asynchronous closure that borrows.
pub(crate) trait Handle {
    /// If it returns `Ok`, the handler's writes and the end of the delivery were committed
    /// together. Dropping the future rolls back.
    async fn handle(&self, job: &Job) -> Result<(), Failure>;
}

/// The `prepare` of a handler without one.
pub(crate) async fn nothing(_: Job) -> Result<(), BoxError> {
    Ok(())
}

/// Why nothing was committed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Handler(#[from] BoxError),
    #[error(transparent)]
    Database(#[from] Error),
    #[error("another worker has claimed a webhook delivery")]
    LeaseLost,
}

impl<D: Database> Worker<D> {
    pub(crate) fn new(inbox: Inbox<D>) -> Self {
        Self {
            inbox,
            concurrency: 8,
            lease: Duration::from_secs(30),
            handler_timeout: Duration::from_secs(5 * 60),
            poll_interval: Duration::from_millis(500),
            max_attempts: 15,
            backoff: Backoff {
                first: Duration::from_secs(5),
                max: Duration::from_secs(3600),
            },
            retention: 30 * DAY,
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

    /// Sets after which time a delivery is due again whose worker has vanished. Default: 30
    /// seconds.
    ///
    /// A handler may take longer: `prepare` renews the lease three times in this duration, and
    /// during the transaction no other worker can claim the delivery. At least 3 ms and at most
    /// one day.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.clamp(Duration::from_millis(3), DAY);
        self
    }

    /// Sets the time limit of an attempt. Default: 5 minutes.
    ///
    /// After it, the handler is dropped and its transaction rolled back, and the attempt has
    /// failed. A handler that blocks its thread is not dropped before it returns; it can not
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
    /// Then it is deleted and not remembered: the retention must be longer than the period over
    /// which the sender retries, and not shorter than the receiver's `max_age` (24 hours by default),
    /// or a replay is handled again. Dead letters are kept.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Handles deliveries until [`Inbox::stop`].
    pub(crate) async fn work(&self, handler: &impl Handle) -> Result<(), Error> {
        let _running = Running::start(&self.inbox.signals.running);
        let ended = tokio::select! {
            biased;
            () = self.inbox.signals.reached(Phase::Stopped) => Ok(()),
            ended = self.serve(handler) => ended,
            never = self.purge_handled() => never,
        };
        if let Err(error) = &ended {
            let error = text_of(error);
            tracing::error!(error, "the worker of the webhook inbox has ended");
        }
        ended
    }

    async fn serve(&self, handler: &impl Handle) -> Result<(), Error> {
        let mut failures = 0;
        while let Err(error) = self.inbox.check_schema().await {
            if error.kind() != ErrorKind::Unavailable {
                return Err(error);
            }
            failures += 1;
            if self.wait_for_database(failures, &error).await {
                return Ok(());
            }
        }
        // One at a time looks for work, so that an idle worker makes one query per interval.
        let looking = Mutex::new(());
        let most = self.inbox.database.connections().saturating_sub(1);
        let slots = (0..self.concurrency.min(most).max(1)).map(|_| async {
            while let Some(job) = self.next(&looking).await? {
                self.process(&job, handler).await;
            }
            Ok(())
        });
        try_join_all(slots).await.map(drop)
    }

    /// Waits for a delivery and claims it. `None` if the worker is to stop.
    async fn next(&self, looking: &Mutex<()>) -> Result<Option<Job>, Error> {
        let stopping = || self.inbox.signals.reached(Phase::Stopping);
        let _looking = tokio::select! {
            biased;
            () = stopping() => return Ok(None),
            guard = looking.lock() => guard,
        };
        let mut failures = 0;
        let mut refused_since = None;
        loop {
            let wait = match self.look().await {
                Ok(Ok(job)) => return Ok(Some(job)),
                Ok(Err(wait)) => {
                    (failures, refused_since) = (0, None);
                    wait
                }
                Err(error) => {
                    failures += 1;
                    if error.kind() == ErrorKind::Unavailable {
                        refused_since = None;
                    } else if refused_since.get_or_insert_with(Instant::now).elapsed() > self.lease
                    {
                        return Err(error);
                    }
                    if self.wait_for_database(failures, &error).await {
                        return Ok(None);
                    }
                    continue;
                }
            };
            tokio::select! {
                biased;
                () = stopping() => return Ok(None),
                () = self.inbox.signals.wake.notified() => {}
                () = sleep(wait) => {}
            }
        }
    }

    /// Claims a delivery, or returns how long to wait.
    async fn look(&self) -> Result<Result<Job, Duration>, Error> {
        match self.inbox.next_due().await? {
            Some(Duration::ZERO) => {
                // If there is none, a handler's transaction has locked what is due.
                Ok(self
                    .inbox
                    .claim(self.lease)
                    .await?
                    .ok_or(self.poll_interval))
            }
            next => Ok(Err(next
                .unwrap_or(self.poll_interval)
                .min(self.poll_interval))),
        }
    }

    /// Logs the error, and waits. Returns whether the worker is to stop.
    async fn wait_for_database(&self, failures: u32, error: &Error) -> bool {
        let error = text_of(error);
        tracing::error!(error, "the webhook inbox cannot use its database");
        tokio::select! {
            () = self.inbox.signals.reached(Phase::Stopping) => true,
            () = sleep(RECONNECT.after(failures)) => false,
        }
    }

    /// Prepares what a handler commits, and renews the lease meanwhile.
    pub(crate) async fn prepare<T>(
        &self,
        job: &Job,
        prepare: impl Future<Output = Result<T, BoxError>>,
    ) -> Result<T, Failure> {
        let mut prepare = pin!(prepare);
        let lost = async {
            loop {
                sleep(self.lease / 3).await;
                match self.inbox.renew(job, self.lease).await {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(error) => {
                        let (id, error) = (job.id(), text_of(&error));
                        tracing::warn!(id, error, "the lease of a webhook delivery is not renewed");
                    }
                }
            }
        };
        tokio::select! {
            biased;
            prepared = &mut prepare => Ok(prepared?),
            () = lost => Err(Failure::LeaseLost),
        }
    }

    async fn process(&self, job: &Job, handler: &impl Handle) {
        let (id, attempt) = (job.id(), job.attempt);
        let retry_in = (attempt < self.max_attempts).then(|| self.backoff.after(attempt));
        if attempt > self.max_attempts {
            let error = "the process stopped during the last attempt".to_owned();
            return self.failed(job, error, None, true).await;
        }
        let limit = self.handler_timeout;
        let ended = tokio::select! {
            biased;
            () = sleep(limit) => {
                let text = format!("the handler exceeded its time limit of {limit:?}");
                Ok(Err(Failure::Handler(text.into())))
            }
            ended = AssertUnwindSafe(handler.handle(job)).catch_unwind() => ended,
        };
        let failure = match ended {
            Ok(Ok(())) => return tracing::debug!(id, attempt, "a webhook delivery was handled"),
            Ok(Err(Failure::LeaseLost)) => {
                return tracing::warn!(id, attempt, "{}", Failure::LeaseLost);
            }
            Ok(Err(failure)) => failure,
            Err(panic) => {
                Failure::Handler(format!("the handler panicked: {}", panic_text(&*panic)).into())
            }
        };
        let is_outage = |error: &Error| error.kind() == ErrorKind::Unavailable;
        let counts = !matches!(&failure, Failure::Database(error) if is_outage(error));
        let retry_in = if counts {
            retry_in
        } else {
            Some(RECONNECT.after(1))
        };
        self.failed(job, text_of(&failure), retry_in, counts).await;
    }

    /// Records a failed attempt as soon as the database is available. Until then, or if the worker
    /// stops, the lease ends.
    async fn failed(&self, job: &Job, error: String, retry_in: Option<Duration>, counts: bool) {
        let (id, attempt) = (job.id(), job.attempt);
        for failures in 1.. {
            match self.inbox.fail(job, &error, retry_in, counts).await {
                // It was committed although the commit reported an error, or its lease has ended.
                Ok(false) => tracing::debug!(id, attempt, "a failed attempt had ended before"),
                Ok(true) if retry_in.is_none() => {
                    tracing::error!(id, attempt, "a webhook delivery is a dead letter");
                }
                Ok(true) => {
                    tracing::warn!(
                        id,
                        attempt,
                        counts,
                        ?retry_in,
                        "handling a webhook delivery failed"
                    );
                }
                Err(error) if self.wait_for_database(failures, &error).await => {}
                Err(_) => continue,
            }
            return;
        }
    }

    /// Deletes what was handled long ago. Never ends.
    async fn purge_handled(&self) -> Result<(), Error> {
        loop {
            match self.inbox.purge(self.retention).await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => {
                    let error = text_of(&error);
                    tracing::warn!(
                        error,
                        "handled deliveries of the webhook inbox are not deleted"
                    );
                }
            }
            sleep(PURGE_INTERVAL).await;
        }
    }
}

/// Counts a worker while it runs.
struct Running<'a>(&'a tokio::sync::watch::Sender<usize>);

impl<'a> Running<'a> {
    fn start(count: &'a tokio::sync::watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

#[derive(Clone, Copy, Debug)]
struct Backoff {
    first: Duration,
    max: Duration,
}

impl Backoff {
    /// The delay after a failed attempt, which are counted from 1: it doubles with each
    /// attempt up to the maximum, and is between half of that and all of it.
    fn after(self, attempt: u32) -> Duration {
        let factor = 2_u32.saturating_pow(attempt.saturating_sub(1));
        let full = self.first.saturating_mul(factor).min(self.max);
        full.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_maximum_with_jitter() {
        let backoff = Backoff {
            first: Duration::from_secs(5),
            max: Duration::from_secs(60),
        };
        for (attempt, full) in [(1, 5), (2, 10), (4, 40), (5, 60), (40, 60), (u32::MAX, 60)] {
            let full = Duration::from_secs(full);
            let delays: Vec<_> = (0..100).map(|_| backoff.after(attempt)).collect();
            assert!(
                delays
                    .iter()
                    .all(|delay| *delay >= full / 2 && *delay <= full)
            );
            assert!(delays.iter().any(|delay| *delay != delays[0]), "no jitter");
        }
    }
}
