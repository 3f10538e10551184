//! Both services at one endpoint.

use bytes::Bytes;

use super::{Receiver, Rejection};
use crate::{
    DeliveryKey, Extraction, ExtractionDelivery, Keyed, Mail, MailDelivery, RequestParts, Scheme,
    SecretError, Signature, VerifyError,
};

/// Receives the deliveries of both services at one endpoint.
///
/// The service is recognized by its signature header. A request with the headers of both
/// is rejected. Use it like a [`Receiver`]; it provides an [`AnyDelivery`].
///
/// Both services compute the same MAC. With one secret for both, a delivery of one
/// service could be replayed as a delivery of the other, so equal secrets are refused:
/// here, and with [`Rejection::SharedSecret`] if [`Verifier::replace`] or
/// [`Receiver::resolving`] provides them later.
///
/// [`Verifier::replace`]: crate::Verifier::replace
///
/// ```
/// use webhook_verify::{AnyReceiver, ExtractionVerifier, MailVerifier, Secret, SecretError};
///
/// # fn main() -> Result<(), webhook_verify::SecretError> {
/// let extraction = ExtractionVerifier::new(Secret::new("whsec_3f1c")?);
/// let mail = MailVerifier::new(Secret::new("whsec_9a80")?);
/// let receiver = AnyReceiver::new(extraction.clone(), mail)?;
///
/// let same_secret = MailVerifier::new(Secret::new("whsec_3f1c")?);
/// assert_eq!(AnyReceiver::new(extraction, same_secret).unwrap_err(), SecretError::Shared);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AnyReceiver {
    extraction: Receiver<Extraction>,
    mail: Receiver<Mail>,
}

impl AnyReceiver {
    /// Creates a receiver from one for each service, or from their verifiers.
    ///
    /// # Errors
    ///
    /// [`SecretError::Shared`] if both have a secret in common.
    pub fn new(
        extraction: impl Into<Receiver<Extraction>>,
        mail: impl Into<Receiver<Mail>>,
    ) -> Result<Self, SecretError> {
        let (extraction, mail) = (extraction.into(), mail.into());
        if let (Some(one), Some(other)) = (extraction.verifier(), mail.verifier())
            && one.shares_a_secret_with(other)
        {
            return Err(SecretError::Shared);
        }
        Ok(Self { extraction, mail })
    }

    /// The receiver of the service whose signature header the request has. The header is
    /// checked before a verifier is resolved.
    pub(super) async fn receiver_for(
        &self,
        parts: &impl RequestParts,
    ) -> Result<AnyOf<&Receiver<Extraction>, &Receiver<Mail>>, Rejection> {
        let has = |name| !parts.values(name).is_empty();
        let receiver = match (has(Extraction::SIGNATURE_HEADER), has(Mail::SIGNATURE_HEADER)) {
            (true, true) => return Err(VerifyError::DuplicateSignature.into()),
            (false, false) => return Err(VerifyError::MissingSignature.into()),
            (true, false) => {
                Signature::<Extraction>::from_header_values(
                    parts.values(Extraction::SIGNATURE_HEADER),
                )?;
                AnyOf::Extraction(&self.extraction)
            }
            (false, true) => {
                Signature::<Mail>::from_header_values(parts.values(Mail::SIGNATURE_HEADER))?;
                AnyOf::Mail(&self.mail)
            }
        };
        let extraction = self.extraction.verifier_for(parts).await;
        let mail = self.mail.verifier_for(parts).await;
        if let (Ok(extraction), Ok(mail)) = (extraction, mail)
            && extraction.shares_a_secret_with(&mail)
        {
            return Err(Rejection::SharedSecret);
        }
        Ok(receiver)
    }

    pub(super) fn log<T>(&self, result: Result<T, Rejection>) -> Result<T, Rejection> {
        super::log_rejection("any", &result);
        result
    }
}

/// A value of one of the two services.
pub(super) enum AnyOf<E, M> {
    Extraction(E),
    Mail(M),
}

/// A verified delivery of one of the two services, from an [`AnyReceiver`].
///
/// ```
/// use webhook_verify::AnyDelivery;
///
/// async fn handle(delivery: AnyDelivery) -> Result<(), std::io::Error> {
///     match delivery {
///         AnyDelivery::Extraction(delivery) => println!("{}", delivery.data_json()),
///         AnyDelivery::Mail(delivery) => println!("{}", delivery.event()),
///     }
///     Ok(())
/// }
/// # drop(handle);
/// ```
#[derive(Clone, Debug)]
pub enum AnyDelivery {
    /// A delivery of the extraction service.
    Extraction(ExtractionDelivery),
    /// A delivery of the email service.
    Mail(MailDelivery),
}

impl AnyDelivery {
    /// The key that identifies this delivery and all its retries.
    pub fn key(&self) -> DeliveryKey {
        match self {
            Self::Extraction(delivery) => delivery.key(),
            Self::Mail(delivery) => delivery.key(),
        }
    }

    /// The exact bytes of the body.
    pub fn body(&self) -> &Bytes {
        match self {
            Self::Extraction(delivery) => delivery.verified().body_ref(),
            Self::Mail(delivery) => delivery.verified().body_ref(),
        }
    }
}

impl Keyed for AnyDelivery {
    fn key(&self) -> DeliveryKey {
        self.key()
    }
}
