//! Verification in one shot.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use crate::mac::{Keyed, same_tag};
use crate::{Extraction, Mail, Scheme, Secret, SecretError, Signature, Tag, Verified, VerifyError};

/// Verifies deliveries of the extraction service.
pub type ExtractionVerifier = Verifier<Extraction>;

/// Verifies deliveries of the email service.
pub type MailVerifier = Verifier<Mail>;

/// How many secrets can be active at once.
pub const MAX_SECRETS: usize = 4;

/// Verifies deliveries of one scheme with up to four secrets.
///
/// Make it once and keep it: the secrets' part of the work is done when it is
/// made. Clones share the keyed states. Verifying allocates nothing.
///
/// ```
/// use webhook_verify::{ExtractionEvent, ExtractionSigner, ExtractionVerifier, Secret};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let body = br#"{"event":"extraction.completed","id":"7c0e","data":{},"created":"2026-01-01T00:00:00Z"}"#;
/// # let header = ExtractionSigner::new(&Secret::new("whsec_3f1c")?).sign(body).to_string();
/// let verifier = ExtractionVerifier::new(Secret::new("whsec_3f1c")?);
///
/// let delivery = verifier.verify(&header, body)?.into_delivery()?;
/// assert_eq!(*delivery.event(), ExtractionEvent::Completed);
/// assert!(verifier.verify(&header, b"{}").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Verifier<S> {
    keys: Arc<[Keyed]>,
    scheme: PhantomData<S>,
}

impl<S: Scheme> Verifier<S> {
    /// A verifier with one active secret.
    #[expect(clippy::needless_pass_by_value, reason = "the caller has no further use for it")]
    pub fn new(secret: Secret) -> Self {
        Self::of([Keyed::new(&secret)].into())
    }

    /// A verifier with several active secrets, the newest first: what a
    /// rotation needs while deliveries signed with the old one still come in.
    ///
    /// Each older secret costs a second computation for the deliveries that
    /// the newer ones did not sign, forged ones included.
    ///
    /// # Errors
    ///
    /// [`SecretError::None`] for none, [`SecretError::TooMany`] for more than
    /// [`MAX_SECRETS`].
    pub fn rotating(newest_first: impl IntoIterator<Item = Secret>) -> Result<Self, SecretError> {
        let keys: Vec<_> =
            newest_first.into_iter().take(MAX_SECRETS + 1).map(|s| Keyed::new(&s)).collect();
        match keys.len() {
            0 => Err(SecretError::None),
            1..=MAX_SECRETS => Ok(Self::of(keys.into())),
            _ => Err(SecretError::TooMany),
        }
    }

    /// Verifies a body against the value of its signature header.
    ///
    /// The body is the exact bytes that were received. It can be borrowed or
    /// owned (`&[u8]`, `Vec<u8>`, `Bytes`) and comes back in the [`Verified`].
    ///
    /// # Errors
    ///
    /// [`VerifyError::MalformedSignature`] before the body is looked at,
    /// [`VerifyError::Mismatch`] otherwise.
    pub fn verify<B: AsRef<[u8]>>(
        &self,
        header: impl AsRef<[u8]>,
        body: B,
    ) -> Result<Verified<S, B>, VerifyError> {
        self.verify_signature(&Signature::parse(header)?, body)
    }

    /// Verifies a body against all lines of the signature header: exactly one
    /// is accepted.
    ///
    /// # Errors
    ///
    /// [`VerifyError`], as for [`Signature::from_lines`] and
    /// [`verify`](Self::verify).
    pub fn verify_lines<B: AsRef<[u8]>, L: AsRef<[u8]>>(
        &self,
        lines: impl IntoIterator<Item = L>,
        body: B,
    ) -> Result<Verified<S, B>, VerifyError> {
        self.verify_signature(&Signature::from_lines(lines)?, body)
    }

    /// Verifies a body against a signature that was read before.
    ///
    /// # Errors
    ///
    /// [`VerifyError::Mismatch`].
    pub fn verify_signature<B: AsRef<[u8]>>(
        &self,
        signature: &Signature<S>,
        body: B,
    ) -> Result<Verified<S, B>, VerifyError> {
        let bytes = body.as_ref();
        // Which secret matched is no secret, so the search may end there.
        let matched = self
            .keys
            .iter()
            .position(|key| same_tag(&key.tag_of(bytes), signature.tag()))
            .ok_or(VerifyError::Mismatch)?;
        Ok(Verified::new(body, Tag::new(*signature.tag()), matched))
    }

    /// How many secrets are active.
    pub fn secrets(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn keys(&self) -> &[Keyed] {
        &self.keys
    }

    fn of(keys: Arc<[Keyed]>) -> Self {
        Self { keys, scheme: PhantomData }
    }
}

impl<S: Scheme> fmt::Debug for Verifier<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier")
            .field("scheme", &S::NAME)
            .field("secrets", &self.secrets())
            .finish()
    }
}
