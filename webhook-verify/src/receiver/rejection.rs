//! The reasons why a receiver rejects a request.

use std::time::Duration;

use crate::{AgeError, BodyTooLarge, EnvelopeError, VerifyError};

/// The reason why a [`Receiver`](crate::Receiver) rejects a request.
///
/// The adapters respond with [`status`](Self::status) and an empty body, and log
/// the reason with `tracing`. If you respond yourself, do the same: the reason
/// helps an attacker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The signature is missing, malformed or wrong: 401.
    #[error(transparent)]
    Signature(#[from] VerifyError),
    /// [`Receiver::resolving`](crate::Receiver::resolving) found no verifier for the
    /// request: 401.
    #[error("there is no verifier for this request")]
    UnknownVerifier,
    /// The function of [`Receiver::resolving`](crate::Receiver::resolving) failed: 503. Its
    /// error is logged separately.
    #[error("the verifier for this request could not be resolved")]
    ResolverFailed,
    /// The two receivers of an [`AnyReceiver`](crate::AnyReceiver) have a secret in common:
    /// 500. No delivery is accepted until one of them has another secret.
    #[error("both services have the same signing secret")]
    SharedSecret,
    /// The body exceeds the size limit: 413.
    #[error(transparent)]
    TooLarge(#[from] BodyTooLarge),
    /// The body did not arrive within the time limit: 408.
    #[error("the body did not arrive within {} ms", .timeout.as_millis())]
    Timeout {
        /// The limit of [`Receiver::body_timeout`](crate::Receiver::body_timeout).
        timeout: Duration,
    },
    /// The bodies that wait for their verification exceed
    /// [`Receiver::unverified_limit`](crate::Receiver::unverified_limit), and this one has
    /// waited longest: 503.
    #[error("the unverified bodies of all requests exceed {limit} bytes")]
    Overloaded {
        /// The limit in bytes.
        limit: usize,
    },
    /// The body could not be read completely or decoded, so it could not be
    /// verified: 401.
    #[error("the body could not be read completely")]
    Unreadable,
    /// The verified body is not a delivery: 400.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// The verified delivery's age is unknown or out of range: 400.
    #[error(transparent)]
    Age(#[from] AgeError),
}

impl Rejection {
    /// The HTTP status of the response: 400, 401, 408, 413, 500 or 503.
    pub fn status(&self) -> u16 {
        match self {
            Self::Signature(_) | Self::UnknownVerifier | Self::Unreadable => 401,
            Self::Timeout { .. } => 408,
            Self::TooLarge(_) => 413,
            Self::Envelope(_) | Self::Age(_) => 400,
            Self::SharedSecret => 500,
            Self::ResolverFailed | Self::Overloaded { .. } => 503,
        }
    }

    /// The value of the response's `Retry-After` header, in seconds. Only a 503 response
    /// has one.
    pub fn retry_after(&self) -> Option<u64> {
        const SECONDS: u64 = 5;
        (self.status() == 503).then_some(SECONDS)
    }
}
