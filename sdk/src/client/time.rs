//! Timers and deadlines. They use tokio's clock, which tests can pause.

#[cfg(feature = "rate-limit")]
pub(super) use tokio::time::sleep_until;
pub(super) use tokio::time::{Duration, Instant, sleep, timeout_at};

/// The wall-clock time, for dates in headers.
pub(super) fn now() -> std::time::SystemTime {
    std::time::SystemTime::now()
}
