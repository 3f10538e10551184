//! A body that verified, before anything of it was parsed.

use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;

use crate::{Delivery, DeliveryKey, EnvelopeError, JsonError, Scheme, Tag};

/// A body whose signature was verified. Only this crate can make one.
///
/// It holds the exact bytes that were received and nothing parsed:
/// [`into_delivery`](Self::into_delivery) reads the envelope, and
/// [`json`](Self::json) the whole body into a type of your own.
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
    matched: usize,
    event_header: Option<Box<[u8]>>,
    /// Whether the caller named that header, and it may name the event where
    /// the body does not.
    header_named: bool,
    scheme: PhantomData<S>,
}

impl<S: Scheme, B: AsRef<[u8]>> Verified<S, B> {
    pub(crate) fn new(body: B, tag: Tag, matched: usize) -> Self {
        Self { body, tag, matched, event_header: None, header_named: false, scheme: PhantomData }
    }

    /// The body's exact bytes.
    pub fn body(&self) -> &[u8] {
        self.body.as_ref()
    }

    /// The body as it was handed in.
    pub fn into_body(self) -> B {
        self.body
    }

    /// The body as it was handed in, borrowed.
    pub fn body_ref(&self) -> &B {
        &self.body
    }

    /// The verified tag; byte-identical retries have the same.
    pub fn tag(&self) -> Tag {
        self.tag
    }

    /// What tells these bytes from all others, for de-duplication of what is no
    /// envelope. [`Delivery::key`] goes by the `id` where there is one.
    pub fn key(&self) -> DeliveryKey {
        DeliveryKey::of_tag::<S>(self.tag)
    }

    /// Which secret made the signature: 0 is the newest. When nothing but 0
    /// comes any more, the rotation is over.
    pub fn matched_secret(&self) -> usize {
        self.matched
    }

    /// The whole body as JSON of your own type.
    ///
    /// # Errors
    ///
    /// [`JsonError`] when the body does not fit the type.
    pub fn json<'a, T: serde::Deserialize<'a>>(&'a self) -> Result<T, JsonError> {
        serde_json::from_slice(self.body()).map_err(JsonError::new)
    }

    /// Notes the value of the header that names the event, which the signature
    /// does not cover: [`Delivery::header_event`] compares it with the body.
    /// Where the body names no event, it is taken from there.
    #[must_use]
    pub fn with_event_header(mut self, value: impl AsRef<[u8]>) -> Self {
        self.event_header = Some(value.as_ref().into());
        self.header_named = true;
        self
    }

    /// The same for a header that nobody named: it is compared and no more.
    #[cfg(feature = "_receiver")]
    pub(crate) fn with_compared_header(mut self, value: &[u8]) -> Self {
        self.event_header = Some(value.into());
        self
    }

    /// Reads the envelope.
    ///
    /// # Errors
    ///
    /// [`EnvelopeError`]: the sender signed something that is no delivery.
    /// Answer 400.
    pub fn into_delivery(self) -> Result<Delivery<S, B>, EnvelopeError> {
        Delivery::parse(self)
    }

    #[cfg(any(feature = "_body", feature = "actix"))]
    pub(crate) fn map_body<C>(self, change: impl FnOnce(B) -> C) -> Verified<S, C> {
        Verified {
            body: change(self.body),
            tag: self.tag,
            matched: self.matched,
            event_header: self.event_header,
            header_named: self.header_named,
            scheme: PhantomData,
        }
    }

    pub(crate) fn may_take_event_from_header(&self) -> bool {
        self.header_named
    }

    pub(crate) fn event_header(&self) -> Option<&[u8]> {
        self.event_header.as_deref()
    }
}

impl<S: Scheme, B: AsRef<[u8]>> fmt::Debug for Verified<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verified")
            .field("scheme", &S::NAME)
            .field("bytes", &self.body().len())
            .field("matched_secret", &self.matched)
            .finish_non_exhaustive()
    }
}
