//! Handles each delivery once, even if the sender repeats it.
//!
//! A sender repeats a delivery if it did not receive your response. To detect repeats, a
//! [`DedupStore`] keeps one of three states per delivery: new, in flight, or done.
//!
//! A receiver with only "seen" and "not seen" has a choice of two bugs. If it marks a delivery as
//! seen before handling it, the delivery is lost when the handler fails. If it does so afterwards,
//! two concurrent attempts both run the handler. [`Dedup`] therefore *claims* a delivery for the
//! duration of a lease, runs the handler, and then *completes* the claim, or *releases* it if the
//! handler failed.
//!
//! It needs a tokio runtime with a timer, which `#[tokio::main]` and actix-web provide.

#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "axum", feature = "actix"))]
mod responses;
mod store;

use std::any::Any;
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tracing::Instrument as _;

#[cfg(feature = "redis")]
pub use redis::RedisStore;
pub use store::{Claim, DedupStore, MemoryStore, StoreFuture, Ticket};

use crate::delivery::{Delivery, in_namespace};
use crate::log_text::{LogText, debug_fields, setters};
use crate::receiver::{BoxError, MAX_CLOCK_SKEW};

/// Runs a handler once per delivery.
///
/// The handler runs in a task of its own. If the sender disconnects before the response, for
/// example because it waits for 10 seconds only, as the email service does, the handler is not
/// canceled. It finishes, and the sender's next attempt gets a 200 response without running it
/// again.
///
/// Clones are cheap and share the store.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// # use webhook_verify::{Secret, Service, Signature, Verifier};
/// use webhook_verify::Delivery;
/// use webhook_verify::dedup::{Dedup, RunOnce};
///
/// async fn handle(delivery: Delivery) -> Result<(), std::io::Error> {
///     println!("handling {}", delivery.event());
///     Ok(())
/// }
///
/// # let secret = Secret::new("whsec_3f1c").unwrap();
/// # let body = r#"{"event":"email.sent","id":"7c0e"}"#;
/// # let header = Signature::sign(Service::Email, &secret, body).to_string();
/// # let delivery = Verifier::email(secret).verify(header, body).unwrap();
/// # let retried = delivery.clone();
/// let dedup = Dedup::in_memory(); // create once and share
///
/// let first = dedup.run_once(delivery, handle).await;
/// assert!(matches!(first, Ok(RunOnce::Handled(()))));
/// let retry = dedup.run_once(retried, handle).await;
/// assert!(matches!(retry, Ok(RunOnce::Duplicate)));
/// # });
/// ```
///
/// The result converts into a response of axum and actix-web, if the handler's own value and error
/// do.
///
/// - The [`lease`](Self::lease) (30 seconds by default) must end before the sender's last retry. A
///   handler may take longer: its lease is renewed while it runs.
/// - The [`retention`](Self::retention) (3 days by default) must be longer than the period over
///   which the sender retries.
#[derive(Clone)]
pub struct Dedup {
    store: Arc<dyn DedupStore>,
    namespace: Option<Arc<str>>,
    lease: Duration,
    retention: Duration,
    store_timeout: Duration,
    /// Number of handlers that run.
    running: Arc<watch::Sender<usize>>,
}

/// The result of [`Dedup::run_once`].
///
/// As an HTTP response: the handler's own response, 200 for a duplicate, and 503 with
/// `Retry-After` for a delivery in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOnce<T> {
    /// The delivery was new. Contains the handler's value.
    Handled(T),
    /// The delivery was handled before. The handler did not run.
    Duplicate,
    /// Another attempt is being handled. The sender should retry later.
    InFlight {
        /// Time until the lease of the other attempt ends, unless it is renewed.
        retry_after: Duration,
    },
}

/// The error of [`Dedup::run_once`]: the delivery was not handled.
///
/// As an HTTP response: the handler's own error response, or 503 with `Retry-After` if the store
/// failed.
#[derive(Debug, thiserror::Error)]
pub enum DedupError<E> {
    /// The handler failed. The delivery is released, so its retry is handled.
    #[error("the handler failed")]
    Handler(#[source] E),
    /// The store failed, or did not respond in time, before the handler ran.
    #[error("the de-duplication store failed")]
    Store(#[source] BoxError),
}

impl Dedup {
    /// Creates a `Dedup` with a lease of 30 seconds, a retention of 3 days and a store time-out of
    /// 2 seconds.
    pub fn new(store: Arc<dyn DedupStore>) -> Self {
        Self {
            store,
            namespace: None,
            lease: Duration::from_secs(30),
            retention: Duration::from_secs(3 * 24 * 60 * 60),
            store_timeout: Duration::from_secs(2),
            running: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Creates a `Dedup` with a new [`MemoryStore`].
    pub fn in_memory() -> Self {
        Self::new(Arc::new(MemoryStore::new()))
    }

    /// Returns a `Dedup` with the same store that keeps its deliveries apart from those of other
    /// namespaces, for two endpoints of one application that must both handle a delivery. The
    /// deliveries of different [tenants](Delivery::tenant) are always apart.
    #[must_use]
    pub fn namespace(&self, namespace: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: Some(namespace.into()),
            ..self.clone()
        }
    }

    /// Runs `handler` in a task of its own, unless the delivery was handled before or is being
    /// handled.
    ///
    /// `Ok` completes the delivery, whatever the value. Return `Err` if the sender should retry:
    /// an `Ok` that contains a 500 response loses the delivery, because its retry is then a
    /// duplicate.
    ///
    /// # Errors
    ///
    /// [`DedupError::Handler`] if the handler failed, [`DedupError::Store`] if the store failed
    /// before the handler ran. If the store fails after the handler ran, the failure is logged, the
    /// operation is repeated in the background, and the handler's result is returned.
    ///
    /// # Panics
    ///
    /// If the handler panics: the delivery is released and the panic is resumed. Also outside of a
    /// tokio runtime with a timer.
    pub async fn run_once<F, Fut, T, E>(
        &self,
        delivery: Delivery,
        handler: F,
    ) -> Result<RunOnce<T>, DedupError<E>>
    where
        F: FnOnce(Delivery) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let dedup = self.clone();
        let running = Running::new(&self.running);
        // Goes on if the returned future is dropped, which servers do if the sender disconnects.
        let task = async move {
            let ended = dedup.claim_and_handle(delivery, handler).await;
            drop(running);
            let failed = !matches!(ended, Ok(Ok(_)));
            if sender.send(ended).is_err() && failed {
                tracing::error!("handling a webhook delivery failed after its sender disconnected");
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

    /// Forgets a handled delivery, so that a repeated delivery is handled again, for example after
    /// a defect in the handler was fixed. Returns whether it was remembered. `key` is its
    /// [`Delivery::key`].
    ///
    /// # Errors
    ///
    /// The error of the store, or a time-out.
    pub async fn forget(&self, key: &str) -> Result<bool, BoxError> {
        let key = self.key(key);
        self.within_timeout(self.store.forget(&key)).await
    }

    /// Waits until no handler runs.
    ///
    /// Call it after your server has stopped, and before the process exits: a handler whose sender
    /// has disconnected is not part of the server's graceful shutdown. With actix-web, call it
    /// before the server stops, because its workers own the handlers: `pause` the server, then
    /// wait, then `stop` it.
    pub async fn idle(&self) {
        // Fails only if the sender is dropped, and `self` owns it.
        let _ = self
            .running
            .subscribe()
            .wait_for(|running| *running == 0)
            .await;
    }

    /// The key of a delivery in the store.
    fn key(&self, key: &str) -> String {
        match &self.namespace {
            Some(namespace) => in_namespace(namespace, key),
            None => key.to_owned(),
        }
    }

    async fn claim_and_handle<F, Fut, T, E>(
        &self,
        delivery: Delivery,
        handler: F,
    ) -> Result<Result<RunOnce<T>, DedupError<E>>, Box<dyn Any + Send>>
    where
        F: FnOnce(Delivery) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let ticket = Ticket::new(self.key(delivery.key()));
        let accepted_for = delivery
            .accepted_for
            .map(|age| age.saturating_add(MAX_CLOCK_SKEW));
        let retention = self.retention.max(accepted_for.unwrap_or_default());
        match self
            .within_timeout(self.store.claim(&ticket, self.lease))
            .await
        {
            Ok(Claim::New) => {}
            Ok(Claim::InFlight { retry_after }) => {
                return Ok(Ok(RunOnce::InFlight { retry_after }));
            }
            Ok(Claim::Done) => return Ok(Ok(RunOnce::Duplicate)),
            Err(error) => {
                // The store may still execute the claim.
                self.repeat(None, ticket);
                return Ok(Err(DedupError::Store(error)));
            }
        }

        // A task of its own, so that a panic of the handler releases the claim.
        let mut task = tokio::spawn(async move { handler(delivery).await }.in_current_span());
        let handled = tokio::select! {
            biased;
            handled = &mut task => handled,
            never = self.keep_renewed(&ticket) => match never {},
        };
        match handled {
            Ok(Ok(value)) => {
                // The delivery is handled. A store failure must not make the sender repeat it.
                self.end(Some(retention), ticket).await;
                Ok(Ok(RunOnce::Handled(value)))
            }
            Ok(Err(error)) => {
                self.end(None, ticket).await;
                Ok(Err(DedupError::Handler(error)))
            }
            Err(error) => match error.try_into_panic() {
                Ok(panic) => {
                    self.end(None, ticket).await;
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
            match self
                .within_timeout(self.store.renew(ticket, self.lease))
                .await
            {
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

    /// Ends a claim: the delivery is done, and remembered for this long. With `None` it is released.
    async fn end(&self, retention: Option<Duration>, ticket: Ticket) {
        match self.try_end(retention, &ticket).await {
            Ok(true) => {}
            Ok(false) => tracing::warn!(
                "a webhook delivery was handled, but another handler has claimed it since"
            ),
            Err(error) => {
                tracing::error!(
                    error = ?LogText(&error),
                    done = retention.is_some(),
                    "failed to end the claim of a webhook delivery; retrying until its lease ends"
                );
                self.repeat(retention, ticket);
            }
        }
    }

    async fn try_end(
        &self,
        retention: Option<Duration>,
        ticket: &Ticket,
    ) -> Result<bool, BoxError> {
        let Some(retention) = retention else {
            let released = self.within_timeout(self.store.release(ticket)).await;
            return released.map(|()| true);
        };
        let completed = self.store.complete(ticket, retention);
        self.within_timeout(completed).await
    }

    /// Ends a claim in the background, until the store has done it or the lease has ended.
    fn repeat(&self, retention: Option<Duration>, ticket: Ticket) {
        const MAX_DELAY: Duration = Duration::from_secs(5);

        let dedup = self.clone();
        let task = async move {
            let started = Instant::now();
            let mut delay = Duration::from_millis(50);
            while dedup.try_end(retention, &ticket).await.is_err()
                && started.elapsed() < dedup.lease
            {
                sleep(delay).await;
                delay = (2 * delay).min(MAX_DELAY);
            }
        };
        tokio::spawn(task.in_current_span());
    }

    async fn within_timeout<T>(&self, operation: StoreFuture<'_, T>) -> Result<T, BoxError> {
        timeout(self.store_timeout, operation)
            .await
            .unwrap_or_else(|_| {
                Err(format!("no response within {} ms", self.store_timeout.as_millis()).into())
            })
    }
}

setters! {
    Dedup:

    /// Sets after which time without a renewal a delivery counts as abandoned. Default: 30
    /// seconds.
    ///
    /// While a handler runs, its lease is renewed three times in this duration. If its process
    /// crashes, retries get a 503 response until the lease ends. The lease must therefore end
    /// before the sender's last retry, or the delivery is lost. A handler that never returns keeps
    /// its lease: limit its duration with `tokio::time::timeout`.
    lease(lease: Duration) = lease;

    /// Sets how long a handled delivery is remembered. Default: 3 days.
    ///
    /// A delivery that a `Receiver` accepted is remembered at least for the receiver's
    /// [`max_age`](crate::Receiver::max_age), so that no replay is both accepted and handled again.
    retention(retention: Duration) = retention;

    /// Sets how long an operation of the store may take. Default: 2 seconds. If a claim
    /// takes longer, the handler does not run, and the sender gets a 503 response.
    store_timeout(timeout: Duration) = timeout;
}

debug_fields!(Dedup: namespace, lease, retention, store_timeout);

/// Counts as a running handler until it is dropped.
struct Running(Arc<watch::Sender<usize>>);

impl Running {
    fn new(running: &Arc<watch::Sender<usize>>) -> Self {
        running.send_modify(|running| *running += 1);
        Self(Arc::clone(running))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}
