//! Decides whether and when a failed attempt is retried, as one pure function.
//!
//! A request is retry-safe if it is idempotent, or if it carries an idempotency key that
//! the service honors. Retry-safe requests are retried after any transient failure. All
//! others are retried only if they were certainly not processed: no connection was
//! established, the TLS handshake failed, the service responded with 429, or an HTTP/2
//! server refused the stream.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::time::Instant;

/// A failed attempt and everything the decision depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryContext {
    pub(crate) failure: Failure,
    /// Whether the request is idempotent or has an idempotency key that the service
    /// honors.
    pub(crate) retry_safe: bool,
    /// Number of attempts made, including this one, without those that
    /// [are invited back](Self::is_invited).
    pub(crate) attempts: u32,
    /// Maximum number of retries.
    pub(crate) retries: u32,
    pub(crate) retry_after: Option<Duration>,
    /// The longest `Retry-After` to wait for.
    pub(crate) max_retry_after: Duration,
    pub(crate) time_left: Duration,
    /// Duration of the failed attempt: the next one will hardly be faster.
    pub(crate) took: Duration,
    pub(crate) back_off: BackOff,
    /// Fraction of the back-off to wait, from 0 to 1.
    pub(crate) jitter: f64,
}

/// Exponential back-off, for responses without `Retry-After`: the upper limit of the pause
/// is `initial`, doubled with each attempt, up to `max`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackOff {
    pub(crate) initial: Duration,
    pub(crate) max: Duration,
}

impl Default for BackOff {
    fn default() -> Self {
        Self { initial: Duration::from_millis(250), max: Duration::from_secs(8) }
    }
}

impl BackOff {
    pub(crate) fn after(self, attempts: u32) -> Duration {
        let doublings = attempts.saturating_sub(1).min(30);
        self.initial.saturating_mul(1 << doublings).min(self.max)
    }
}

/// How an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The request certainly did not reach the service, or an HTTP/2 server refused it.
    NotSent,
    /// The connection was lost before the whole body was sent.
    CutOff,
    /// The request may have reached the service.
    Ambiguous,
    /// The service responded with this status.
    Status(u16),
    /// A retry would fail as well.
    Permanent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    RetryAfter(Duration),
    GiveUp,
}

impl RetryContext {
    /// Whether the service limits the request rate and says when to come back. Such a retry
    /// adds no load that the service did not ask for: it counts neither towards the maximum
    /// number of retries nor towards the retry budget. Zero says nothing about the time, so
    /// it counts: the client would otherwise repeat without a pause until the deadline.
    pub(crate) fn is_invited(&self) -> bool {
        self.failure == Failure::Status(429)
            && self.retry_after.is_some_and(|requested| !requested.is_zero())
    }
}

pub(crate) fn decide(context: &RetryContext) -> Decision {
    let RetryContext { failure, retry_safe, attempts, retries, .. } = *context;
    let may_repeat = match failure {
        Failure::NotSent | Failure::Status(429) => true,
        Failure::CutOff
        | Failure::Ambiguous
        | Failure::Status(408 | 425 | 500 | 502 | 503 | 504) => retry_safe,
        Failure::Status(_) | Failure::Permanent => false,
    };
    let is_used_up = if context.is_invited() { retries == 0 } else { attempts > retries };
    if !may_repeat || is_used_up {
        return Decision::GiveUp;
    }
    let wait = match context.retry_after {
        Some(requested) if requested > context.max_retry_after => return Decision::GiveUp,
        Some(requested) => requested,
        None => context.back_off.after(attempts).mul_f64(context.jitter.clamp(0.0, 1.0)),
    };
    match wait.checked_add(context.took) {
        Some(needed) if needed < context.time_left => Decision::RetryAfter(wait),
        _ => Decision::GiveUp,
    }
}

/// The retry budget that all clones of a client share. It refills with successes and with
/// time.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    max: u32,
    state: Mutex<BudgetState>,
}

#[derive(Debug)]
struct BudgetState {
    /// The remaining retries.
    left: f64,
    /// When the part that time returns was last added.
    since: Instant,
}

/// An empty budget is full again after this time.
const REFILL_TIME: Duration = Duration::from_secs(60);

/// The part of a retry that a success returns.
const PER_SUCCESS: f64 = 0.1;

impl RetryBudget {
    pub(crate) fn new(max: u32) -> Self {
        Self { max, state: Mutex::new(BudgetState { left: max.into(), since: Instant::now() }) }
    }

    /// Takes one retry from the budget. Returns `None` if the budget is spent. The retry
    /// returns to the budget if the permit is dropped unused.
    pub(crate) fn withdraw(&self) -> Option<RetryPermit<'_>> {
        let mut state = self.state();
        let now = Instant::now();
        let elapsed = now.saturating_duration_since(state.since).as_secs_f64();
        let refilled = elapsed / REFILL_TIME.as_secs_f64() * f64::from(self.max);
        state.left = (state.left + refilled).min(self.max.into());
        state.since = now;
        // Ten tenths do not add up to one exactly.
        if state.left < 1.0 - f64::EPSILON * 16.0 {
            return None;
        }
        state.left -= 1.0;
        Some(RetryPermit(Some(self)))
    }

    /// Puts back a tenth of a retry, after a success.
    pub(crate) fn deposit(&self) {
        self.give(PER_SUCCESS);
    }

    fn give(&self, retries: f64) {
        let mut state = self.state();
        state.left = (state.left + retries).min(self.max.into());
    }

    fn state(&self) -> MutexGuard<'_, BudgetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns its retry to the budget on drop, unless the retry was made: the call may be
/// dropped while it waits.
pub(crate) struct RetryPermit<'a>(Option<&'a RetryBudget>);

impl RetryPermit<'_> {
    /// A permit for a retry that costs nothing.
    pub(crate) const FREE: Self = Self(None);

    pub(crate) fn commit(mut self) {
        self.0 = None;
    }
}

impl Drop for RetryPermit<'_> {
    fn drop(&mut self) {
        if let Some(budget) = self.0 {
            budget.give(1.0);
        }
    }
}

/// `Retry-After`: seconds, or an HTTP date (RFC 9110 §10.2.3).
pub(crate) fn parse_retry_after(value: &str, now: std::time::SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that overflows means practically forever.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::from(u32::MAX))));
    }
    let at = httpdate::parse_http_date(value).ok()?;
    // A date in the past means no wait.
    Some(at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use proptest::prelude::*;

    use super::Failure::{Ambiguous, CutOff, NotSent, Permanent, Status};
    use super::*;

    const NO_WAIT: Decision = Decision::RetryAfter(Duration::ZERO);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn context(failure: Failure, retry_safe: bool) -> RetryContext {
        RetryContext {
            failure,
            retry_safe,
            attempts: 1,
            retries: 2,
            retry_after: None,
            max_retry_after: ms(60_000),
            time_left: ms(30_000),
            took: ms(10),
            back_off: BackOff::default(),
            jitter: 0.0,
        }
    }

    #[test]
    fn which_failures_are_retried() {
        #[rustfmt::skip]
        let table = [
            // failure       retry-safe  other
            (NotSent,        true,     true),
            (CutOff,         true,     false),
            (Ambiguous,      true,     false),
            (Permanent,      false,    false),
            (Status(302),    false,    false),
            (Status(400),    false,    false),
            (Status(401),    false,    false),
            (Status(403),    false,    false),
            (Status(404),    false,    false),
            (Status(408),    true,     false),
            (Status(409),    false,    false),
            (Status(413),    false,    false),
            (Status(422),    false,    false),
            (Status(425),    true,     false),
            (Status(429),    true,     true),
            (Status(500),    true,     false),
            (Status(501),    false,    false),
            (Status(502),    true,     false),
            (Status(503),    true,     false),
            (Status(504),    true,     false),
            (Status(505),    false,    false),
            (Status(507),    false,    false),
        ];
        for (failure, idempotent, send) in table {
            let decide = |retry_safe| decide(&context(failure, retry_safe)) == NO_WAIT;
            assert_eq!((decide(true), decide(false)), (idempotent, send), "{failure:?}");
        }
    }

    #[test]
    fn when_a_retry_is_made() {
        type Change = fn(&mut RetryContext);
        let at = |change: Change| {
            let mut context = context(Status(429), false);
            change(&mut context);
            decide(&context)
        };
        let wait = |wait| Decision::RetryAfter(ms(wait));
        let table: [(Change, Decision); 22] = [
            // Full jitter over an exponential back-off.
            (|s| s.jitter = 1.0, wait(250)),
            (|s| s.jitter = 0.5, wait(125)),
            (|s| (s.jitter, s.attempts, s.retries) = (1.0, 2, 9), wait(500)),
            (|s| (s.jitter, s.attempts, s.retries) = (1.0, 6, 9), wait(8_000)),
            (|s| (s.jitter, s.attempts, s.retries) = (1.0, u32::MAX - 1, u32::MAX), wait(8_000)),
            // Exactly what the service asks for.
            (|s| s.retry_after = Some(ms(0)), wait(0)),
            (|s| (s.retry_after, s.jitter) = (Some(ms(3_000)), 1.0), wait(3_000)),
            (|s| (s.retry_after, s.time_left) = (Some(ms(60_000)), ms(90_000)), wait(60_000)),
            (|s| (s.retry_after, s.time_left) = (Some(ms(60_001)), ms(90_000)), Decision::GiveUp),
            (|s| s.retry_after = Some(Duration::MAX), Decision::GiveUp),
            // Invited back by the service: as often as the deadline allows.
            (|s| (s.retry_after, s.attempts) = (Some(ms(1_000)), 9), wait(1_000)),
            (|s| (s.retry_after, s.attempts) = (Some(ms(0)), 9), Decision::GiveUp),
            (|s| (s.retry_after, s.retries) = (Some(ms(1_000)), 0), Decision::GiveUp),
            (
                |s| (s.retry_after, s.attempts, s.failure) = (Some(ms(1_000)), 9, NotSent),
                Decision::GiveUp,
            ),
            // No more attempts than allowed.
            (|s| s.retries = 0, Decision::GiveUp),
            (|s| s.attempts = 2, wait(0)),
            (|s| s.attempts = 3, Decision::GiveUp),
            // Only if there is enough time left.
            (|s| s.time_left = ms(0), Decision::GiveUp),
            (|s| s.time_left = ms(10), Decision::GiveUp),
            (|s| s.time_left = ms(11), wait(0)),
            (|s| s.retry_after = Some(ms(29_990)), Decision::GiveUp),
            (|s| s.retry_after = Some(ms(29_989)), wait(29_989)),
        ];
        for (row, (change, decision)) in table.into_iter().enumerate() {
            assert_eq!(at(change), decision, "row {row}");
        }
    }

    /// All combinations of inputs, checked against the rules stated in prose.
    #[test]
    fn all_combinations_follow_the_rules() {
        let failures = [NotSent, Ambiguous, Permanent, Status(404), Status(429), Status(503)];
        let mut combinations = 0;
        for failure in failures {
            for retry_safe in [false, true] {
                for (attempts, retries) in
                    [(1, 0), (1, 1), (2, 1), (1, 2), (2, 2), (3, 2), (9, u32::MAX)]
                {
                    for retry_after in [None, Some(0), Some(1_000), Some(60_000), Some(60_001)] {
                        for time_left in [0, 5, 999, 1_011, 9_000, 61_000] {
                            for jitter in [0.0, 0.3, 1.0] {
                                let context = RetryContext {
                                    attempts,
                                    retries,
                                    retry_after: retry_after.map(ms),
                                    time_left: ms(time_left),
                                    jitter,
                                    ..context(failure, retry_safe)
                                };
                                check(&context);
                                combinations += 1;
                            }
                        }
                    }
                }
            }
        }
        assert_eq!(combinations, 6 * 2 * 7 * 5 * 6 * 3);
    }

    fn check(context: &RetryContext) {
        let not_processed = matches!(context.failure, NotSent | Status(429));
        let transient = not_processed || matches!(context.failure, Ambiguous | Status(503));
        let allowed = transient && (not_processed || context.retry_safe);
        let max = context.back_off.after(context.attempts);
        let is_invited = context.failure == Status(429) && context.retry_after > Some(ms(0));
        let has_retries =
            context.retries > 0 && (is_invited || context.attempts <= context.retries);
        match decide(context) {
            Decision::RetryAfter(wait) => {
                assert!(allowed && has_retries, "{context:?}");
                assert!(wait + context.took < context.time_left, "{context:?}");
                match context.retry_after {
                    Some(requested) => assert_eq!(wait, requested),
                    None => assert!(wait <= max),
                }
            }
            Decision::GiveUp => {
                let wait = context.retry_after.unwrap_or(max.mul_f64(context.jitter));
                let possible = allowed
                    && has_retries
                    && wait <= context.max_retry_after
                    && wait + context.took < context.time_left;
                assert!(!possible, "{context:?}");
            }
        }
    }

    #[test]
    fn parses_retry_after_as_seconds_or_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let parse = |value| parse_retry_after(value, now).map(|wait| wait.as_secs());
        assert_eq!(parse("0"), Some(0));
        assert_eq!(parse(" 120 "), Some(120));
        assert_eq!(parse("99999999999999999999999"), Some(u64::from(u32::MAX)));
        assert_eq!(parse("Sun, 06 Nov 1994 08:50:07 GMT"), Some(30));
        assert_eq!(parse("Sunday, 06-Nov-94 08:50:07 GMT"), Some(30));
        assert_eq!(parse("Sun Nov  6 08:50:07 1994"), Some(30));
        assert_eq!(parse("Sun, 06 Nov 1994 08:49:07 GMT"), Some(0));
        for bad in ["", "-1", "1.5", "soon", "1 s", "+3"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn parsing_retry_after_never_panics(value in ".*") {
            parse_retry_after(&value, SystemTime::UNIX_EPOCH);
        }

        #[test]
        fn parses_any_number_of_seconds(seconds in any::<u32>()) {
            let wait = parse_retry_after(&seconds.to_string(), SystemTime::now());
            prop_assert_eq!(wait, Some(Duration::from_secs(seconds.into())));
        }

        #[test]
        fn parses_any_future_date(seconds in 0u64..4_000_000_000) {
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            let wait = parse_retry_after(&httpdate::fmt_http_date(at), SystemTime::UNIX_EPOCH);
            prop_assert_eq!(wait, Some(Duration::from_secs(seconds)));
        }
    }

    #[test]
    fn budget_is_spent_by_retries_and_refilled_by_successes() {
        let budget = RetryBudget::new(2);
        let spend = || budget.withdraw().map(RetryPermit::commit).is_some();
        assert!(spend() && spend() && !spend());
        (0..9).for_each(|_| budget.deposit());
        assert!(!spend());
        budget.deposit();
        assert!(spend());
        (0..1_000).for_each(|_| budget.deposit());
        assert!(spend() && spend() && !spend());
        // A retry that is not made returns.
        budget.give(1.0);
        drop(budget.withdraw());
        assert!(spend() && !spend());
    }

    #[tokio::test(start_paused = true)]
    async fn budget_is_refilled_by_time() {
        let budget = RetryBudget::new(60);
        let spend = || budget.withdraw().map(RetryPermit::commit).is_some();
        assert_eq!((0..100).filter(|_| spend()).count(), 60);
        tokio::time::advance(ms(999)).await;
        assert!(!spend());
        tokio::time::advance(ms(2)).await;
        assert!(spend() && !spend());
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert_eq!((0..100).filter(|_| spend()).count(), 60);
        // A budget of zero stays zero.
        let none = RetryBudget::new(0);
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert!(none.withdraw().is_none());
    }
}
