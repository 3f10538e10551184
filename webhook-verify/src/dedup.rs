//! Handles each delivery once, even if the sender repeats it.
//!
//! A sender repeats a delivery if it did not receive your response. To detect
//! repeats, a [`DedupStore`] keeps one of three states per delivery: new, in
//! flight, or done.
//!
//! A receiver with only "seen" and "not seen" has a choice of two bugs. If it
//! marks a delivery as seen before handling it, the delivery is lost when the
//! handler fails. If it does so afterwards, two concurrent attempts both run the
//! handler. [`Dedup`] therefore *claims* a delivery for the duration of a lease,
//! runs the handler, and then *completes* the claim, or *releases* it if the
//! handler failed.
//!
//! It needs a tokio runtime with a timer, which `#[tokio::main]` and actix-web provide.

#[cfg(feature = "actix")]
mod actix;
#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "lambda")]
mod lambda;
mod memory;
mod outcome;
#[cfg(feature = "redis")]
mod redis;
mod run;
mod store;
#[cfg(feature = "tower")]
mod tower;

pub use memory::MemoryStore;
pub use outcome::{DedupError, Outcome};
#[cfg(feature = "redis")]
pub use redis::RedisStore;
pub use store::{Claim, DedupStore, StoreFuture, Ticket};
#[cfg(feature = "tower")]
pub use tower::{DedupLayer, DedupService};

#[cfg(any(feature = "axum", feature = "actix", feature = "lambda", feature = "tower"))]
use outcome::{STORE_RETRY_AFTER, log_store_error, retry_after_seconds};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{BoxError, DeliveryKey, Keyed};

/// Runs a handler once per delivery.
///
/// The handler runs in a task of its own. If the sender disconnects before the response,
/// for example because it waits for 10 seconds only, as the email service does, the
/// handler is not canceled. It finishes, and the sender's next attempt gets a 200 response without running it again.
/// A handler that returns in time is answered as soon as it returns.
///
/// Clones are cheap and share the store.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// # use webhook_verify::{MailSigner, MailVerifier, Secret};
/// use webhook_verify::MailDelivery;
/// use webhook_verify::dedup::{Dedup, MemoryStore, Outcome};
///
/// async fn handle(delivery: MailDelivery) -> Result<(), std::io::Error> {
///     println!("handling {}", delivery.event());
///     Ok(())
/// }
///
/// # let secret = Secret::new("whsec_3f1c").unwrap();
/// # let body = bytes::Bytes::from(r#"{"event":"email.sent","id":"7c0e"}"#);
/// # let header = MailSigner::new(&secret).sign(&body).to_string();
/// # let verifier = MailVerifier::new(secret);
/// # let delivery = verifier.verify(header, body).unwrap().into_delivery().unwrap();
/// # let retried = delivery.clone();
/// let dedup = Dedup::new(MemoryStore::new()); // create once and share
///
/// let first = dedup.run_once(delivery, handle).await;
/// assert!(matches!(first, Ok(Outcome::Handled(()))));
/// let retry = dedup.run_once(retried, handle).await;
/// assert!(matches!(retry, Ok(Outcome::Duplicate)));
/// # });
/// ```
///
/// The result converts into a response of axum, actix-web and AWS Lambda, if the
/// handler's own value and error do. On tower, use `DedupLayer`.
///
/// # Choosing the durations
///
/// - [`lease`](Self::lease) (default: 30 seconds) must end before the sender's last
///   retry. A handler may take longer: its lease is renewed while it runs.
/// - [`retention`](Self::retention) (default: 3 days) must be longer than the
///   period over which the sender retries.
///
/// The email service retries up to three times. The schedules are described in
/// `docs/undocumented/email-service.md#retry-schedule` and
/// `docs/undocumented/extraction-service.md#retry-schedule`.
#[derive(Clone)]
pub struct Dedup {
    store: Arc<dyn DedupStore>,
    scope: Option<Arc<str>>,
    lease: Duration,
    retention: Duration,
    store_timeout: Duration,
    tasks: Arc<run::Tasks>,
}

impl Dedup {
    /// Creates a `Dedup` with a lease of 30 seconds, a retention of 3 days and a store
    /// timeout of half a second.
    pub fn new(store: impl DedupStore) -> Self {
        // Three times as long as the email service waits for a response, and short
        // enough to end before the last of three retries with back-off.
        const LEASE: Duration = Duration::from_secs(30);
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            store: Arc::new(store),
            scope: None,
            lease: LEASE,
            retention: 3 * DAY,
            store_timeout: Duration::from_millis(500),
            tasks: Arc::new(run::Tasks::new()),
        }
    }

    /// Returns a `Dedup` with the same store that keeps its deliveries apart from those
    /// of other scopes. Default: no scope.
    ///
    /// A delivery's `id` is unique only within the account that sent it. Without a scope,
    /// a delivery of one tenant counts as a duplicate of another tenant's delivery with
    /// the same event and `id`. Use one scope for each tenant:
    ///
    /// ```
    /// use axum::extract::Path;
    /// use axum::{Extension, http::StatusCode, response::IntoResponse};
    /// use webhook_verify::MailDelivery;
    /// use webhook_verify::dedup::Dedup;
    ///
    /// // POST /tenants/{tenant}/hooks
    /// async fn receive(
    ///     Path(tenant): Path<String>,
    ///     Extension(dedup): Extension<Dedup>,
    ///     delivery: MailDelivery,
    /// ) -> impl IntoResponse {
    ///     dedup.scope(tenant).run_once(delivery, handle).await
    /// }
    ///
    /// async fn handle(delivery: MailDelivery) -> Result<StatusCode, StatusCode> {
    ///     Ok(StatusCode::NO_CONTENT)
    /// }
    /// # let _: axum::routing::MethodRouter = axum::routing::post(async || ());
    /// ```
    ///
    /// If two endpoints of one application share a store and must both handle a
    /// delivery, give each its own scope:
    ///
    /// ```
    /// use webhook_verify::dedup::{Dedup, MemoryStore};
    ///
    /// let dedup = Dedup::new(MemoryStore::new());
    /// let billing = dedup.scope("billing"); // for POST /billing/hooks
    /// let search = dedup.scope("search"); // for POST /search/hooks
    /// # drop((billing, search));
    /// ```
    ///
    /// It replaces an earlier scope.
    #[must_use]
    pub fn scope(&self, scope: impl Into<Arc<str>>) -> Self {
        Self { scope: Some(scope.into()), ..self.clone() }
    }

    /// Sets after which time without a renewal a delivery counts as abandoned. Default:
    /// 30 seconds.
    ///
    /// While a handler runs, its lease is renewed three times in this duration. If its
    /// process crashes, retries get a 503 response until the lease ends. The lease must
    /// therefore end before the sender's last retry, or the delivery is lost.
    ///
    /// A handler that never returns keeps its lease: limit its duration with
    /// `tokio::time::timeout`.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how long a handled delivery is remembered. Default: 3 days.
    ///
    /// It must be longer than the period over which the sender retries. A
    /// delivery replayed after that is handled again, unless
    /// `Receiver::max_age` rejects it.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Sets how long an operation of the store may take. Default: 500 milliseconds.
    ///
    /// If a claim takes longer, the handler does not run, and the sender gets a 503
    /// response. The claim is released in the background, in case the store executes it
    /// later.
    #[must_use]
    pub fn store_timeout(mut self, timeout: Duration) -> Self {
        self.store_timeout = timeout;
        self
    }

    /// Runs `handler` in a task of its own, unless the delivery was handled before or is
    /// being handled.
    ///
    /// `Ok` completes the delivery, whatever the value. Return `Err` if the
    /// sender should retry: an `Ok` that contains a 500 response loses the
    /// delivery, because its retry is then a duplicate.
    ///
    /// The handler finishes even if the returned future is dropped, which is what servers
    /// do if the sender disconnects. Its error is then logged with `tracing`.
    ///
    /// # Errors
    ///
    /// [`DedupError::Handler`] if the handler failed, [`DedupError::Store`] if the
    /// store failed before the handler ran. If the store fails after the handler
    /// ran, the failure is logged, the operation is repeated in the background, and the
    /// handler's result is returned.
    ///
    /// # Panics
    ///
    /// If the handler panics: the delivery is released and the panic is resumed. Also
    /// outside of a tokio runtime with a timer.
    pub async fn run_once<D, F, Fut, T, E>(
        &self,
        delivery: D,
        handler: F,
    ) -> Result<Outcome<T>, DedupError<E>>
    where
        D: Keyed + Send + 'static,
        F: FnOnce(D) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        self.run_detached(self.scoped(delivery.key()), move || handler(delivery)).await
    }

    /// Forgets a handled delivery, so that a repeated delivery is handled again, for
    /// example after a defect in the handler was fixed. Returns whether it was remembered.
    ///
    /// A delivery in flight is not affected. The key belongs to this `Dedup`'s
    /// [`scope`](Self::scope).
    ///
    /// # Errors
    ///
    /// The error of the store, or a timeout.
    pub async fn forget(&self, key: &DeliveryKey) -> Result<bool, BoxError> {
        let key = self.scoped(key.clone());
        self.within_timeout(self.store.forget(&key)).await
    }

    /// Waits until no handler runs.
    ///
    /// Call it after your server has stopped, and before the process exits: a handler
    /// whose sender has disconnected is not part of the server's graceful shutdown. With
    /// actix-web, call it before the server stops, because its workers own the handlers:
    /// `pause` the server, then wait, then `stop` it.
    pub async fn idle(&self) {
        self.tasks.idle().await;
    }

    fn scoped(&self, key: DeliveryKey) -> DeliveryKey {
        match &self.scope {
            Some(scope) => key.scoped(scope),
            None => key,
        }
    }
}

impl fmt::Debug for Dedup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dedup")
            .field("scope", &self.scope)
            .field("lease", &self.lease)
            .field("retention", &self.retention)
            .field("store_timeout", &self.store_timeout)
            .finish_non_exhaustive()
    }
}
