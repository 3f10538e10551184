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

#[cfg(feature = "actix")]
mod actix;
#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "lambda")]
mod lambda;
mod memory;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "tower")]
mod tower;

pub use memory::MemoryStore;
#[cfg(feature = "redis")]
pub use redis::RedisStore;
#[cfg(feature = "tower")]
pub use tower::{DedupLayer, DedupService};

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::log_text::LogText;
use crate::{Delivery, DeliveryKey, Scheme};

/// Runs a handler once per delivery.
///
/// Clones are cheap and share the store.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # use webhook_verify::{MailSigner, MailVerifier, Secret};
/// use webhook_verify::dedup::{Dedup, MemoryStore, Outcome};
///
/// # let secret = Secret::new("whsec_3f1c").unwrap();
/// # let body = r#"{"event":"email.sent","id":"7c0e"}"#;
/// # let header = MailSigner::new(&secret).sign(body).to_string();
/// # let verifier = MailVerifier::new(secret);
/// # let delivery = verifier.verify(header, body).unwrap().into_delivery().unwrap();
/// let dedup = Dedup::new(MemoryStore::new());
/// let handle = async || {
///     println!("handling {}", delivery.event());
///     Ok::<_, std::io::Error>(())
/// };
///
/// let first = dedup.run_once(&delivery, handle()).await;
/// assert!(matches!(first, Ok(Outcome::Handled(()))));
/// let retry = dedup.run_once(&delivery, handle()).await;
/// assert!(matches!(retry, Ok(Outcome::Duplicate)));
/// # });
/// ```
///
/// The result converts into a response of axum, actix-web and AWS Lambda, if the
/// handler's own value and error do. On tower, use `DedupLayer`.
///
/// # Choosing the durations
///
/// - [`lease`](Self::lease) (default: 30 seconds) must be longer than your handler
///   takes, and must end before the sender's last retry.
/// - [`retention`](Self::retention) (default: 3 days) must be longer than the
///   period over which the sender retries.
///
/// The email service retries up to three times. The schedules are described in
/// `docs/undocumented/email-service.md#retry-schedule` and
/// `docs/undocumented/extraction-service.md#retry-schedule`.
pub struct Dedup<Store> {
    store: Arc<Store>,
    lease: Duration,
    retention: Duration,
}

impl<Store: DedupStore> Dedup<Store> {
    /// Creates a `Dedup` with a lease of 30 seconds and a retention of 3 days.
    pub fn new(store: Store) -> Self {
        // Three times as long as the email service waits for a response, and short
        // enough to end before the last of three retries with back-off.
        const LEASE: Duration = Duration::from_secs(30);
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self { store: store.into(), lease: LEASE, retention: 3 * DAY }
    }

    /// Sets how long a handler may take. Default: 30 seconds.
    ///
    /// When the lease ends, the delivery counts as abandoned, and its next retry
    /// is handled even if the first handler is still running.
    ///
    /// If a handler crashes, retries get a 503 response until the lease ends. The
    /// lease must therefore end before the sender's last retry, or the delivery is
    /// lost.
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

    /// Runs `handler`, unless the delivery was handled before or is being handled.
    ///
    /// `Ok` completes the delivery, whatever the value. Return `Err` if the
    /// sender should retry: an `Ok` that contains a 500 response loses the
    /// delivery, because its retry is then a duplicate.
    ///
    /// If the returned future is dropped, for example because the sender
    /// disconnected, or if the handler panics, the delivery stays claimed until
    /// the lease ends. To avoid that, run the handler in a spawned task.
    ///
    /// # Errors
    ///
    /// [`DedupError::Handler`] if the handler failed, [`DedupError::Store`] if the
    /// store failed before the handler ran. If the store fails after the handler
    /// ran, the failure is logged and the handler's result is returned.
    pub async fn run_once<S, B, T, E>(
        &self,
        delivery: &Delivery<S, B>,
        handler: impl Future<Output = Result<T, E>>,
    ) -> Result<Outcome<T>, DedupError<E, Store::Error>>
    where
        S: Scheme,
        B: AsRef<[u8]>,
    {
        self.run_once_by_key(&delivery.key(), handler).await
    }

    /// Like [`run_once`](Self::run_once), with the delivery's key instead of the
    /// delivery.
    ///
    /// # Errors
    ///
    /// The errors of [`run_once`](Self::run_once).
    pub async fn run_once_by_key<T, E>(
        &self,
        key: &DeliveryKey,
        handler: impl Future<Output = Result<T, E>>,
    ) -> Result<Outcome<T>, DedupError<E, Store::Error>> {
        let ticket = match self.store.claim(key, self.lease).await.map_err(DedupError::Store)? {
            Claim::New(ticket) => ticket,
            Claim::InFlight { retry_after } => return Ok(Outcome::InFlight { retry_after }),
            Claim::Done => return Ok(Outcome::Duplicate),
        };
        match handler.await {
            Ok(value) => {
                // The delivery is handled. A store failure must not make the sender
                // retry it: the claim still blocks retries until the lease ends.
                match self.store.complete(&ticket, self.retention).await {
                    Ok(true) => {}
                    Ok(false) => {
                        tracing::warn!("handling a webhook delivery took longer than its lease");
                    }
                    Err(error) => tracing::error!(
                        error = ?LogText(&error),
                        "failed to mark a handled webhook delivery as done"
                    ),
                }
                Ok(Outcome::Handled(value))
            }
            Err(error) => {
                if let Err(error) = self.store.release(&ticket).await {
                    tracing::error!(
                        error = ?LogText(&error),
                        "failed to release a webhook delivery; it stays claimed until its lease ends"
                    );
                }
                Err(DedupError::Handler(error))
            }
        }
    }
}

impl<Store> Clone for Dedup<Store> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), lease: self.lease, retention: self.retention }
    }
}

impl<Store> fmt::Debug for Dedup<Store> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dedup")
            .field("lease", &self.lease)
            .field("retention", &self.retention)
            .finish_non_exhaustive()
    }
}

/// The result of [`Dedup::run_once`].
///
/// As an HTTP response: the handler's own response, 200 for a duplicate, and 503
/// with `Retry-After` for a delivery in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// The delivery was new. Contains the handler's value.
    Handled(T),
    /// The delivery was handled before. The handler did not run.
    Duplicate,
    /// Another handler is handling the delivery. The sender should retry later.
    InFlight {
        /// Time until the other handler's lease ends.
        retry_after: Duration,
    },
}

/// The error of [`Dedup::run_once`]: the delivery was not handled.
///
/// As an HTTP response: the handler's own error response, or 503 with
/// `Retry-After` if the store failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DedupError<E, StoreError> {
    /// The handler failed. The delivery is released, so its retry is handled.
    #[error("the handler failed")]
    Handler(#[source] E),
    /// The store failed before the handler ran.
    #[error("the de-duplication store failed")]
    Store(#[source] StoreError),
}

/// Keeps the states of deliveries for [`Dedup`].
///
/// [`MemoryStore`] works within one process, `RedisStore` (feature `redis`) across
/// several. To implement another store, make each of the three methods one atomic
/// operation.
pub trait DedupStore: Send + Sync + 'static {
    /// The error if the store is unavailable.
    type Error: Error + Send + Sync + 'static;

    /// Claims the delivery for the duration of `lease`, if it is new or its
    /// previous lease has ended.
    fn claim(
        &self,
        key: &DeliveryKey,
        lease: Duration,
    ) -> impl Future<Output = Result<Claim, Self::Error>> + Send;

    /// Marks a claimed delivery as done and remembers it for `retention`.
    ///
    /// Returns `false`, and changes nothing, if the lease has ended and another
    /// handler has claimed the delivery since.
    fn complete(
        &self,
        ticket: &Ticket,
        retention: Duration,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// Releases a claimed delivery, so that its next retry is new again.
    ///
    /// Changes nothing if another handler has claimed the delivery since.
    fn release(&self, ticket: &Ticket) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// The result of [`DedupStore::claim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The delivery is claimed for the caller, who must complete or release it.
    New(Ticket),
    /// Another handler has claimed the delivery.
    InFlight {
        /// Time until the other handler's lease ends.
        retry_after: Duration,
    },
    /// The delivery was handled before.
    Done,
}

/// Proof of a claim, needed to complete or release it.
///
/// The token is unique, so a ticket whose lease has ended cannot affect a later
/// claim of the same delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    key: DeliveryKey,
    token: Box<str>,
}

impl Ticket {
    /// Creates a ticket. The token must be different for every claim.
    pub fn new(key: DeliveryKey, token: impl Into<Box<str>>) -> Self {
        Self { key, token: token.into() }
    }

    /// The key of the claimed delivery.
    pub fn key(&self) -> &DeliveryKey {
        &self.key
    }

    /// The token that distinguishes this claim from later ones.
    pub fn token(&self) -> &str {
        &self.token
    }
}

/// The duration in seconds for `Retry-After`, rounded up and at least 1.
#[cfg(any(feature = "axum", feature = "actix", feature = "lambda", feature = "tower"))]
pub(crate) fn retry_after_seconds(retry_after: Duration) -> u64 {
    let fraction = u64::from(retry_after.subsec_nanos() > 0);
    retry_after.as_secs().saturating_add(fraction).max(1)
}

/// `Retry-After` in seconds if the store fails.
#[cfg(any(feature = "axum", feature = "actix", feature = "lambda", feature = "tower"))]
const STORE_RETRY_AFTER: u64 = 5;

#[cfg(any(feature = "axum", feature = "actix", feature = "lambda", feature = "tower"))]
fn log_store_error(error: &dyn Error) {
    tracing::error!(error = ?LogText(error), "the de-duplication store failed");
}
