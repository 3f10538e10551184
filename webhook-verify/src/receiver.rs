//! The common part of the framework adapters: checks, limits and rejections.
//!
//! Every adapter checks in the same order: signature header, announced size, body
//! up to the limit, signature, envelope, age. The body is not read if the header
//! is malformed, and not parsed before its signature is verified.

#[cfg(feature = "actix")]
pub(crate) mod actix;
#[cfg(feature = "axum")]
pub(crate) mod axum;
#[cfg(feature = "_body")]
pub(crate) mod body;
#[cfg(feature = "http")]
pub(crate) mod http;
#[cfg(feature = "lambda")]
pub(crate) mod lambda;
#[cfg(feature = "tower")]
pub(crate) mod tower;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::log_text::LogText;
use crate::{
    AgeError, BodyTooLarge, Delivery, EnvelopeError, Extraction, HeaderEvent, Mail, Scheme,
    Timestamp, Verified, Verifier, VerifyError,
};

/// A verified delivery of the extraction service, as the adapters provide it.
pub type ExtractionDelivery = Delivery<Extraction, Bytes>;

/// A verified delivery of the email service, as the adapters provide it.
pub type MailDelivery = Delivery<Mail, Bytes>;

/// A webhook endpoint: a [`Verifier`] with the limits that the framework adapters
/// enforce.
///
/// Create one per scheme at startup and pass it to your framework: as the router's
/// state in axum, as app data in actix-web, to a `VerifyLayer` on tower, or call
/// `receive` or `receive_lambda` yourself. Clones are cheap.
///
/// For each request, the adapters check in this order:
///
/// 1. Exactly one well-formed signature header: otherwise 401.
/// 2. The announced size of the body is within [`body_limit`](Self::body_limit):
///    otherwise 413.
/// 3. The body, read up to the limit: 413 if it is larger, 401 if it cannot be
///    read completely.
/// 4. The signature: 401 if it does not match.
/// 5. The envelope: 400 if the signed body is not a delivery.
/// 6. The age, if [`max_age`](Self::max_age) is set: 400 if it is out of range.
///
/// A rejection has an empty body, and its reason is logged with `tracing` at level
/// `WARN`.
///
/// The time in which a body must arrive is not limited here. Use your server's
/// read timeout.
///
/// ```
/// use std::time::Duration;
/// use webhook_verify::{MailVerifier, Receiver, Secret};
///
/// # fn main() -> Result<(), webhook_verify::SecretError> {
/// let receiver = Receiver::new(MailVerifier::new(Secret::new("whsec_3f1c")?))
///     .body_limit(256 * 1024)
///     .max_age(Duration::from_secs(3600));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Receiver<S> {
    verifier: Verifier<S>,
    body_limit: usize,
    max_age: Option<Duration>,
    clock: fn() -> Timestamp,
    event_header: Option<Arc<str>>,
    event_header_is_fallback: bool,
}

impl<S: Scheme> Receiver<S> {
    /// The default of [`body_limit`](Self::body_limit): 1 MiB.
    pub const DEFAULT_BODY_LIMIT: usize = 1024 * 1024;

    /// Creates a receiver with a body limit of 1 MiB and no maximum age.
    pub fn new(verifier: Verifier<S>) -> Self {
        Self {
            verifier,
            body_limit: Self::DEFAULT_BODY_LIMIT,
            max_age: None,
            clock: Timestamp::now,
            event_header: S::EVENT_HEADER.map(Into::into),
            event_header_is_fallback: false,
        }
    }

    /// Sets the maximum size of a body in bytes. Default: 1 MiB. Larger bodies are
    /// rejected with 413.
    #[must_use]
    pub fn body_limit(mut self, bytes: usize) -> Self {
        self.body_limit = bytes;
        self
    }

    /// Sets the maximum age of a delivery. Default: unlimited.
    ///
    /// A delivery is rejected with 400 if its signed `created` time is missing, or
    /// more than `max_age` before or after the current time. Choose a value longer
    /// than the period over which the sender retries, or late retries are lost.
    #[must_use]
    pub fn max_age(mut self, max_age: Duration) -> Self {
        self.max_age = Some(max_age);
        self
    }

    /// Sets the clock for [`max_age`](Self::max_age), for tests. Default: the
    /// system clock.
    #[must_use]
    pub fn clock(mut self, now: fn() -> Timestamp) -> Self {
        self.clock = now;
        self
    }

    /// Sets the name of the header that names the event, and allows it as a
    /// fallback.
    ///
    /// If a body names no event, the event is taken from this header
    /// ([`HeaderEvent::Fallback`]). The header is **not signed**. Without this
    /// setting, the scheme's [`EVENT_HEADER`](Scheme::EVENT_HEADER) is compared
    /// with the body and never used as a fallback.
    ///
    /// See `docs/undocumented/email-service.md#delivery-payload`.
    #[must_use]
    pub fn event_header(mut self, name: impl Into<Arc<str>>) -> Self {
        self.event_header = Some(name.into());
        self.event_header_is_fallback = true;
        self
    }

    /// The verifier that this receiver uses.
    pub fn verifier(&self) -> &Verifier<S> {
        &self.verifier
    }

    /// Checks the signature header and the announced size, before the body is read.
    #[cfg(any(feature = "_body", feature = "actix"))]
    fn check_head<V: AsRef<[u8]>>(
        &self,
        signature: impl IntoIterator<Item = V>,
        content_length: Option<u64>,
    ) -> Result<crate::BufferedVerifier<S>, Rejection> {
        let signature = crate::Signature::from_header_values(signature)?;
        let limit = self.body_limit;
        if content_length.is_some_and(|bytes| usize::try_from(bytes).map_or(true, |b| b > limit)) {
            return Err(BodyTooLarge { limit }.into());
        }
        Ok(self.verifier.verify_buffered_signature(&signature, limit))
    }

    /// Verifies a complete body.
    #[cfg(any(feature = "http", feature = "lambda"))]
    fn verify<B: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        signature: impl IntoIterator<Item = V>,
        body: B,
    ) -> Result<Verified<S, B>, Rejection> {
        let signature = crate::Signature::from_header_values(signature)?;
        if body.as_ref().len() > self.body_limit {
            return Err(BodyTooLarge { limit: self.body_limit }.into());
        }
        Ok(self.verifier.verify_signature(&signature, body)?)
    }

    /// Parses the envelope of a verified body and checks the age.
    fn parse<B: AsRef<[u8]>>(&self, verified: Verified<S, B>) -> Result<Delivery<S, B>, Rejection> {
        let delivery = verified.into_delivery()?;
        if let Some(max_age) = self.max_age {
            delivery.check_age((self.clock)(), max_age)?;
        }
        if let HeaderEvent::Different(_) = delivery.header_event() {
            // The header is not authenticated, so its value is not logged.
            tracing::warn!(
                scheme = S::NAME,
                event = ?LogText(event_for_log(&delivery)),
                "the unsigned event header of a verified delivery names a different event"
            );
        }
        tracing::debug!(
            scheme = S::NAME,
            event = ?LogText(event_for_log(&delivery)),
            matched_secret = delivery.matched_secret(),
            "webhook delivery verified"
        );
        Ok(delivery)
    }

    /// Adds the values of the event header to the verified body.
    fn with_event_header_values<B: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        verified: Verified<S, B>,
        values: impl Iterator<Item = V>,
    ) -> Verified<S, B> {
        match join_values(values) {
            Some(value) if self.event_header_is_fallback => verified.with_event_header(value),
            Some(value) => verified.with_compared_event_header(&value),
            None => verified,
        }
    }

    /// Logs the reason of a rejection, which the sender must not see.
    fn log<T>(&self, result: Result<T, Rejection>) -> Result<T, Rejection> {
        if let Err(rejection) = &result {
            tracing::warn!(
                scheme = S::NAME,
                status = rejection.status(),
                reason = %rejection,
                "webhook delivery rejected"
            );
        }
        result
    }
}

impl<S: Scheme> From<Verifier<S>> for Receiver<S> {
    fn from(verifier: Verifier<S>) -> Self {
        Self::new(verifier)
    }
}

impl<S: Scheme> fmt::Debug for Receiver<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("verifier", &self.verifier)
            .field("body_limit", &self.body_limit)
            .field("max_age", &self.max_age)
            .field("event_header", &self.event_header)
            .finish_non_exhaustive()
    }
}

/// The reason why a [`Receiver`] rejects a request.
///
/// The adapters respond with [`status`](Self::status) and an empty body, and log
/// the reason with `tracing`. If you respond yourself, do the same: the reason
/// helps an attacker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The signature is missing, malformed or wrong: 401.
    #[error(transparent)]
    Signature(#[from] VerifyError),
    /// The body exceeds the size limit: 413.
    #[error(transparent)]
    TooLarge(#[from] BodyTooLarge),
    /// The body could not be read completely or decoded, so it could not be
    /// verified: 401.
    #[error("the body could not be read completely")]
    Unreadable,
    /// The verified body is not a delivery: 400.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// The verified delivery's age is unknown or out of range: 400.
    #[error(transparent)]
    Age(#[from] AgeError),
}

impl Rejection {
    /// The HTTP status of the response: 400, 401 or 413.
    pub fn status(&self) -> u16 {
        match self {
            Self::Signature(_) | Self::Unreadable => 401,
            Self::TooLarge(_) => 413,
            Self::Envelope(_) | Self::Age(_) => 400,
        }
    }
}

/// The values of the event header as one text. Several values are joined, which
/// matches no event name, so they are reported as different from the body's event.
fn join_values<V: AsRef<[u8]>>(values: impl Iterator<Item = V>) -> Option<Vec<u8>> {
    let values: Vec<V> = values.collect();
    let values: Vec<&[u8]> = values.iter().map(AsRef::as_ref).collect();
    (!values.is_empty()).then(|| values.join(&b", "[..]))
}

/// The event name if it is signed.
fn event_for_log<S: Scheme, B: AsRef<[u8]>>(delivery: &Delivery<S, B>) -> &str {
    match delivery.header_event() {
        HeaderEvent::Fallback => "from an unsigned header",
        _ => delivery.event().as_ref(),
    }
}
