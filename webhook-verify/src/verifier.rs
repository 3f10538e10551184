//! `Verifier` takes a signature and the received bytes of a body, and returns a `Delivery` or a
//! `Rejection`. It holds up to `MAX_SECRETS` keys for each service. The two services must not share
//! a secret, because both schemes compute the same MAC. Clones share the keys, and `replace`
//! changes them all at once. Tags are computed and compared in `signature.rs`, and `delivery.rs`
//! reads the body.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;

use crate::delivery::Delivery;
use crate::rejection::Rejection;
use crate::secret::{Secret, SecretError};
use crate::signature::{HmacKey, Service, Signature, SignatureSource};

/// Maximum number of secrets of one service that a [`Verifier`] accepts at the same time.
pub const MAX_SECRETS: usize = 4;

/// Verifies the signatures of webhook deliveries of one service, or of both.
///
/// It has one secret for each service, or up to [`MAX_SECRETS`] during a rotation. Create it once
/// and reuse it: the part of the computation that depends only on the secret is done on creation.
/// Clones are cheap and share their secrets, so that [`replace`](Self::replace) affects all of
/// them. Signatures are compared in constant time.
///
/// Pass in the body as the exact bytes that were received: JSON that was parsed and serialized
/// again is a different body. In a web framework, use a `Receiver` instead, which reads the body
/// for you and enforces limits.
///
/// ```
/// use webhook_verify::{Event, Secret, Verifier};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let secret = Secret::new("whsec_3f1c")?;
/// # let body = r#"{"event":"email.bounced","id":"7c0e","data":{},"created":"2026-01-01T00:00:00Z"}"#;
/// # let header = webhook_verify::Signature::sign(webhook_verify::Service::Email, &secret, body).to_string();
/// let verifier = Verifier::email(secret);
/// let delivery = verifier.verify(&header, body)?;
/// assert_eq!(*delivery.event(), Event::EmailBounced);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Verifier {
    keys: Arc<RwLock<Arc<Keys>>>,
}

/// The keys of each service, in the order of [`Service::ALL`], the newest first.
#[derive(Clone, Default)]
struct Keys([Vec<HmacKey>; 2]);

impl Verifier {
    /// Verifies deliveries of the email service.
    pub fn email(secret: Secret) -> Self {
        Self::from_keys(Keys([vec![secret.into()], Vec::new()]))
    }

    /// Verifies deliveries of the extraction service.
    pub fn extraction(secret: Secret) -> Self {
        Self::from_keys(Keys([Vec::new(), vec![secret.into()]]))
    }

    /// Verifies deliveries of one service with several secrets, the newest first.
    ///
    /// Use it to rotate a secret: accept both the new and the old one until the last delivery
    /// that was signed with the old one has arrived. A delivery that the newest did not sign costs
    /// one computation for each secret tried.
    ///
    /// # Errors
    ///
    /// [`SecretError::NoSecrets`], or [`SecretError::TooManySecrets`] if there are more than
    /// [`MAX_SECRETS`].
    pub fn with_secrets(
        service: Service,
        newest_first: impl IntoIterator<Item = Secret>,
    ) -> Result<Self, SecretError> {
        let verifier = Self::from_keys(Keys::default());
        verifier.replace(service, newest_first)?;
        Ok(verifier)
    }

    /// Verifies the deliveries of both services, for one endpoint that receives both. The result has
    /// a copy of the secrets: [`replace`](Self::replace) them in it, not in what it was made of.
    ///
    /// # Errors
    ///
    /// [`SecretError::Shared`] if they have a secret in common. Both schemes compute the same MAC,
    /// so a delivery of one service would verify as one of the other.
    pub fn and(self, other: &Self) -> Result<Self, SecretError> {
        let mut keys = (*self.keys()).clone();
        let others = other.keys();
        for service in Service::ALL {
            keys.of_mut(service).extend_from_slice(others.of(service));
        }
        keys.check()?;
        Ok(Self::from_keys(keys))
    }

    /// Replaces the secrets of a service, the newest first, in this verifier and all its clones:
    /// a rotation without a restart. A service that had no secret is accepted from then on.
    ///
    /// # Errors
    ///
    /// The errors of [`with_secrets`](Self::with_secrets) and [`and`](Self::and). Nothing is
    /// replaced then.
    pub fn replace(
        &self,
        service: Service,
        newest_first: impl IntoIterator<Item = Secret>,
    ) -> Result<(), SecretError> {
        let secrets = newest_first.into_iter().take(MAX_SECRETS + 1);
        let new: Vec<HmacKey> = secrets.map(Into::into).collect();
        if new.is_empty() {
            return Err(SecretError::NoSecrets);
        }

        let mut current = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let mut keys = (**current).clone();
        *keys.of_mut(service) = new;
        keys.check()?;
        *current = Arc::new(keys);
        Ok(())
    }

    /// Verifies a body, and parses the delivery. The signature is in the headers of the request, or
    /// in the value of its signature header. The formats of the two headers differ, so the value
    /// tells which service signed.
    ///
    /// ```
    /// # fn f(verifier: &webhook_verify::Verifier, request: http::Request<Vec<u8>>)
    /// # -> Result<(), webhook_verify::Rejection> {
    /// let (head, body) = request.into_parts();
    /// let delivery = verifier.verify(&head.headers, body)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Rejection::MissingSignature`], [`Rejection::DuplicateSignature`],
    /// [`Rejection::MalformedSignature`], [`Rejection::Mismatch`], or a reason why the verified
    /// body is not a delivery.
    pub fn verify(
        &self,
        signature: impl SignatureSource,
        body: impl Into<Bytes>,
    ) -> Result<Delivery, Rejection> {
        let signature = signature.read()?;
        self.check_service(&signature)
            .map_err(|_| Rejection::MalformedSignature)?;
        self.verify_signature(&signature, body)
    }

    /// Verifies a body against a parsed signature, and parses the delivery.
    ///
    /// # Errors
    ///
    /// [`Rejection::MissingSignature`] if this verifier has no secret of the service,
    /// [`Rejection::Mismatch`], or a reason why the verified body is not a delivery.
    pub fn verify_signature(
        &self,
        signature: &Signature,
        body: impl Into<Bytes>,
    ) -> Result<Delivery, Rejection> {
        let body = body.into();
        let matched_secret = self.verify_bytes(signature, &body)?;
        Delivery::parse(signature, &body, matched_secret, None, false)
    }

    /// Verifies a body that need not be a delivery, without copying it. Returns the index of the
    /// secret that signed it; 0 is the newest.
    ///
    /// # Errors
    ///
    /// [`Rejection::MissingSignature`] if this verifier has no secret of the service, and
    /// [`Rejection::Mismatch`].
    pub fn verify_bytes(&self, signature: &Signature, body: &[u8]) -> Result<usize, Rejection> {
        let keys = self.keys();
        let keys = keys.of(signature.service());
        // Which secret matched is not confidential, so the search can stop early.
        match keys.iter().position(|key| signature.is_of(key, body)) {
            Some(matched) => Ok(matched),
            None if keys.is_empty() => Err(Rejection::MissingSignature),
            None => Err(Rejection::Mismatch),
        }
    }

    /// Refuses a signature of a service that this verifier has no secret of.
    pub(crate) fn check_service(&self, signature: &Signature) -> Result<(), Rejection> {
        if self.keys().of(signature.service()).is_empty() {
            Err(Rejection::MissingSignature)
        } else {
            Ok(())
        }
    }

    fn from_keys(keys: Keys) -> Self {
        Self {
            keys: Arc::new(RwLock::new(Arc::new(keys))),
        }
    }

    fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.keys();
        f.debug_struct("Verifier")
            .field("email_secrets", &keys.of(Service::Email).len())
            .field("extraction_secrets", &keys.of(Service::Extraction).len())
            .finish()
    }
}

impl Keys {
    fn of(&self, service: Service) -> &[HmacKey] {
        &self.0[service as usize]
    }

    fn of_mut(&mut self, service: Service) -> &mut Vec<HmacKey> {
        &mut self.0[service as usize]
    }

    fn check(&self) -> Result<(), SecretError> {
        let [email, extraction] = &self.0;
        if email.len().max(extraction.len()) > MAX_SECRETS {
            return Err(SecretError::TooManySecrets);
        }

        let is_shared = |key: &HmacKey| extraction.iter().any(|other| key.is_same(other));
        if email.iter().any(is_shared) {
            return Err(SecretError::Shared);
        }
        Ok(())
    }
}
