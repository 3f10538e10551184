//! [`BackOff`]: the wait after a failure, in real time.

use std::time::Duration;

use tokio::time::Instant;

/// Doubles with every failure in a row.
#[derive(Debug, Default)]
pub(super) struct BackOff {
    failures: u32,
    until: Option<Instant>,
}

impl BackOff {
    pub(super) fn fail(&mut self) {
        self.failures = self.failures.saturating_add(1);
        let wait = Duration::from_millis(100 << self.failures.clamp(1, 6));
        self.until = Some(Instant::now() + wait);
    }

    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_over(&self) -> bool {
        self.remaining().is_zero()
    }

    pub(super) fn remaining(&self) -> Duration {
        self.until.map_or(Duration::ZERO, |until| until - Instant::now())
    }
}
