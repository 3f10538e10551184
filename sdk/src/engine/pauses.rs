//! When a call may start: the pauses that the service asked for, and the rate that the application
//! has set.

use std::collections::HashMap;
use std::sync::Mutex;

use http::HeaderValue;
use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep_until, timeout_at};

use super::connections::lock;
use crate::operation::Operation;

/// The clock cannot represent what is much longer.
pub(super) const MAX_TIMEOUT: Duration = Duration::from_secs(100 * 365 * 86_400);

/// A pause that the service asked for with a 429 and `Retry-After`. Returned by
/// [`EmailClient::pauses`](crate::EmailClient::pauses).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pause {
    /// The operation whose calls wait. `None` stands for raw requests that match no documented
    /// operation. A pause of [`EmailsSend`](Operation::EmailsSend) is one of batches, too.
    pub operation: Option<Operation>,
    /// How long it still lasts.
    pub left: Duration,
}

/// The pauses of a client and its clones. A pause holds back the calls with the same key to the
/// operation that the service limited, and no others.
#[derive(Default)]
pub(super) struct Pauses {
    until: Mutex<HashMap<Limited, Instant>>,
    ended: Notify,
}

/// The requests that the service limited.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Limited {
    /// The value of the key's header: keys of other organizations have limits of their own.
    api_key: HeaderValue,
    operation: Option<Operation>,
}

impl Limited {
    fn new(api_key: &HeaderValue, operation: Option<Operation>) -> Self {
        let operation = match operation {
            // Both send emails, which is what a service limits.
            Some(Operation::EmailsSendBatch) => Some(Operation::EmailsSend),
            other => other,
        };
        Self {
            api_key: api_key.clone(),
            operation,
        }
    }
}

impl Pauses {
    pub(super) fn pause(
        &self,
        api_key: &HeaderValue,
        operation: Option<Operation>,
        until: Instant,
    ) {
        let mut pauses = lock(&self.until);
        let now = Instant::now();
        pauses.retain(|_, end| *end > now);

        let end = pauses
            .entry(Limited::new(api_key, operation))
            .or_insert(until);
        *end = until.max(*end);
    }

    /// Waits until the operation may be called, and then for a random time, because a service would
    /// refuse most calls that start at the same moment. The less time a call has left of its
    /// `timeout`, the sooner it starts. Returns the end of the pause if it is not before `latest`.
    pub(super) async fn wait(
        &self,
        api_key: &HeaderValue,
        operation: Option<Operation>,
        timeout: Duration,
        latest: Instant,
    ) -> Result<(), Instant> {
        loop {
            // Listens before it looks, so that it misses no end.
            let ended = self.ended.notified();
            let Some(end) = self.end_of_pause(api_key, operation) else {
                return Ok(());
            };
            if end >= latest {
                return Err(end);
            }

            let start = end + spread(latest - end, timeout).mul_f64(fastrand::f64());
            let _ = timeout_at(start, ended).await;
            // Meanwhile, another call may have been told to wait longer.
        }
    }

    fn end_of_pause(&self, api_key: &HeaderValue, operation: Option<Operation>) -> Option<Instant> {
        let pauses = lock(&self.until);
        // So that no key has to be copied while there are no pauses, which is nearly always.
        if pauses.is_empty() {
            return None;
        }
        let end = *pauses.get(&Limited::new(api_key, operation))?;
        (end > Instant::now()).then_some(end)
    }

    /// The pauses of a key that are not over.
    pub(super) fn of(&self, api_key: &HeaderValue) -> Vec<Pause> {
        let now = Instant::now();
        let mut found = Vec::new();
        for (limited, end) in lock(&self.until).iter() {
            if limited.api_key == *api_key && *end > now {
                found.push(Pause {
                    operation: limited.operation,
                    left: *end - now,
                });
            }
        }

        found.sort_by_key(|pause| pause.operation);
        found
    }

    /// Ends the pauses of a key. The calls that wait start at once.
    pub(super) fn end(&self, api_key: &HeaderValue) {
        lock(&self.until).retain(|limited, _| limited.api_key != *api_key);
        self.ended.notify_waiters();
    }
}

/// Within which time after a pause a call starts that has this much left of its `timeout`.
fn spread(left: Duration, timeout: Duration) -> Duration {
    /// The part of a call that has all its time left.
    const MAX_SHARE: f64 = 1.0 / 40.0;
    const LONGEST: Duration = Duration::from_secs(5);
    let share = left.as_secs_f64() / timeout.as_secs_f64();
    left.mul_f64(share * MAX_SHARE).min(LONGEST)
}

/// Spaces the attempts of a client and its clones evenly.
pub(super) struct Rate {
    interval: Duration,
    /// When the next attempt may start.
    next: Mutex<Instant>,
}

impl Rate {
    pub(super) fn per_second(attempts: f64) -> Self {
        Self {
            interval: Duration::from_secs_f64(1.0 / attempts),
            next: Mutex::new(Instant::now()),
        }
    }

    /// Waits for the turn of an attempt. Returns the time of that turn if it is not before `latest`;
    /// another attempt may then have it.
    pub(super) async fn wait(&self, latest: Instant) -> Result<(), Instant> {
        let turn = {
            let mut next = lock(&self.next);
            let turn = Instant::now().max(*next);
            if turn >= latest {
                return Err(turn);
            }
            *next = turn + self.interval;
            turn
        };
        if turn > Instant::now() {
            sleep_until(turn).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_start_soon_after_a_pause_however_long_they_may_take() {
        let [half, minute, hour] = [30, 60, 3600].map(Duration::from_secs);
        assert_eq!(spread(minute, minute), Duration::from_millis(1500));
        assert_eq!(spread(half, minute), Duration::from_millis(375));
        assert_eq!(spread(hour, hour), Duration::from_secs(5));
    }
}
