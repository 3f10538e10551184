//! Why a delivery is not trusted.

/// The delivery is not trusted: answer 401 and nothing else.
///
/// The first three say only what the sender of the request knows already. A
/// signature that is well formed and wrong is [`Mismatch`](Self::Mismatch),
/// whatever the cause; `diagnose` looks for the cause on a developer's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The signature header is absent.
    #[error("the signature header is missing")]
    MissingSignature,
    /// The signature header has more than one line.
    #[error("the signature header is given more than once")]
    RepeatedSignature,
    /// The signature header does not follow the scheme's grammar.
    #[error("the signature header is malformed")]
    MalformedSignature,
    /// No active secret made this signature of this body.
    #[error("the signature does not match")]
    Mismatch,
}
