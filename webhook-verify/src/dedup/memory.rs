//! The states of deliveries in the memory of one process.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Claim, DedupStore, Ticket};
use crate::DeliveryKey;

/// Keeps the states of deliveries in memory: for one process, and only until
/// it ends.
///
/// It grows with the deliveries that are remembered, some 500 bytes each at the
/// most, and not with what anybody sends: only verified deliveries have a key.
pub struct MemoryStore {
    state: Mutex<State>,
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
}

#[derive(Default)]
struct State {
    entries: HashMap<DeliveryKey, Entry>,
    tokens: u64,
    /// How many entries there may be before the old ones are swept out.
    sweep_at: usize,
    /// When all that the last sweep left is out of date.
    sweep_by: Duration,
}

struct Entry {
    until: Duration,
    /// None once it is done.
    token: Option<Box<str>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        let start = Instant::now();
        Self::with_clock(move || start.elapsed())
    }

    /// An empty store that is told the time, in place of the system's
    /// monotonic clock; any starting point will do.
    pub fn with_clock(clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self { state: Mutex::default(), clock: Box::new(clock) }
    }

    fn with<T>(&self, change: impl FnOnce(&mut State, Duration) -> T) -> T {
        let now = (self.clock)();
        // Nothing below can leave the state half changed.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state, now)
    }
}

impl State {
    fn claim(&mut self, key: &DeliveryKey, lease: Duration, now: Duration) -> Claim {
        if let Some(entry) = self.entries.get(key)
            && entry.until > now
        {
            return match entry.token {
                Some(_) => Claim::InFlight { retry_after: entry.until - now },
                None => Claim::Done,
            };
        }
        self.sweep(now);
        self.tokens += 1;
        let ticket = Ticket::new(key.clone(), self.tokens.to_string());
        let token = Some(ticket.token().into());
        self.entries.insert(key.clone(), Entry { until: now.saturating_add(lease), token });
        Claim::New(ticket)
    }

    /// Seldom enough to cost nothing, often enough that what is out of date is
    /// no more than what is not, and that a flood leaves nothing behind.
    fn sweep(&mut self, now: Duration) {
        const FIRST: usize = 1024;
        let held = self.entries.len();
        if held >= self.sweep_at.max(FIRST) || (held >= FIRST && now >= self.sweep_by) {
            self.entries.retain(|_, entry| entry.until > now);
            self.sweep_at = 2 * self.entries.len();
            self.sweep_by = self.entries.values().map(|entry| entry.until).max().unwrap_or(now);
            self.entries.shrink_to(self.sweep_at);
        }
    }

    /// Whether nobody else holds a claim on it.
    fn is_free_for(&self, ticket: &Ticket, now: Duration) -> bool {
        match self.entries.get(ticket.key()) {
            Some(entry) if entry.until > now => {
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

    async fn complete(&self, ticket: &Ticket, keep: Duration) -> Result<bool, Infallible> {
        Ok(self.with(|state, now| {
            let free = state.is_free_for(ticket, now);
            if free {
                let done = Entry { until: now.saturating_add(keep), token: None };
                state.entries.insert(ticket.key().clone(), done);
            }
            free
        }))
    }

    async fn release(&self, ticket: &Ticket) -> Result<(), Infallible> {
        self.with(|state, _| {
            let held = state.entries.get(ticket.key());
            if held.is_some_and(|entry| entry.token.as_deref() == Some(ticket.token())) {
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
        let held = self.with(|state, _| state.entries.len());
        f.debug_struct("MemoryStore").field("held", &held).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was done long ago goes, what is remembered stays.
    #[test]
    #[cfg_attr(miri, ignore = "thousands of deliveries take it minutes, in safe code")]
    fn the_store_does_not_grow_for_ever() {
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

    /// However often the others are swept out.
    #[tokio::test]
    #[cfg_attr(miri, ignore = "thousands of deliveries take it minutes, in safe code")]
    async fn what_is_held_or_done_stays_until_its_time_is_over() {
        let store = MemoryStore::with_clock(|| Duration::ZERO);
        let instant = Duration::from_nanos(1);
        let key = |n| DeliveryKey::new(&format!("mail:id:{n}"));
        for n in 0..3000 {
            let Claim::New(ticket) = store.claim(&key(n), instant).await.unwrap() else {
                panic!("{n} is new")
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
    #[cfg_attr(miri, ignore = "thousands of deliveries take it minutes, in safe code")]
    fn a_flood_leaves_nothing_behind() {
        let mut state = State::default();
        let lease = Duration::from_secs(60);
        let mut claim = |n, now| {
            let key = DeliveryKey::new(&format!("mail:id:{n}"));
            assert!(matches!(state.claim(&key, lease, now), Claim::New(_)));
            state.entries.len()
        };
        let deliveries = 5000;
        let flood = (0..deliveries).map(|n| claim(n, Duration::ZERO)).max();
        assert_eq!(flood, Some(deliveries));
        // Nothing else for long; then one now and then.
        claim(deliveries, 2 * lease);
        assert_eq!(claim(deliveries + 1, 4 * lease), 2);
        assert!(state.entries.capacity() < deliveries, "{}", state.entries.capacity());
    }
}
