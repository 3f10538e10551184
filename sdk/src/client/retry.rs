//! Whether a failed attempt is followed by another one, and when: one pure
//! function.
//!
//! What is not harmless to repeat is repeated only where it certainly was not
//! processed: no connection was made, the TLS handshake failed, HTTP 429, or an
//! HTTP/2 refusal. Reads and harmless repeats are tried again on any transient
//! failure.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A failed attempt, and what was known then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    pub(crate) failure: Failure,
    /// Doing it twice is as doing it once, or the service honours the
    /// idempotency key that the call has.
    pub(crate) repeatable: bool,
    /// How many attempts were made, this one included.
    pub(crate) attempts: u32,
    /// How many may be made at most after the first.
    pub(crate) retries: u32,
    pub(crate) retry_after: Option<Duration>,
    /// The longest `Retry-After` to wait for.
    pub(crate) longest_wait: Duration,
    pub(crate) time_left: Duration,
    /// How long this attempt took to fail: the next one will hardly be done
    /// sooner.
    pub(crate) took: Duration,
    /// From 0 to 1: which part of the back-off to wait.
    pub(crate) jitter: f64,
}

/// Where an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It certainly did not reach the service, or the service refused to take
    /// it at all.
    NotSent,
    /// It may have reached the service.
    Ambiguous,
    /// The service answered with this status.
    Status(u16),
    /// It would fail again.
    Final,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    RetryAfter(Duration),
    GiveUp,
}

const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(8);

pub(crate) fn decide(situation: &Situation) -> Decision {
    let Situation { failure, repeatable, attempts, retries, .. } = *situation;
    let may_repeat = match failure {
        Failure::NotSent | Failure::Status(429) => true,
        Failure::Ambiguous | Failure::Status(408 | 425 | 500 | 502 | 503 | 504) => repeatable,
        Failure::Status(_) | Failure::Final => false,
    };
    if !may_repeat || attempts > retries {
        return Decision::GiveUp;
    }
    let wait = match situation.retry_after {
        Some(asked) if asked > situation.longest_wait => return Decision::GiveUp,
        Some(asked) => asked,
        None => back_off(attempts).mul_f64(situation.jitter.clamp(0.0, 1.0)),
    };
    match wait.checked_add(situation.took) {
        Some(needed) if needed < situation.time_left => Decision::RetryAfter(wait),
        _ => Decision::GiveUp,
    }
}

/// The longest wait after so many attempts: 250 ms, doubled each time, up to
/// 8 s.
fn back_off(attempts: u32) -> Duration {
    let doublings = attempts.saturating_sub(1).min(16);
    FIRST_WAIT.saturating_mul(1 << doublings).min(LONGEST_BACK_OFF)
}

/// How many retries all clones of a client may still make.
#[derive(Debug)]
pub(crate) struct Budget {
    /// In tenths of a retry.
    tenths: AtomicU32,
    most: u32,
}

impl Budget {
    pub(crate) fn new(retries: u32) -> Self {
        let most = retries.saturating_mul(10);
        Self { tenths: AtomicU32::new(most), most }
    }

    /// Takes one retry, if there is one.
    pub(crate) fn withdraw(&self) -> bool {
        let take = |tenths: u32| tenths.checked_sub(10);
        self.tenths.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// A success gives back a tenth of a retry.
    pub(crate) fn deposit(&self) {
        if self.tenths.load(Ordering::Relaxed) < self.most {
            self.tenths.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// `Retry-After`: seconds, or an HTTP date (RFC 9110 §10.2.3).
pub(crate) fn parse_retry_after(value: &str, now: std::time::SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More than fits is as good as for ever.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::from(u32::MAX))));
    }
    let at = httpdate::parse_http_date(value).ok()?;
    // A date that has passed asks for no wait.
    Some(at.duration_since(now).unwrap_or_default())
}
