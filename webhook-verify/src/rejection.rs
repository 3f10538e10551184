//! The reasons why a delivery is rejected.

use std::fmt;
use std::time::Duration;

/// The reason why a delivery is rejected.
///
/// The adapters respond with [`status`](Self::status) and an empty body, and log the reason with
/// `tracing`. If you respond yourself, do the same. A mismatch has no further reason, so that the
/// error reveals nothing about the secret or the expected signature; to find the cause during
/// development, use `svc verify`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The request has no signature header of a service that the verifier has a secret of: 401.
    #[error("the signature header is missing: `Mail-Signature` or `X-Service-Signature`")]
    MissingSignature,
    /// The request has more than one signature header: 401.
    #[error("there is more than one signature header")]
    DuplicateSignature,
    /// The signature header does not have the service's format: 401.
    #[error("the signature header is malformed")]
    MalformedSignature,
    /// No secret produces this signature for this body: 401.
    #[error("the signature does not match")]
    Mismatch,
    /// The resolver of [`Receiver::resolving`](crate::Receiver::resolving) knows no tenant for
    /// the request: 401.
    #[error("there is no verifier for this request")]
    UnknownTenant,
    /// The resolver of [`Receiver::resolving`](crate::Receiver::resolving) failed: 503. Its error
    /// is logged separately.
    #[error("the verifier for this request could not be resolved")]
    ResolverFailed,
    /// The body exceeds the size limit: 413.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The body did not arrive within the time limit: 408.
    #[error("the body did not arrive within {} ms", .timeout.as_millis())]
    Timeout {
        /// The limit of [`Receiver::body_timeout`](crate::Receiver::body_timeout).
        timeout: Duration,
    },
    /// The body could not be read completely, so it could not be verified: 401.
    #[error("the body could not be read completely")]
    Unreadable,
    /// The verified body is not JSON: 400.
    #[error("the body is not JSON (line {line}, column {column})")]
    NotJson {
        /// Line of the first syntax error, starting at 1.
        line: usize,
        /// Column of the first syntax error, starting at 1.
        column: usize,
    },
    /// A field of the verified body occurs more than once: 400. Two parsers could pick different
    /// values, so the delivery is ambiguous.
    #[error("a field of the delivery occurs more than once")]
    DuplicateField,
    /// The delivery was created longer ago than the maximum age: 400.
    #[error("the delivery is too old")]
    TooOld,
    /// The delivery was created later than the clock of this machine says, by more than five
    /// minutes: 503, because that clock may be slow, and the sender's retry must not be lost.
    #[error("the delivery is dated in the future")]
    InTheFuture,
    /// The delivery has no readable `created` time, which an explicit maximum age needs: 400.
    #[error("the delivery has no readable creation time")]
    UnknownAge,
}

impl Rejection {
    /// The HTTP status of the response: 400, 401, 408, 413 or 503.
    pub fn status(&self) -> u16 {
        match self {
            Self::MissingSignature
            | Self::DuplicateSignature
            | Self::MalformedSignature
            | Self::Mismatch
            | Self::UnknownTenant
            | Self::Unreadable => 401,
            Self::Timeout { .. } => 408,
            Self::TooLarge { .. } => 413,
            Self::ResolverFailed | Self::InTheFuture => 503,
            _ => 400,
        }
    }

    /// The value of the response's `Retry-After` header, in seconds. Only a 503 response has one.
    pub fn retry_after(&self) -> Option<u64> {
        (self.status() == 503).then_some(5)
    }
}

/// A verified body, or its `data`, does not deserialize into the requested type.
///
/// `Display` and `Debug` give the position of the error and nothing of the content.
#[derive(thiserror::Error)]
#[error("the JSON does not fit the type (line {}, column {})", .0.line(), .0.column())]
pub struct JsonError(pub(crate) serde_json::Error);

impl JsonError {
    /// The `serde_json` error. It **may quote the content**, so do not log it.
    pub fn detail(&self) -> &serde_json::Error {
        &self.0
    }
}

impl fmt::Debug for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonError({}:{})", self.0.line(), self.0.column())
    }
}
