//! The time between two attempts.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    pub(crate) first: Duration,
    pub(crate) max: Duration,
}

impl Backoff {
    /// The delay after a failed attempt, which are counted from 1: it doubles with each
    /// attempt up to the maximum, and is between half of that and all of it.
    pub(crate) fn after(self, attempt: u32) -> Duration {
        let factor = 2_u32.saturating_pow(attempt.saturating_sub(1));
        let full = self.first.saturating_mul(factor).min(self.max);
        full.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_maximum_with_jitter() {
        let backoff = Backoff { first: Duration::from_secs(5), max: Duration::from_secs(60) };
        for (attempt, full) in [(1, 5), (2, 10), (4, 40), (5, 60), (40, 60), (u32::MAX, 60)] {
            let full = Duration::from_secs(full);
            let delays: Vec<_> = (0..100).map(|_| backoff.after(attempt)).collect();
            assert!(delays.iter().all(|delay| *delay >= full / 2 && *delay <= full));
            assert!(delays.iter().any(|delay| *delay != delays[0]), "no jitter");
        }
    }
}
