//! Handling each delivery once, although it may come several times.
//!
//! A delivery has three states: new, being handled, and done. Marking it done
//! before it is handled loses it when the handler fails; marking it after that
//! lets two retries through at once. So a handler *claims* a delivery for the
//! time of a lease, and then *completes* it, or *releases* it for a later try.

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
use std::time::Duration;

use crate::shown::Shown;
use crate::{DeliveryKey, Scheme};

/// Where the states of deliveries are kept.
///
/// [`MemoryStore`] serves one process, `RedisStore` (feature `redis`) many.
/// Another store has to do each of the three in one atomic step.
pub trait DedupStore: Send + Sync + 'static {
    /// Why the store could not do it.
    type Error: Error + Send + Sync + 'static;

    /// Claims a delivery for the time of the lease, if it is new or a former
    /// lease has run out.
    fn claim(
        &self,
        key: &DeliveryKey,
        lease: Duration,
    ) -> impl Future<Output = Result<Claim, Self::Error>> + Send;

    /// Marks a claimed delivery as done and remembers that for `keep`. False
    /// when another handler holds the claim by now, because the lease ran out.
    fn complete(
        &self,
        ticket: &Ticket,
        keep: Duration,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// Gives a claimed delivery back, so that its next retry is new again.
    /// Does nothing when another handler holds the claim by now.
    fn release(&self, ticket: &Ticket) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is ours: handle it, then complete or release it.
    New(Ticket),
    /// Another handler is at it.
    InFlight {
        /// When its lease ends at the latest.
        retry_after: Duration,
    },
    /// It was handled before.
    Done,
}

/// A claim that is held. The token tells it from a later claim of the same
/// delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    key: DeliveryKey,
    token: Box<str>,
}

impl Ticket {
    /// A ticket with a token that no other claim has.
    pub fn new(key: DeliveryKey, token: impl Into<Box<str>>) -> Self {
        Self { key, token: token.into() }
    }

    /// The delivery.
    pub fn key(&self) -> &DeliveryKey {
        &self.key
    }

    /// What tells this claim from a later one.
    pub fn token(&self) -> &str {
        &self.token
    }
}

/// Handles each delivery once, over a [`DedupStore`]. Clones share the store.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # use webhook_verify::{MailSigner, MailVerifier, Secret};
/// use webhook_verify::dedup::{Dedup, MemoryStore, Once};
///
/// # let secret = Secret::new("whsec_3f1c").unwrap();
/// # let body = r#"{"event":"email.sent","id":"7c0e"}"#;
/// # let header = MailSigner::new(&secret).sign(body).to_string();
/// # let verifier = MailVerifier::new(secret);
/// # let delivery = verifier.verify(header, body).unwrap().into_delivery().unwrap();
/// let dedup = Dedup::new(MemoryStore::new());
/// for _ in 0..2 {
///     let once = dedup.once(&delivery, async {
///         println!("handling {:?}", delivery.event());
///         Ok::<_, std::io::Error>(())
///     });
///     // The first time `Once::Handled`, the second time `Once::Repeated`.
///     assert!(matches!(once.await, Ok(Once::Handled(()) | Once::Repeated)));
/// }
/// # });
/// ```
pub struct Dedup<Store> {
    store: std::sync::Arc<Store>,
    lease: Duration,
    keep: Duration,
}

impl<Store: DedupStore> Dedup<Store> {
    /// Leases of half a minute; what is done is remembered for three days.
    pub fn new(store: Store) -> Self {
        // Three times as long as the email service waits for an answer, and over
        // before a back-off of three retries is.
        const LEASE: Duration = Duration::from_secs(30);
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self { store: store.into(), lease: LEASE, keep: 3 * DAY }
    }

    /// How long one handler may take. After that the delivery counts as
    /// abandoned, and its next retry is handled, even if the handler is still
    /// at it. Also the longest time for which a crash holds a delivery up: it
    /// has to be over before the sender's last retry, or that delivery is
    /// lost, since all its retries were answered 503.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long a delivery is remembered as done: at least as long as the
    /// sender goes on retrying. A replay after that is handled again unless
    /// [`Receiver::max_age`](crate::Receiver::max_age) refuses it.
    #[must_use]
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// Handles a delivery, unless it was handled before or another handler is
    /// at it. `Ok` completes it, whatever is in it: an `Ok` of an answer such as
    /// 500 loses the delivery, since its retry is answered 200. `Err` releases it
    /// for the sender's next try.
    ///
    /// A future that is dropped before its end, as when the sender hangs up, or
    /// that panics, leaves the claim until the lease ends: spawn the work where
    /// that matters.
    ///
    /// # Errors
    ///
    /// [`OnceError`]: the handler failed, or the store did before the handler
    /// ran.
    pub async fn once<S, B, T, E>(
        &self,
        delivery: &crate::Delivery<S, B>,
        handle: impl Future<Output = Result<T, E>>,
    ) -> Result<Once<T>, OnceError<E, Store::Error>>
    where
        S: Scheme,
        B: AsRef<[u8]>,
    {
        self.once_by_key(&delivery.key(), handle).await
    }

    /// The same for a delivery of which only the key is at hand.
    ///
    /// # Errors
    ///
    /// As [`once`](Self::once).
    pub async fn once_by_key<T, E>(
        &self,
        key: &DeliveryKey,
        handle: impl Future<Output = Result<T, E>>,
    ) -> Result<Once<T>, OnceError<E, Store::Error>> {
        let ticket = match self.store.claim(key, self.lease).await.map_err(OnceError::Store)? {
            Claim::New(ticket) => ticket,
            Claim::InFlight { retry_after } => return Ok(Once::InFlight { retry_after }),
            Claim::Done => return Ok(Once::Repeated),
        };
        match handle.await {
            Ok(value) => {
                // It is handled: a store that fails now must not make the
                // sender try again, since the lease still holds that off.
                match self.store.complete(&ticket, self.keep).await {
                    Ok(true) => {}
                    Ok(false) => tracing::warn!("a webhook delivery took longer than its lease"),
                    Err(error) => tracing::error!(
                        error = ?Shown(&error),
                        "a handled webhook delivery could not be marked as done"
                    ),
                }
                Ok(Once::Handled(value))
            }
            Err(error) => {
                if let Err(error) = self.store.release(&ticket).await {
                    tracing::error!(
                        error = ?Shown(&error),
                        "a failed webhook delivery stays claimed until its lease ends"
                    );
                }
                Err(OnceError::Handler(error))
            }
        }
    }
}

impl<Store> Clone for Dedup<Store> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), lease: self.lease, keep: self.keep }
    }
}

impl<Store> fmt::Debug for Dedup<Store> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dedup")
            .field("lease", &self.lease)
            .field("keep", &self.keep)
            .finish_non_exhaustive()
    }
}

/// What became of a delivery. As an answer: the handler's own, 200, or 503
/// with `Retry-After`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Once<T> {
    /// It was new, and this is what the handler gave.
    Handled(T),
    /// It was handled before.
    Repeated,
    /// Another handler is at it: the sender should come again.
    InFlight {
        /// When that handler's lease ends at the latest.
        retry_after: Duration,
    },
}

/// Why a delivery was not handled. As an answer: the handler's own, or 503.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OnceError<E, StoreError> {
    /// The handler failed; the delivery is free for the next try.
    #[error("the handler failed")]
    Handler(#[source] E),
    /// The store could not say whether the delivery is new.
    #[error("the de-duplication store failed")]
    Store(#[source] StoreError),
}

/// A `Retry-After` in whole seconds, never zero.
#[cfg(any(feature = "axum", feature = "actix", feature = "lambda", feature = "tower"))]
pub(crate) fn retry_after_seconds(retry_after: Duration) -> u64 {
    let part = u64::from(retry_after.subsec_nanos() > 0);
    retry_after.as_secs().saturating_add(part).max(1)
}

/// How long a sender is asked to wait when the store cannot be asked.
#[cfg(any(feature = "axum", feature = "actix", feature = "lambda", feature = "tower"))]
const STORE_RETRY_AFTER: u64 = 5;

#[cfg(any(feature = "axum", feature = "actix", feature = "lambda", feature = "tower"))]
fn log_store(error: &dyn Error) {
    tracing::error!(error = ?Shown(error), "the de-duplication store failed");
}
