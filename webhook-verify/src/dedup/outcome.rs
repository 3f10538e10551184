//! The results of handling a delivery once.

use std::time::Duration;

use crate::BoxError;

/// The result of [`Dedup::run_once`](super::Dedup::run_once).
///
/// As an HTTP response: the handler's own response, 200 for a duplicate, and 503
/// with `Retry-After` for a delivery in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// The delivery was new. Contains the handler's value.
    Handled(T),
    /// The delivery was handled before. The handler did not run.
    Duplicate,
    /// Another attempt is being handled. The sender should retry later.
    InFlight {
        /// Time until the lease of the other attempt ends, unless it is renewed.
        retry_after: Duration,
    },
}

/// The error of [`Dedup::run_once`](super::Dedup::run_once): the delivery was not handled.
///
/// As an HTTP response: the handler's own error response, or 503 with
/// `Retry-After` if the store failed.
#[derive(Debug, thiserror::Error)]
pub enum DedupError<E> {
    /// The handler failed. The delivery is released, so its retry is handled.
    #[error("the handler failed")]
    Handler(#[source] E),
    /// The store failed, or did not respond in time, before the handler ran.
    #[error("the de-duplication store failed")]
    Store(#[source] BoxError),
}

/// The duration in seconds for `Retry-After`, rounded up and at least 1.
#[cfg(any(feature = "axum", feature = "actix", feature = "lambda", feature = "tower"))]
pub(super) fn retry_after_seconds(retry_after: Duration) -> u64 {
    let fraction = u64::from(retry_after.subsec_nanos() > 0);
    retry_after.as_secs().saturating_add(fraction).max(1)
}

/// `Retry-After` in seconds if the store fails.
#[cfg(any(feature = "axum", feature = "actix", feature = "lambda", feature = "tower"))]
pub(super) const STORE_RETRY_AFTER: u64 = 5;

#[cfg(any(feature = "axum", feature = "actix", feature = "lambda", feature = "tower"))]
pub(super) fn log_store_error(error: &BoxError) {
    tracing::error!(error = ?crate::log_text::LogText(error), "the de-duplication store failed");
}
