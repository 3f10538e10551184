//! `DedupStore`, the interface of de-duplication stores, and `MemoryStore`. A `Ticket` is one
//! attempt to handle a delivery. A store moves a delivery from new to claimed by one ticket to
//! done, and each method must be atomic. A ticket whose lease has ended cannot change the claim of
//! another ticket. `Dedup` decides when to claim, renew, complete and release.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::log_text::debug_fields;
use crate::receiver::BoxError;

/// The future of a store's operation: `Box::pin(async move { … })`.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send + 'a>>;

/// Keeps the states of deliveries for [`Dedup`](super::Dedup).
///
/// [`MemoryStore`] works within one process, `RedisStore` (feature `redis`) across several. To
/// implement another store, make each method one atomic operation. `Dedup` limits the duration of
/// every operation, so a store needs no time-out of its own.
pub trait DedupStore: Send + Sync + 'static {
    /// Claims the delivery for the duration of `lease`, if it is new or its previous lease has
    /// ended. A claim by a ticket that already owns the delivery succeeds.
    fn claim<'a>(&'a self, ticket: &'a Ticket, lease: Duration) -> StoreFuture<'a, Claim>;

    /// Extends the lease of a claimed delivery to `lease` from now.
    ///
    /// If the lease has ended and nobody has claimed the delivery since, it is claimed again.
    /// Returns `false`, and changes nothing, if another ticket owns the delivery, or if it is done.
    fn renew<'a>(&'a self, ticket: &'a Ticket, lease: Duration) -> StoreFuture<'a, bool>;

    /// Marks a claimed delivery as done and remembers it for `retention`.
    ///
    /// Returns `false`, and changes nothing, if another ticket owns the delivery.
    fn complete<'a>(&'a self, ticket: &'a Ticket, retention: Duration) -> StoreFuture<'a, bool>;

    /// Releases a claimed delivery, so that its next attempt is new again. Changes nothing unless
    /// this ticket owns the delivery.
    fn release<'a>(&'a self, ticket: &'a Ticket) -> StoreFuture<'a, ()>;

    /// Forgets a delivery that is done. Returns whether it was done. Changes nothing if the
    /// delivery is claimed.
    fn forget<'a>(&'a self, key: &'a str) -> StoreFuture<'a, bool>;
}

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
/// Its token is different for every ticket, in this and in other processes. A ticket whose lease
/// has ended can therefore not affect a later claim of the same delivery, and a claim that the
/// store executed after `Dedup` stopped waiting for it can be released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    key: String,
    token: String,
}

impl Ticket {
    /// Creates a ticket with a new token.
    pub fn new(key: impl Into<String>) -> Self {
        static PROCESS: LazyLock<u64> =
            LazyLock::new(|| RandomState::new().hash_one(std::process::id()));
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        Self {
            key: key.into(),
            token: format!("{:016x}{count:x}", *PROCESS),
        }
    }

    /// The key of the delivery.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The token: lowercase hex digits.
    pub fn token(&self) -> &str {
        &self.token
    }
}

/// Keeps the states of deliveries in memory.
///
/// The states are not shared with other processes and are lost when the process exits. If several
/// processes receive the same deliveries, use `RedisStore` (feature `redis`). Each remembered
/// delivery takes at most about 500 bytes. Forged requests take no memory, because only verified
/// deliveries have a key.
#[derive(Default)]
pub struct MemoryStore {
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_key: HashMap<String, Entry>,
    /// Number of entries at which those that have expired are removed.
    sweep_at: usize,
}

struct Entry {
    expires_at: Instant,
    /// The token of the claim, or `None` if the delivery is done.
    token: Option<String>,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn with<'a, T: Send + 'a>(
        &self,
        change: impl FnOnce(&mut Entries, Instant) -> T,
    ) -> StoreFuture<'a, T> {
        // A panic cannot leave the entries inconsistent, so a poisoned lock is usable.
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let value = change(&mut entries, Instant::now());
        Box::pin(std::future::ready(Ok(value)))
    }
}

impl Entries {
    /// The entry of a delivery, unless it has expired.
    fn current(&self, key: &str, now: Instant) -> Option<&Entry> {
        self.by_key.get(key).filter(|entry| entry.is_current(now))
    }

    fn is_done(&self, key: &str, now: Instant) -> bool {
        let entry = self.current(key, now);
        entry.is_some_and(|entry| entry.token.is_none())
    }

    /// Whether the ticket owns the delivery, or nobody does.
    fn is_free_for(&self, ticket: &Ticket, now: Instant) -> bool {
        let entry = self.current(ticket.key(), now);
        entry.is_none_or(|entry| entry.token.as_deref() == Some(ticket.token()))
    }

    fn set(&mut self, ticket: &Ticket, token: Option<&str>, now: Instant, time: Duration) {
        const MIN_LEN: usize = 1024;

        // When their number has doubled since the last sweep, so that its cost is amortized.
        if self.by_key.len() >= self.sweep_at.max(MIN_LEN) {
            self.by_key.retain(|_, entry| entry.is_current(now));
            self.sweep_at = 2 * self.by_key.len();
            self.by_key.shrink_to(self.sweep_at);
        }

        let entry = Entry {
            expires_at: now + time.min(LONGEST),
            token: token.map(str::to_owned),
        };
        self.by_key.insert(ticket.key.clone(), entry);
    }
}

/// The clock cannot represent what is much longer.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

impl Entry {
    fn is_current(&self, now: Instant) -> bool {
        self.expires_at > now
    }
}

impl DedupStore for MemoryStore {
    fn claim<'a>(&'a self, ticket: &'a Ticket, lease: Duration) -> StoreFuture<'a, Claim> {
        self.with(|entries, now| {
            if entries.is_free_for(ticket, now) {
                entries.set(ticket, Some(ticket.token()), now, lease);
                return Claim::New;
            }
            match entries.current(ticket.key(), now) {
                Some(Entry {
                    token: Some(_),
                    expires_at,
                }) => Claim::InFlight {
                    retry_after: *expires_at - now,
                },
                _ => Claim::Done,
            }
        })
    }

    fn renew<'a>(&'a self, ticket: &'a Ticket, lease: Duration) -> StoreFuture<'a, bool> {
        self.with(|entries, now| {
            let is_free = entries.is_free_for(ticket, now);
            if is_free {
                entries.set(ticket, Some(ticket.token()), now, lease);
            }
            is_free
        })
    }

    fn complete<'a>(&'a self, ticket: &'a Ticket, retention: Duration) -> StoreFuture<'a, bool> {
        self.with(|entries, now| {
            let is_free = entries.is_done(ticket.key(), now) || entries.is_free_for(ticket, now);
            if is_free {
                entries.set(ticket, None, now, retention);
            }
            is_free
        })
    }

    fn release<'a>(&'a self, ticket: &'a Ticket) -> StoreFuture<'a, ()> {
        self.with(|entries, _| {
            let entry = entries.by_key.get(ticket.key());
            if entry.is_some_and(|entry| entry.token.as_deref() == Some(ticket.token())) {
                entries.by_key.remove(ticket.key());
            }
        })
    }

    fn forget<'a>(&'a self, key: &'a str) -> StoreFuture<'a, bool> {
        self.with(|entries, now| {
            let is_done = entries.is_done(key, now);
            if is_done {
                entries.by_key.remove(key);
            }
            is_done
        })
    }
}

debug_fields!(MemoryStore:);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn expired_entries_are_removed_and_others_kept() {
        let store = MemoryStore::new();
        let second = Duration::from_secs(1);
        for n in 0..10_000 {
            let ticket = Ticket::new(n.to_string());
            let other = Ticket::new(n.to_string());
            assert_eq!(
                store.claim(&ticket, 100 * second).await.unwrap(),
                Claim::New
            );
            let claim = store.claim(&other, 100 * second).await.unwrap();
            assert_eq!(
                claim,
                Claim::InFlight {
                    retry_after: 100 * second
                }
            );
            if n >= 9_950 {
                assert!(store.complete(&ticket, 100 * second).await.unwrap());
            }
            tokio::time::advance(second).await;
        }

        let len = store.entries.lock().unwrap().by_key.len();
        assert!(len <= 2048, "{len}");
        for n in 9_950..10_000 {
            let ticket = Ticket::new(n.to_string());
            assert_eq!(
                store.claim(&ticket, second).await.unwrap(),
                Claim::Done,
                "{n}"
            );
        }
    }
}
