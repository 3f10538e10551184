//! The interface of stores.

use std::error::Error;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::{BoxError, DeliveryKey};

/// The future of a store's operation: `Box::pin(async move { … })`.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send + 'a>>;

/// Keeps the states of deliveries for [`Dedup`](super::Dedup).
///
/// [`MemoryStore`](super::MemoryStore) works within one process, `RedisStore` (feature
/// `redis`) across several. To implement another store, make each method one atomic
/// operation. `Dedup` limits the duration of every operation, so a store needs no
/// timeout of its own.
///
/// The trait is object-safe: `Box<dyn DedupStore>` is a store too, so that a program can
/// choose its store at run time.
///
/// ```
/// use webhook_verify::dedup::{Dedup, DedupStore, MemoryStore};
///
/// fn dedup(store: Option<Box<dyn DedupStore>>) -> Dedup {
///     Dedup::new(store.unwrap_or_else(|| Box::new(MemoryStore::new())))
/// }
/// # dedup(None);
/// ```
pub trait DedupStore: Send + Sync + 'static {
    /// Claims the delivery for the duration of `lease`, if it is new or its previous
    /// lease has ended.
    ///
    /// A claim by a ticket that already owns the delivery succeeds.
    fn claim<'a>(&'a self, ticket: &'a Ticket, lease: Duration) -> StoreFuture<'a, Claim>;

    /// Extends the lease of a claimed delivery to `lease` from now.
    ///
    /// If the lease has ended and nobody has claimed the delivery since, it is claimed
    /// again. Returns `false`, and changes nothing, if another ticket owns the delivery,
    /// or if it is done.
    fn renew<'a>(&'a self, ticket: &'a Ticket, lease: Duration) -> StoreFuture<'a, bool>;

    /// Marks a claimed delivery as done and remembers it for `retention`.
    ///
    /// Returns `false`, and changes nothing, if another ticket owns the delivery.
    fn complete<'a>(&'a self, ticket: &'a Ticket, retention: Duration) -> StoreFuture<'a, bool>;

    /// Releases a claimed delivery, so that its next attempt is new again.
    ///
    /// Changes nothing unless this ticket owns the delivery.
    fn release<'a>(&'a self, ticket: &'a Ticket) -> StoreFuture<'a, ()>;

    /// Forgets a delivery that is done. Returns whether it was done.
    ///
    /// Changes nothing if the delivery is claimed.
    fn forget<'a>(&'a self, key: &'a DeliveryKey) -> StoreFuture<'a, bool>;
}

/// Delegates to the store in a smart pointer.
macro_rules! delegate {
    ($($pointer:ident),+) => {$(
        impl<Store: DedupStore + ?Sized> DedupStore for $pointer<Store> {
            fn claim<'a>(&'a self, ticket: &'a Ticket, lease: Duration) -> StoreFuture<'a, Claim> {
                (**self).claim(ticket, lease)
            }

            fn renew<'a>(&'a self, ticket: &'a Ticket, lease: Duration) -> StoreFuture<'a, bool> {
                (**self).renew(ticket, lease)
            }

            fn complete<'a>(
                &'a self,
                ticket: &'a Ticket,
                retention: Duration,
            ) -> StoreFuture<'a, bool> {
                (**self).complete(ticket, retention)
            }

            fn release<'a>(&'a self, ticket: &'a Ticket) -> StoreFuture<'a, ()> {
                (**self).release(ticket)
            }

            fn forget<'a>(&'a self, key: &'a DeliveryKey) -> StoreFuture<'a, bool> {
                (**self).forget(key)
            }
        }
    )+};
}

delegate!(Box, Arc);

/// The result of [`DedupStore::claim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The ticket owns the delivery and must complete or release it.
    New,
    /// Another ticket owns the delivery.
    InFlight {
        /// Time until the other ticket's lease ends, unless it is renewed.
        retry_after: Duration,
    },
    /// The delivery was handled before.
    Done,
}

/// The owner of a claim: one attempt to handle a delivery.
///
/// Its token is different for every ticket, in this and in other processes. A ticket
/// whose lease has ended can therefore not affect a later claim of the same delivery, and
/// a claim that the store executed after `Dedup` stopped waiting for it can be released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    key: DeliveryKey,
    token: Box<str>,
}

impl Ticket {
    /// Creates a ticket with a new token.
    pub fn new(key: DeliveryKey) -> Self {
        static PROCESS: LazyLock<u64> =
            LazyLock::new(|| RandomState::new().hash_one(std::process::id()));
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        Self { key, token: format!("{:016x}{count:x}", *PROCESS).into() }
    }

    /// The key of the delivery.
    pub fn key(&self) -> &DeliveryKey {
        &self.key
    }

    /// The token: lowercase hex digits.
    pub fn token(&self) -> &str {
        &self.token
    }
}

/// The store did not respond in time.
#[derive(Debug)]
pub(super) struct StoreTimeout(pub(super) Duration);

impl Error for StoreTimeout {}

impl fmt::Display for StoreTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no response within {} ms", self.0.as_millis())
    }
}
