//! The error of a failed verification.

/// The delivery is not authentic: respond 401 with an empty body.
///
/// [`MissingSignature`](Self::MissingSignature),
/// [`DuplicateSignature`](Self::DuplicateSignature) and
/// [`MalformedSignature`](Self::MalformedSignature) describe the header, which
/// the sender of the request already knows. Every other failure is the same
/// opaque [`Mismatch`](Self::Mismatch), so that the error reveals nothing about
/// the secret or the expected signature. To find the cause during development,
/// use the `diagnose` module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The request has no signature header.
    #[error("the signature header is missing")]
    MissingSignature,
    /// The request has more than one signature header.
    #[error("the signature header is given more than once")]
    DuplicateSignature,
    /// The signature header does not match the scheme's format.
    #[error("the signature header is malformed")]
    MalformedSignature,
    /// No active secret produces this signature for this body.
    #[error("the signature does not match")]
    Mismatch,
}

/// An error of your own: of a store, or of a function that resolves verifiers.
#[cfg(any(feature = "_receiver", feature = "dedup"))]
pub type BoxError = Box<dyn core::error::Error + Send + Sync>;
