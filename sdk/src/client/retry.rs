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
    pub(crate) max_retry_after: Duration,
    pub(crate) time_left: Duration,
    /// How long this attempt took to fail: the next one will hardly be done
    /// sooner.
    pub(crate) took: Duration,
    pub(crate) back_off: BackOff,
    /// From 0 to 1: which part of the back-off to wait.
    pub(crate) jitter: f64,
}

/// The longest waits where the service names none: the first one, doubled each
/// time, up to the longest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackOff {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

impl Default for BackOff {
    fn default() -> Self {
        Self { first: Duration::from_millis(250), longest: Duration::from_secs(8) }
    }
}

impl BackOff {
    pub(crate) fn after(self, attempts: u32) -> Duration {
        let doublings = attempts.saturating_sub(1).min(30);
        self.first.saturating_mul(1 << doublings).min(self.longest)
    }
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
        Some(asked) if asked > situation.max_retry_after => return Decision::GiveUp,
        Some(asked) => asked,
        None => situation.back_off.after(attempts).mul_f64(situation.jitter.clamp(0.0, 1.0)),
    };
    match wait.checked_add(situation.took) {
        Some(needed) if needed < situation.time_left => Decision::RetryAfter(wait),
        _ => Decision::GiveUp,
    }
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

    /// A retry that was taken and is waited for.
    pub(crate) fn unmade(&self) -> RetryPermit<'_> {
        RetryPermit(Some(self))
    }

    /// A success gives back a tenth of a retry.
    pub(crate) fn deposit(&self) {
        if self.tenths.load(Ordering::Relaxed) < self.most {
            self.tenths.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Gives a retry back when who waits for it gives up.
pub(crate) struct RetryPermit<'a>(Option<&'a Budget>);

impl RetryPermit<'_> {
    pub(crate) fn made(mut self) {
        self.0 = None;
    }
}

impl Drop for RetryPermit<'_> {
    fn drop(&mut self) {
        if let Some(Budget { tenths, most }) = self.0 {
            let give = |tenths: u32| Some(tenths.saturating_add(10).min(*most));
            let _ = tenths.fetch_update(Ordering::Relaxed, Ordering::Relaxed, give);
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

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use proptest::prelude::*;

    use super::Failure::{Ambiguous, Final, NotSent, Status};
    use super::*;

    const NO_WAIT: Decision = Decision::RetryAfter(Duration::ZERO);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn situation(failure: Failure, repeatable: bool) -> Situation {
        Situation {
            failure,
            repeatable,
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
    fn what_is_repeated_after_which_failure() {
        #[rustfmt::skip]
        let table = [
            // failure       harmless  a send
            (NotSent,        true,     true),
            (Ambiguous,      true,     false),
            (Final,          false,    false),
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
        for (failure, harmless, send) in table {
            let decide = |repeatable| decide(&situation(failure, repeatable)) == NO_WAIT;
            assert_eq!((decide(true), decide(false)), (harmless, send), "{failure:?}");
        }
    }

    #[test]
    fn when_it_is_repeated() {
        type Change = fn(&mut Situation);
        let at = |change: Change| {
            let mut situation = situation(Status(429), false);
            change(&mut situation);
            decide(&situation)
        };
        let wait = |wait| Decision::RetryAfter(ms(wait));
        let table: [(Change, Decision); 18] = [
            // Full jitter over a doubling back-off.
            (|s| s.jitter = 1.0, wait(250)),
            (|s| s.jitter = 0.5, wait(125)),
            (|s| (s.jitter, s.attempts, s.retries) = (1.0, 2, 9), wait(500)),
            (|s| (s.jitter, s.attempts, s.retries) = (1.0, 6, 9), wait(8_000)),
            (|s| (s.jitter, s.attempts, s.retries) = (1.0, u32::MAX - 1, u32::MAX), wait(8_000)),
            // What the service asks for, not more and not less.
            (|s| s.retry_after = Some(ms(0)), wait(0)),
            (|s| (s.retry_after, s.jitter) = (Some(ms(3_000)), 1.0), wait(3_000)),
            (|s| (s.retry_after, s.time_left) = (Some(ms(60_000)), ms(90_000)), wait(60_000)),
            (|s| (s.retry_after, s.time_left) = (Some(ms(60_001)), ms(90_000)), Decision::GiveUp),
            (|s| s.retry_after = Some(Duration::MAX), Decision::GiveUp),
            // As many attempts as allowed.
            (|s| s.retries = 0, Decision::GiveUp),
            (|s| s.attempts = 2, wait(0)),
            (|s| s.attempts = 3, Decision::GiveUp),
            // Only what can be done in time.
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

    /// Every combination of everything, against the rules as sentences.
    #[test]
    fn every_combination_keeps_the_rules() {
        let failures = [NotSent, Ambiguous, Final, Status(404), Status(429), Status(503)];
        let mut combinations = 0;
        for failure in failures {
            for repeatable in [false, true] {
                for (attempts, retries) in
                    [(1, 0), (1, 1), (2, 1), (1, 2), (2, 2), (3, 2), (9, u32::MAX)]
                {
                    for retry_after in [None, Some(0), Some(1_000), Some(60_000), Some(60_001)] {
                        for time_left in [0, 5, 999, 1_011, 9_000, 61_000] {
                            for jitter in [0.0, 0.3, 1.0] {
                                let situation = Situation {
                                    attempts,
                                    retries,
                                    retry_after: retry_after.map(ms),
                                    time_left: ms(time_left),
                                    jitter,
                                    ..situation(failure, repeatable)
                                };
                                check(&situation);
                                combinations += 1;
                            }
                        }
                    }
                }
            }
        }
        assert_eq!(combinations, 6 * 2 * 7 * 5 * 6 * 3);
    }

    fn check(situation: &Situation) {
        let certainly_not_done = matches!(situation.failure, NotSent | Status(429));
        let transient = certainly_not_done || matches!(situation.failure, Ambiguous | Status(503));
        let allowed = transient && (certainly_not_done || situation.repeatable);
        let longest = situation.back_off.after(situation.attempts);
        match decide(situation) {
            Decision::RetryAfter(wait) => {
                assert!(allowed, "{situation:?}");
                assert!(situation.attempts <= situation.retries, "{situation:?}");
                assert!(wait + situation.took < situation.time_left, "{situation:?}");
                match situation.retry_after {
                    Some(asked) => assert_eq!(wait, asked),
                    None => assert!(wait <= longest),
                }
            }
            Decision::GiveUp => {
                let wait = situation.retry_after.unwrap_or(longest.mul_f64(situation.jitter));
                let possible = allowed
                    && situation.attempts <= situation.retries
                    && wait <= situation.max_retry_after
                    && wait + situation.took < situation.time_left;
                assert!(!possible, "{situation:?}");
            }
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
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
        fn any_retry_after_is_read_without_panic(value in ".*") {
            parse_retry_after(&value, SystemTime::UNIX_EPOCH);
        }

        #[test]
        fn any_number_of_seconds_comes_back(seconds in any::<u32>()) {
            let wait = parse_retry_after(&seconds.to_string(), SystemTime::now());
            prop_assert_eq!(wait, Some(Duration::from_secs(seconds.into())));
        }

        #[test]
        fn any_date_in_the_future_is_waited_for(seconds in 0u64..4_000_000_000) {
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            let wait = parse_retry_after(&httpdate::fmt_http_date(at), SystemTime::UNIX_EPOCH);
            prop_assert_eq!(wait, Some(Duration::from_secs(seconds)));
        }
    }

    #[test]
    fn the_budget_is_spent_by_retries_and_earned_by_successes() {
        let budget = Budget::new(2);
        assert!(budget.withdraw());
        assert!(budget.withdraw());
        assert!(!budget.withdraw());
        (0..9).for_each(|_| budget.deposit());
        assert!(!budget.withdraw());
        budget.deposit();
        assert!(budget.withdraw());
        (0..1_000).for_each(|_| budget.deposit());
        assert!(budget.withdraw());
        assert!(budget.withdraw());
        assert!(!budget.withdraw());
    }
}
