//! Runs a handler in a task of its own, and keeps its claim until it has ended.

use std::any::Any;
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use tracing::Instrument as _;

use super::store::{StoreFuture, StoreTimeout};
use super::{Claim, Dedup, DedupError, Outcome, Ticket};
use crate::log_text::LogText;
use crate::{BoxError, DeliveryKey};

/// The tasks of a `Dedup` and its clones.
pub(super) struct Tasks {
    /// Number of handlers that run.
    running: watch::Sender<usize>,
    /// Limits the tasks that repeat a failed operation of the store.
    repeats: Arc<Semaphore>,
}

/// Maximum number of tasks that repeat a failed operation of the store. During an
/// outage, the claims beyond it end with their lease.
const MAX_REPEATS: usize = 256;

impl Tasks {
    pub(super) fn new() -> Self {
        Self { running: watch::Sender::new(0), repeats: Arc::new(Semaphore::new(MAX_REPEATS)) }
    }

    pub(super) async fn idle(&self) {
        // Fails only if the sender is dropped, and `self` owns it.
        let _ = self.running.subscribe().wait_for(|running| *running == 0).await;
    }
}

/// Counts as a running handler until it is dropped.
struct Running(Arc<Tasks>);

impl Running {
    fn new(tasks: &Arc<Tasks>) -> Self {
        tasks.running.send_modify(|running| *running += 1);
        Self(tasks.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.send_modify(|running| *running -= 1);
    }
}

type Handled<T, E> = Result<Outcome<T>, DedupError<E>>;
type Panic = Box<dyn Any + Send>;

/// How a claim ends.
#[derive(Clone, Copy)]
enum End {
    Complete,
    Release,
}

impl Dedup {
    /// Claims the delivery and runs the handler, both in a task that continues if the
    /// returned future is dropped.
    pub(super) async fn run_detached<F, Fut, T, E>(
        &self,
        key: DeliveryKey,
        handler: F,
    ) -> Handled<T, E>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let dedup = self.clone();
        let running = Running::new(&self.tasks);
        let task = async move {
            let ended = dedup.claim_and_handle(key, handler).await;
            drop(running);
            let failed = !matches!(ended, Ok(Ok(_)));
            if sender.send(ended).is_err() {
                if failed {
                    tracing::error!(
                        "handling a webhook delivery failed after its sender had disconnected"
                    );
                } else {
                    tracing::debug!("a webhook delivery was handled after its sender disconnected");
                }
            }
        };
        tokio::spawn(task.in_current_span());
        match receiver.await {
            Ok(Ok(handled)) => handled,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // The runtime shuts down, and this task with it.
            Err(_) => pending().await,
        }
    }

    async fn claim_and_handle<F, Fut, T, E>(
        &self,
        key: DeliveryKey,
        handler: F,
    ) -> Result<Handled<T, E>, Panic>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let ticket = Ticket::new(key);
        match self.within_timeout(self.store.claim(&ticket, self.lease)).await {
            Ok(Claim::New) => {}
            Ok(Claim::InFlight { retry_after }) => {
                return Ok(Ok(Outcome::InFlight { retry_after }));
            }
            Ok(Claim::Done) => return Ok(Ok(Outcome::Duplicate)),
            Err(error) => {
                // The store may still execute the claim.
                self.repeat(End::Release, ticket);
                return Ok(Err(DedupError::Store(error)));
            }
        }
        // A task of its own, so that a panic of the handler releases the claim.
        let mut task = tokio::spawn(async move { handler().await }.in_current_span());
        let handled = tokio::select! {
            biased;
            handled = &mut task => handled,
            never = self.keep_renewed(&ticket) => match never {},
        };
        match handled {
            Ok(Ok(value)) => {
                // The delivery is handled. A store failure must not make the sender repeat it.
                self.end(End::Complete, ticket).await;
                Ok(Ok(Outcome::Handled(value)))
            }
            Ok(Err(error)) => {
                self.end(End::Release, ticket).await;
                Ok(Err(DedupError::Handler(error)))
            }
            Err(error) => match error.try_into_panic() {
                Ok(panic) => {
                    self.end(End::Release, ticket).await;
                    Err(panic)
                }
                // The runtime shuts down.
                Err(_) => pending().await,
            },
        }
    }

    /// Renews the lease three times in its duration.
    async fn keep_renewed(&self, ticket: &Ticket) -> Infallible {
        let interval = (self.lease / 3).max(Duration::from_millis(1));
        loop {
            sleep(interval).await;
            match self.within_timeout(self.store.renew(ticket, self.lease)).await {
                Ok(true) => {}
                Ok(false) => {
                    tracing::warn!(
                        "the lease of a webhook delivery ended while its handler ran, \
                         and another handler has claimed it"
                    );
                    return pending().await;
                }
                Err(error) => tracing::warn!(
                    error = ?LogText(&error),
                    "failed to renew the lease of a webhook delivery"
                ),
            }
        }
    }

    async fn end(&self, end: End, ticket: Ticket) {
        match self.try_end(end, &ticket).await {
            Ok(true) => {}
            Ok(false) => tracing::warn!(
                "a webhook delivery was handled, but another handler has claimed it since"
            ),
            Err(error) => {
                match end {
                    End::Complete => tracing::error!(
                        error = ?LogText(&error),
                        "failed to mark a handled webhook delivery as done; retrying"
                    ),
                    End::Release => tracing::error!(
                        error = ?LogText(&error),
                        "failed to release a webhook delivery; retrying until its lease ends"
                    ),
                }
                self.repeat(end, ticket);
            }
        }
    }

    async fn try_end(&self, end: End, ticket: &Ticket) -> Result<bool, BoxError> {
        match end {
            End::Complete => self.within_timeout(self.store.complete(ticket, self.retention)).await,
            End::Release => self.within_timeout(self.store.release(ticket)).await.map(|()| true),
        }
    }

    /// Ends a claim in the background, until the store has done it or the lease has ended.
    fn repeat(&self, end: End, ticket: Ticket) {
        const MAX_DELAY: Duration = Duration::from_secs(5);
        let Ok(permit) = self.tasks.repeats.clone().try_acquire_owned() else { return };
        let dedup = self.clone();
        let task = async move {
            let started = Instant::now();
            let mut delay = Duration::from_millis(50);
            while dedup.try_end(end, &ticket).await.is_err() && started.elapsed() < dedup.lease {
                sleep(delay).await;
                delay = (2 * delay).min(MAX_DELAY);
            }
            drop(permit);
        };
        tokio::spawn(task.in_current_span());
    }

    pub(super) async fn within_timeout<T>(
        &self,
        operation: StoreFuture<'_, T>,
    ) -> Result<T, BoxError> {
        timeout(self.store_timeout, operation)
            .await
            .unwrap_or_else(|_| Err(StoreTimeout(self.store_timeout).into()))
    }
}
