//! A body whose signature was verified and that has not been parsed.

use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;

use crate::{BodyBytes, Delivery, DeliveryKey, EnvelopeError, JsonError, Scheme, Tag};

/// A body whose signature was verified.
///
/// It contains the exact bytes that were received.
/// [`into_delivery`](Self::into_delivery) parses the envelope, and
/// [`json`](Self::json) deserializes the whole body into your own type.
///
/// Only a successful verification creates a `Verified`:
///
/// ```compile_fail,E0624
/// use webhook_verify::{Mail, Tag, Verified};
///
/// fn forge(tag: Tag) -> Verified<Mail, &'static str> {
///     Verified::new("{}", tag, 0)
/// }
/// ```
#[derive(Clone)]
pub struct Verified<S, B> {
    body: B,
    tag: Tag,
    matched_secret: usize,
    event_header: Option<Box<[u8]>>,
    /// Whether the header's event is used if the body names none.
    event_header_is_fallback: bool,
    scheme: PhantomData<S>,
}

impl<S: Scheme, B: BodyBytes> Verified<S, B> {
    pub(crate) fn new(body: B, tag: Tag, matched_secret: usize) -> Self {
        Self {
            body,
            tag,
            matched_secret,
            event_header: None,
            event_header_is_fallback: false,
            scheme: PhantomData,
        }
    }

    /// The exact bytes of the body.
    pub fn body(&self) -> &[u8] {
        self.body.as_ref()
    }

    /// Returns the body that was passed to the verification.
    pub fn into_body(self) -> B {
        self.body
    }

    /// Borrows the body that was passed to the verification.
    pub fn body_ref(&self) -> &B {
        &self.body
    }

    /// The verified signature's tag. Byte-identical bodies have the same tag.
    pub fn tag(&self) -> Tag {
        self.tag
    }

    /// The key that identifies these bytes, to de-duplicate bodies that are not
    /// delivery envelopes. [`Delivery::key`] uses the `id` if there is one.
    pub fn key(&self) -> DeliveryKey {
        DeliveryKey::from_tag::<S>(self.tag)
    }

    /// Index of the secret that produced the signature. 0 is the newest.
    ///
    /// During a rotation, remove the old secret once every delivery has index 0.
    pub fn matched_secret(&self) -> usize {
        self.matched_secret
    }

    /// Deserializes the whole body from JSON into your own type.
    ///
    /// # Errors
    ///
    /// [`JsonError`] if the body does not deserialize into `T`.
    pub fn json<'a, T: serde::Deserialize<'a>>(&'a self) -> Result<T, JsonError> {
        serde_json::from_slice(self.body()).map_err(JsonError::new)
    }

    /// Adds the value of the header that names the event, which is not signed.
    ///
    /// [`Delivery::header_event`] reports how it compares with the body. If the
    /// body names no event, the header's event is used
    /// ([`HeaderEvent::Fallback`](crate::HeaderEvent::Fallback)).
    #[must_use]
    pub fn with_event_header(mut self, value: impl AsRef<[u8]>) -> Self {
        self.event_header = Some(value.as_ref().into());
        self.event_header_is_fallback = true;
        self
    }

    /// Adds the value of the event header for comparison only, without using it
    /// as a fallback.
    #[cfg(feature = "_receiver")]
    pub(crate) fn with_compared_event_header(mut self, value: &[u8]) -> Self {
        self.event_header = Some(value.into());
        self
    }

    /// Parses the envelope.
    ///
    /// # Errors
    ///
    /// [`EnvelopeError`] if the signed body is not a delivery. Respond 400.
    pub fn into_delivery(self) -> Result<Delivery<S, B>, EnvelopeError> {
        Delivery::parse(self)
    }

    pub(crate) fn event_header_is_fallback(&self) -> bool {
        self.event_header_is_fallback
    }

    pub(crate) fn event_header(&self) -> Option<&[u8]> {
        self.event_header.as_deref()
    }
}

impl<S: Scheme, B: BodyBytes> fmt::Debug for Verified<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verified")
            .field("scheme", &S::NAME)
            .field("bytes", &self.body().len())
            .field("matched_secret", &self.matched_secret)
            .finish_non_exhaustive()
    }
}
