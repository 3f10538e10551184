//! A delivery that was stored and read back.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use serde::Deserialize;

use crate::delivery::range_in;
use crate::envelope::Envelope;
use crate::{
    BodyBytes, Delivery, DeliveryKey, Extraction, ExtractionEvent, JsonError, Keyed, Mail,
    MailEvent, Scheme, Timestamp,
};

/// A delivery that was verified, stored, and read back, for example by another process.
///
/// It is a type of its own, because it was not verified by this process: it is as
/// trustworthy as the place where it was stored. A [`Delivery`] cannot be created from it.
///
/// Store the four parts [`service`](Self::service), [`event`](Self::event),
/// [`key`](Self::key) and [`body`](Self::body), and read them back with
/// [`from_parts`](Self::from_parts). The crate `svc-webhook-inbox` does so in PostgreSQL and
/// SQLite.
///
/// ```
/// use webhook_verify::{AnyEvent, MailEvent, MailVerifier, Secret, Storable, StoredDelivery};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let secret = Secret::new("whsec_3f1c")?;
/// let body = r#"{"event":"email.bounced","id":"7c0e"}"#;
/// # let header = webhook_verify::MailSigner::new(&secret).sign(body).to_string();
/// let delivery = MailVerifier::new(secret).verify(&header, body)?.into_delivery()?;
///
/// let stored = delivery.to_stored();
/// let row = (stored.service(), stored.event().as_str(), stored.key().as_str(), stored.body());
///
/// let read = StoredDelivery::from_parts(row.0, row.1, row.2, row.3).ok_or("unknown service")?;
/// assert_eq!(*read.event(), AnyEvent::Mail(MailEvent::Bounced));
/// assert_eq!(read.id(), Some("7c0e"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct StoredDelivery {
    event: AnyEvent,
    key: DeliveryKey,
    body: Box<[u8]>,
    id: Option<Box<str>>,
    created: Option<Box<str>>,
    /// Position of `data` in the body.
    data: Option<Range<usize>>,
}

impl StoredDelivery {
    /// Reads a delivery back from what was stored.
    ///
    /// Returns `None` if `service` is not the name of a service, which is `extraction` or
    /// `mail`.
    pub fn from_parts(
        service: &str,
        event: &str,
        key: impl Into<Box<str>>,
        body: impl Into<Vec<u8>>,
    ) -> Option<Self> {
        let event = AnyEvent::parse(service, event)?;
        let body = body.into().into_boxed_slice();
        // The body is not an envelope if a configured header named the event.
        let envelope = Envelope::parse(&body).unwrap_or_default();
        let (id, created) = (envelope.id(), envelope.created());
        let data = envelope.data().map(|data| range_in(data, &body));
        Some(Self {
            event,
            key: DeliveryKey::from_stored(key.into()),
            id: id.map(Into::into),
            created: created.map(Into::into),
            data,
            body,
        })
    }

    /// The service that sent the delivery: `extraction` or `mail`.
    pub fn service(&self) -> &'static str {
        self.event.service()
    }

    /// The event, as [`Delivery::event`] returned it.
    pub fn event(&self) -> &AnyEvent {
        &self.event
    }

    /// The key that identifies this delivery and all its retries.
    pub fn key(&self) -> &DeliveryKey {
        &self.key
    }

    /// The delivery's `id`. All retries of a delivery have the same `id`.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The `created` field as it was received.
    pub fn created(&self) -> Option<&str> {
        self.created.as_deref()
    }

    /// The `created` field as a point in time, if it is an ISO 8601 date-time.
    pub fn created_at(&self) -> Option<Timestamp> {
        self.created().and_then(Timestamp::parse)
    }

    /// Deserializes the `data` field into your own type. A missing `data` is read as `null`.
    ///
    /// # Errors
    ///
    /// [`JsonError`] if `data` does not deserialize into `T`.
    pub fn data<'a, T: Deserialize<'a>>(&'a self) -> Result<T, JsonError> {
        serde_json::from_str(self.data_json()).map_err(JsonError::new)
    }

    /// The JSON text of the `data` field exactly as received, or `null` if the delivery has
    /// none.
    pub fn data_json(&self) -> &str {
        self.data
            .clone()
            .and_then(|data| self.body.get(data))
            .and_then(|data| core::str::from_utf8(data).ok())
            .unwrap_or("null")
    }

    /// Deserializes the whole body into your own type.
    ///
    /// # Errors
    ///
    /// [`JsonError`] if the body does not deserialize into `T`.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, JsonError> {
        serde_json::from_slice(&self.body).map_err(JsonError::new)
    }

    /// The exact bytes of the body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }
}

impl Keyed for StoredDelivery {
    fn key(&self) -> DeliveryKey {
        self.key.clone()
    }
}

/// Shows event, id, creation time and size, and no other content.
impl fmt::Debug for StoredDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredDelivery")
            .field("event", &self.event)
            .field("id", &self.id)
            .field("created", &self.created)
            .field("bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// A verified delivery that can be stored: a [`Delivery`] or an `AnyDelivery`.
///
/// This trait is sealed. [`StoredDelivery`] does not implement it, so code that takes a
/// `Storable` cannot be reached by a delivery that this process did not verify.
pub trait Storable: Keyed + sealed::Sealed {
    /// Copies what is to be stored.
    fn to_stored(&self) -> StoredDelivery;
}

impl<S: Scheme, B: BodyBytes> Storable for Delivery<S, B> {
    fn to_stored(&self) -> StoredDelivery {
        let event = self.event().as_ref();
        let body = self.body();
        StoredDelivery {
            event: if S::NAME == Extraction::NAME {
                AnyEvent::Extraction(event.into())
            } else {
                AnyEvent::Mail(event.into())
            },
            key: self.key(),
            body: body.into(),
            id: self.id().map(Into::into),
            created: self.created().map(Into::into),
            data: self.data_range(),
        }
    }
}

#[cfg(feature = "_receiver")]
impl Storable for crate::AnyDelivery {
    fn to_stored(&self) -> StoredDelivery {
        match self {
            Self::Extraction(delivery) => delivery.to_stored(),
            Self::Mail(delivery) => delivery.to_stored(),
        }
    }
}

mod sealed {
    use crate::{BodyBytes, Delivery, Scheme};

    pub trait Sealed {}
    impl<S: Scheme, B: BodyBytes> Sealed for Delivery<S, B> {}
    #[cfg(feature = "_receiver")]
    impl Sealed for crate::AnyDelivery {}
}

/// An event of one of the two services.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AnyEvent {
    /// An event of the extraction service.
    Extraction(ExtractionEvent),
    /// An event of the email service.
    Mail(MailEvent),
}

impl AnyEvent {
    fn parse(service: &str, name: &str) -> Option<Self> {
        match service {
            Extraction::NAME => Some(Self::Extraction(name.into())),
            Mail::NAME => Some(Self::Mail(name.into())),
            _ => None,
        }
    }

    /// The name of the service: `extraction` or `mail`.
    pub fn service(&self) -> &'static str {
        match self {
            Self::Extraction(_) => Extraction::NAME,
            Self::Mail(_) => Mail::NAME,
        }
    }

    /// The event's name as it appears in the body.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Extraction(event) => event.as_str(),
            Self::Mail(event) => event.as_str(),
        }
    }
}

impl fmt::Display for AnyEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;
    use crate::{ExtractionSigner, ExtractionVerifier, Secret, Verified};

    fn verified(body: &str) -> Verified<Extraction, &str> {
        let secret = Secret::new("whsec_test").unwrap();
        let signature = ExtractionSigner::new(&secret).sign(body);
        ExtractionVerifier::new(secret).verify_signature(&signature, body).unwrap()
    }

    fn read_back(stored: &StoredDelivery) -> StoredDelivery {
        let event = stored.event().as_str();
        StoredDelivery::from_parts(stored.service(), event, stored.key().as_str(), stored.body())
            .unwrap()
    }

    #[test]
    fn is_read_back_as_it_was_stored() {
        let body = r#" {"event":"extraction.failed", "id":17, "x":[1],
            "data":{"total": 12.50}, "created":"2026-03-01T09:30:00Z"}"#;
        let delivery = verified(body).into_delivery().unwrap();
        let stored = delivery.to_stored();
        for stored in [read_back(&stored), stored] {
            assert_eq!(*stored.event(), AnyEvent::Extraction(ExtractionEvent::Failed));
            assert_eq!((stored.service(), stored.id()), ("extraction", Some("17")));
            assert_eq!(*stored.key(), delivery.key());
            assert_eq!(stored.created_at(), delivery.created_at());
            assert_eq!(stored.data_json(), r#"{"total": 12.50}"#);
            assert_eq!(stored.json::<serde_json::Value>().unwrap()["x"][0], 1);
            assert_eq!(stored.body(), body.as_bytes());
            assert!(!format!("{stored:?}").contains("12.50"));
        }
    }

    /// The event of a configured header is not in the body.
    #[test]
    fn keeps_the_event_of_a_header_and_the_key_of_a_signature() {
        let delivery = verified("[1]").with_event_header("extraction.completed");
        let delivery = delivery.into_delivery().unwrap();
        let read = read_back(&delivery.to_stored());
        assert_eq!(*read.event(), AnyEvent::Extraction(ExtractionEvent::Completed));
        assert_eq!(*read.key(), delivery.key());
        assert_eq!((read.id(), read.data_json()), (None, "null"));
        assert!(StoredDelivery::from_parts("billing", "e", "k", "{}").is_none());
    }
}
