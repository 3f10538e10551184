//! Time, as waits and deadlines need it: tokio's, which a test can move.

#[cfg(feature = "rate-limit")]
pub(super) use tokio::time::sleep_until;
pub(super) use tokio::time::{Duration, Instant, sleep, timeout_at};

/// The time of day, for dates in headers.
pub(super) fn now() -> std::time::SystemTime {
    std::time::SystemTime::now()
}
