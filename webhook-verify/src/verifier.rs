//! Verifies complete bodies.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;

use crate::mac::{HmacKey, tags_equal};
use crate::{
    BodyBytes, Extraction, Mail, Scheme, Secret, SecretError, Signature, Tag, Verified, VerifyError,
};

/// Verifies deliveries of the extraction service.
pub type ExtractionVerifier = Verifier<Extraction>;

/// Verifies deliveries of the email service.
pub type MailVerifier = Verifier<Mail>;

/// Maximum number of secrets that a [`Verifier`] accepts at the same time.
pub const MAX_SECRETS: usize = 4;

/// Verifies the signatures of webhook deliveries.
///
/// A verifier belongs to one [`Scheme`], as [`ExtractionVerifier`] or
/// [`MailVerifier`], and has one secret, or up to [`MAX_SECRETS`] during a
/// rotation. Create it once and reuse it: the part of the computation that
/// depends only on the secret is done on creation. Clones are cheap and share
/// their secrets, so that [`replace`](Self::replace) affects all of them. Verification does not allocate, and compares signatures in
/// constant time.
///
/// Pass in the body as the exact bytes that were received. JSON that was parsed
/// and serialized again is a different body. In a web framework, use the adapter
/// for it instead (`Receiver`): it reads the body for you and enforces limits.
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
    #[cfg(feature = "std")]
    keys: Arc<std::sync::RwLock<Arc<[HmacKey]>>>,
    #[cfg(not(feature = "std"))]
    keys: Arc<[HmacKey]>,
    scheme: PhantomData<S>,
}

impl<S: Scheme> Verifier<S> {
    /// Creates a verifier with one secret.
    #[expect(clippy::needless_pass_by_value, reason = "the caller should not keep the secret")]
    pub fn new(secret: Secret) -> Self {
        Self::from_keys([HmacKey::new(&secret)].into())
    }

    /// Creates a verifier that accepts several secrets, the newest first.
    ///
    /// Use it to rotate a secret: accept both the new and the old one until the
    /// last delivery signed with the old one has arrived. Secrets are tried in
    /// order, so a delivery that the newest did not sign, such as a forged one,
    /// costs one MAC computation per secret tried.
    ///
    /// ```
    /// use webhook_verify::{MailVerifier, Secret};
    ///
    /// # fn main() -> Result<(), webhook_verify::SecretError> {
    /// let new = Secret::new("whsec_3f1c")?;
    /// let old = Secret::new("whsec_9a80")?;
    /// let verifier = MailVerifier::with_secrets([new, old])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`SecretError::NoSecrets`] if there is no secret,
    /// [`SecretError::TooManySecrets`] if there are more than [`MAX_SECRETS`].
    pub fn with_secrets(
        newest_first: impl IntoIterator<Item = Secret>,
    ) -> Result<Self, SecretError> {
        Ok(Self::from_keys(keys_of(newest_first)?))
    }

    /// Replaces the secrets of this verifier and all its clones, the newest first, to
    /// rotate a secret without a restart.
    ///
    /// A verification in progress, such as that of a body that is still arriving, uses the
    /// secrets that it began with.
    ///
    /// ```
    /// use webhook_verify::{MailSigner, MailVerifier, Secret};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let old = Secret::new("whsec_9a80")?;
    /// let verifier = MailVerifier::new(old.clone());
    /// let in_the_receiver = verifier.clone();
    ///
    /// let new = Secret::new("whsec_3f1c")?;
    /// let header = MailSigner::new(&new).sign("{}").to_string();
    /// verifier.replace([new, old])?;
    /// assert!(in_the_receiver.verify(header, "{}").is_ok());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`with_secrets`](Self::with_secrets). The secrets are then not
    /// replaced.
    #[cfg(feature = "std")]
    pub fn replace(
        &self,
        newest_first: impl IntoIterator<Item = Secret>,
    ) -> Result<(), SecretError> {
        let keys = keys_of(newest_first)?;
        *self.keys.write().unwrap_or_else(std::sync::PoisonError::into_inner) = keys;
        Ok(())
    }

    /// Verifies a body against the value of its signature header.
    ///
    /// The body can be borrowed or owned (`&[u8]`, `Vec<u8>`, `Bytes`) and is
    /// returned in the [`Verified`].
    ///
    /// # Errors
    ///
    /// [`VerifyError::MalformedSignature`] if the header does not have the
    /// scheme's format, [`VerifyError::Mismatch`] if no secret produces this
    /// signature.
    pub fn verify<B: BodyBytes>(
        &self,
        header: impl AsRef<[u8]>,
        body: B,
    ) -> Result<Verified<S, B>, VerifyError> {
        self.verify_signature(&Signature::parse(header)?, body)
    }

    /// Verifies a body against all values of the signature header, of which
    /// there must be exactly one.
    ///
    /// # Errors
    ///
    /// The errors of [`Signature::from_header_values`] and
    /// [`verify`](Self::verify).
    pub fn verify_header_values<B: BodyBytes, V: AsRef<[u8]>>(
        &self,
        values: impl IntoIterator<Item = V>,
        body: B,
    ) -> Result<Verified<S, B>, VerifyError> {
        self.verify_signature(&Signature::from_header_values(values)?, body)
    }

    /// Verifies a body against a parsed signature.
    ///
    /// # Errors
    ///
    /// [`VerifyError::Mismatch`] if no secret produces this signature.
    pub fn verify_signature<B: BodyBytes>(
        &self,
        signature: &Signature<S>,
        body: B,
    ) -> Result<Verified<S, B>, VerifyError> {
        let bytes = body.as_ref();
        // Which secret matched is not confidential, so the search can stop early.
        let matched_secret = self
            .keys()
            .iter()
            .position(|key| tags_equal(&key.tag(bytes), signature.tag()))
            .ok_or(VerifyError::Mismatch)?;
        Ok(Verified::new(body, Tag::new(*signature.tag()), matched_secret))
    }

    /// The number of secrets that this verifier accepts.
    pub fn secret_count(&self) -> usize {
        self.keys().len()
    }

    #[cfg(feature = "std")]
    pub(crate) fn keys(&self) -> impl Deref<Target = [HmacKey]> {
        self.keys.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    #[cfg(not(feature = "std"))]
    pub(crate) fn keys(&self) -> impl Deref<Target = [HmacKey]> {
        &*self.keys
    }

    #[cfg(feature = "std")]
    fn from_keys(keys: Arc<[HmacKey]>) -> Self {
        Self { keys: Arc::new(keys.into()), scheme: PhantomData }
    }

    #[cfg(not(feature = "std"))]
    fn from_keys(keys: Arc<[HmacKey]>) -> Self {
        Self { keys, scheme: PhantomData }
    }

    /// Whether a secret of this verifier is also one of the other's.
    #[cfg(feature = "_receiver")]
    pub(crate) fn shares_a_secret_with<Other: Scheme>(&self, other: &Verifier<Other>) -> bool {
        // Keys are equal if they produce equal tags.
        let tags = |keys: &[HmacKey]| keys.iter().map(|key| key.tag(b"")).collect::<Vec<_>>();
        let others = tags(&other.keys());
        tags(&self.keys()).iter().any(|tag| others.iter().any(|other| tags_equal(tag, other)))
    }
}

fn keys_of(newest_first: impl IntoIterator<Item = Secret>) -> Result<Arc<[HmacKey]>, SecretError> {
    let keys: Vec<_> =
        newest_first.into_iter().take(MAX_SECRETS + 1).map(|s| HmacKey::new(&s)).collect();
    match keys.len() {
        0 => Err(SecretError::NoSecrets),
        1..=MAX_SECRETS => Ok(keys.into()),
        _ => Err(SecretError::TooManySecrets),
    }
}

impl<S: Scheme> fmt::Debug for Verifier<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier")
            .field("scheme", &S::NAME)
            .field("secrets", &self.secret_count())
            .finish()
    }
}
