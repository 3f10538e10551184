//! A de-duplication store in the memory of one process.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Claim, DedupStore, StoreFuture, Ticket};
use crate::DeliveryKey;

/// Keeps the states of deliveries in memory.
///
/// The states are not shared with other processes and are lost when the process
/// exits. If several processes receive the same deliveries, use `RedisStore`
/// (feature `redis`).
///
/// Each remembered delivery takes at most about 500 bytes. Forged requests take
/// no memory, because only verified deliveries have a key.
pub struct MemoryStore {
    state: Mutex<State>,
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
}

#[derive(Default)]
struct State {
    entries: HashMap<DeliveryKey, Entry>,
    /// Number of entries at which expired ones are removed.
    sweep_at_len: usize,
    /// Time at which every entry left by the last sweep has expired.
    sweep_at_time: Duration,
}

struct Entry {
    expires_at: Duration,
    /// The token of the claim, or `None` if the delivery is done.
    token: Option<Box<str>>,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        let start = Instant::now();
        Self::with_clock(move || start.elapsed())
    }

    /// Creates an empty store that gets the time from `clock` instead of the
    /// system's monotonic clock, for tests. The clock can start at any value.
    pub fn with_clock(clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self { state: Mutex::default(), clock: Box::new(clock) }
    }

    fn with<T>(&self, change: impl FnOnce(&mut State, Duration) -> T) -> T {
        let now = (self.clock)();
        // A panic cannot leave the state inconsistent, so a poisoned lock is usable.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state, now)
    }
}

impl State {
    fn claim(&mut self, ticket: &Ticket, lease: Duration, now: Duration) -> Claim {
        if let Some(entry) = self.entries.get(ticket.key())
            && entry.expires_at > now
        {
            match entry.token.as_deref() {
                None => return Claim::Done,
                Some(token) if token != ticket.token() => {
                    return Claim::InFlight { retry_after: entry.expires_at - now };
                }
                Some(_) => {}
            }
        }
        self.sweep(now);
        self.set(ticket, Some(ticket.token()), now.saturating_add(lease));
        Claim::New
    }

    fn set(&mut self, ticket: &Ticket, token: Option<&str>, expires_at: Duration) {
        let entry = Entry { expires_at, token: token.map(Into::into) };
        self.entries.insert(ticket.key().clone(), entry);
    }

    /// Removes expired entries. It runs when the number of entries has doubled
    /// since the last sweep, so that its cost is amortized, and when all entries
    /// have expired, so that memory is freed after a burst.
    fn sweep(&mut self, now: Duration) {
        const MIN_LEN: usize = 1024;
        let len = self.entries.len();
        if len >= self.sweep_at_len.max(MIN_LEN) || (len >= MIN_LEN && now >= self.sweep_at_time) {
            self.entries.retain(|_, entry| entry.expires_at > now);
            self.sweep_at_len = 2 * self.entries.len();
            self.sweep_at_time =
                self.entries.values().map(|entry| entry.expires_at).max().unwrap_or(now);
            self.entries.shrink_to(self.sweep_at_len);
        }
    }

    /// The entry of the ticket's delivery, unless it has expired.
    fn current(&self, key: &DeliveryKey, now: Duration) -> Option<&Entry> {
        self.entries.get(key).filter(|entry| entry.expires_at > now)
    }

    fn renew(&mut self, ticket: &Ticket, lease: Duration, now: Duration) -> bool {
        let entry = self.current(ticket.key(), now);
        let owned = entry.is_none_or(|entry| entry.token.as_deref() == Some(ticket.token()));
        if owned {
            self.set(ticket, Some(ticket.token()), now.saturating_add(lease));
        }
        owned
    }

    fn complete(&mut self, ticket: &Ticket, retention: Duration, now: Duration) -> bool {
        let token = self.current(ticket.key(), now).and_then(|entry| entry.token.as_deref());
        let available = token.is_none_or(|token| token == ticket.token());
        if available {
            self.set(ticket, None, now.saturating_add(retention));
        }
        available
    }

    fn release(&mut self, ticket: &Ticket) {
        let entry = self.entries.get(ticket.key());
        if entry.is_some_and(|entry| entry.token.as_deref() == Some(ticket.token())) {
            self.entries.remove(ticket.key());
        }
    }

    fn forget(&mut self, key: &DeliveryKey, now: Duration) -> bool {
        let done = self.current(key, now).is_some_and(|entry| entry.token.is_none());
        if done {
            self.entries.remove(key);
        }
        done
    }
}

impl DedupStore for MemoryStore {
    fn claim<'a>(&'a self, ticket: &'a Ticket, lease: Duration) -> StoreFuture<'a, Claim> {
        Box::pin(async move { Ok(self.with(|state, now| state.claim(ticket, lease, now))) })
    }

    fn renew<'a>(&'a self, ticket: &'a Ticket, lease: Duration) -> StoreFuture<'a, bool> {
        Box::pin(async move { Ok(self.with(|state, now| state.renew(ticket, lease, now))) })
    }

    fn complete<'a>(&'a self, ticket: &'a Ticket, retention: Duration) -> StoreFuture<'a, bool> {
        Box::pin(async move { Ok(self.with(|state, now| state.complete(ticket, retention, now))) })
    }

    fn release<'a>(&'a self, ticket: &'a Ticket) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.with(|state, _| state.release(ticket));
            Ok(())
        })
    }

    fn forget<'a>(&'a self, key: &'a DeliveryKey) -> StoreFuture<'a, bool> {
        Box::pin(async move { Ok(self.with(|state, now| state.forget(key, now))) })
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.with(|state, _| state.entries.len());
        f.debug_struct("MemoryStore").field("len", &len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(n: impl fmt::Display) -> Ticket {
        Ticket::new(DeliveryKey::from_stored(format!("mail:id:{n}").into()))
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri, and the code is safe Rust")]
    fn expired_entries_are_removed() {
        let mut state = State::default();
        let second = Duration::from_secs(1);
        for n in 0..100_000 {
            let (ticket, other) = (ticket(n), ticket(n));
            let now = second * n;
            assert_eq!(state.claim(&ticket, 100 * second, now), Claim::New);
            assert!(matches!(state.claim(&other, 100 * second, now), Claim::InFlight { .. }));
        }
        assert!(state.entries.len() <= 1024, "{}", state.entries.len());
    }

    #[tokio::test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri, and the code is safe Rust")]
    async fn unexpired_entries_are_kept_by_every_sweep() {
        let store = MemoryStore::with_clock(|| Duration::ZERO);
        let instant = Duration::from_nanos(1);
        for n in 0..3000 {
            let ticket = ticket(n);
            assert_eq!(store.claim(&ticket, instant).await.unwrap(), Claim::New);
            if n % 2 == 0 {
                assert!(store.complete(&ticket, instant).await.unwrap());
            }
        }
        for n in 0..3000 {
            let claim = store.claim(&ticket(n), instant).await.unwrap();
            match n % 2 {
                0 => assert_eq!(claim, Claim::Done),
                _ => assert_eq!(claim, Claim::InFlight { retry_after: instant }),
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri, and the code is safe Rust")]
    fn memory_is_freed_after_a_burst() {
        let mut state = State::default();
        let lease = Duration::from_secs(60);
        let mut claim = |n, now| {
            assert_eq!(state.claim(&ticket(n), lease, now), Claim::New);
            state.entries.len()
        };
        let deliveries = 5000;
        let burst = (0..deliveries).map(|n| claim(n, Duration::ZERO)).max();
        assert_eq!(burst, Some(deliveries));
        // After a long pause, single deliveries.
        claim(deliveries, 2 * lease);
        assert_eq!(claim(deliveries + 1, 4 * lease), 2);
        assert!(state.entries.capacity() < deliveries, "{}", state.entries.capacity());
    }
}
