//! A de-duplication store in the memory of one process.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Claim, DedupStore, Ticket};
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
    last_token: u64,
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
    fn claim(&mut self, key: &DeliveryKey, lease: Duration, now: Duration) -> Claim {
        if let Some(entry) = self.entries.get(key)
            && entry.expires_at > now
        {
            return match entry.token {
                Some(_) => Claim::InFlight { retry_after: entry.expires_at - now },
                None => Claim::Done,
            };
        }
        self.sweep(now);
        self.last_token += 1;
        let ticket = Ticket::new(key.clone(), self.last_token.to_string());
        let token = Some(ticket.token().into());
        self.entries.insert(key.clone(), Entry { expires_at: now.saturating_add(lease), token });
        Claim::New(ticket)
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

    /// Whether no other ticket holds an unexpired claim on the delivery.
    fn is_available_to(&self, ticket: &Ticket, now: Duration) -> bool {
        match self.entries.get(ticket.key()) {
            Some(entry) if entry.expires_at > now => {
                entry.token.as_deref().is_none_or(|token| token == ticket.token())
            }
            _ => true,
        }
    }
}

impl DedupStore for MemoryStore {
    type Error = Infallible;

    async fn claim(&self, key: &DeliveryKey, lease: Duration) -> Result<Claim, Infallible> {
        Ok(self.with(|state, now| state.claim(key, lease, now)))
    }

    async fn complete(&self, ticket: &Ticket, retention: Duration) -> Result<bool, Infallible> {
        Ok(self.with(|state, now| {
            let available = state.is_available_to(ticket, now);
            if available {
                let done = Entry { expires_at: now.saturating_add(retention), token: None };
                state.entries.insert(ticket.key().clone(), done);
            }
            available
        }))
    }

    async fn release(&self, ticket: &Ticket) -> Result<(), Infallible> {
        self.with(|state, _| {
            let entry = state.entries.get(ticket.key());
            if entry.is_some_and(|entry| entry.token.as_deref() == Some(ticket.token())) {
                state.entries.remove(ticket.key());
            }
        });
        Ok(())
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

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri, and the code is safe Rust")]
    fn expired_entries_are_removed() {
        let mut state = State::default();
        let second = Duration::from_secs(1);
        for n in 0..100_000 {
            let key = DeliveryKey::new(&format!("mail:id:{n}"));
            let now = second * n;
            assert!(matches!(state.claim(&key, 100 * second, now), Claim::New(_)));
            assert!(matches!(state.claim(&key, 100 * second, now), Claim::InFlight { .. }));
        }
        assert!(state.entries.len() <= 1024, "{}", state.entries.len());
    }

    #[tokio::test]
    #[cfg_attr(miri, ignore = "takes minutes under Miri, and the code is safe Rust")]
    async fn unexpired_entries_are_kept_by_every_sweep() {
        let store = MemoryStore::with_clock(|| Duration::ZERO);
        let instant = Duration::from_nanos(1);
        let key = |n| DeliveryKey::new(&format!("mail:id:{n}"));
        for n in 0..3000 {
            let Claim::New(ticket) = store.claim(&key(n), instant).await.unwrap() else {
                panic!("delivery {n} should be new")
            };
            if n % 2 == 0 {
                assert!(store.complete(&ticket, instant).await.unwrap());
            }
        }
        for n in 0..3000 {
            let claim = store.claim(&key(n), instant).await.unwrap();
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
            let key = DeliveryKey::new(&format!("mail:id:{n}"));
            assert!(matches!(state.claim(&key, lease, now), Claim::New(_)));
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
