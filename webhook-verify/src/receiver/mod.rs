//! What the adapters have in common: the order of the checks, the limits and
//! the answers.
//!
//! The order never changes: header, size as announced, body up to the limit,
//! signature, envelope, age. Nothing of a body is read for a request whose
//! header cannot be right, and nothing of it is parsed before it verified.

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

use crate::shown::Shown;
use crate::{
    AgeError, Delivery, EnvelopeError, Extraction, HeaderEvent, Mail, Scheme, Timestamp, TooLarge,
    Verified, Verifier, VerifyError,
};

/// A verified delivery of the extraction service, as the adapters give it.
pub type ExtractionDelivery = Delivery<Extraction, Bytes>;

/// A verified delivery of the email service, as the adapters give it.
pub type MailDelivery = Delivery<Mail, Bytes>;

/// What an endpoint that receives deliveries needs: a verifier, and the limits
/// that the adapters hold to. Clones are cheap.
///
/// How long a body may take to arrive is not among them: that is the server's
/// business, as for every other request.
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
    event_header_named: bool,
}

impl<S: Scheme> Receiver<S> {
    /// The largest body that is read unless another limit is set: 1 MiB.
    pub const BODY_LIMIT: usize = 1024 * 1024;

    /// A receiver with the default limits.
    pub fn new(verifier: Verifier<S>) -> Self {
        Self {
            verifier,
            body_limit: Self::BODY_LIMIT,
            max_age: None,
            clock: Timestamp::now,
            event_header: S::EVENT_HEADER.map(Into::into),
            event_header_named: false,
        }
    }

    /// The largest body that is read, in bytes; larger ones are answered 413.
    #[must_use]
    pub fn body_limit(mut self, bytes: usize) -> Self {
        self.body_limit = bytes;
        self
    }

    /// Refuses deliveries whose signed `created` is further from now than
    /// this, or that have none; they are answered 400. Off by default. Longer
    /// than the sender goes on retrying, or its late retries are lost.
    #[must_use]
    pub fn max_age(mut self, max_age: Duration) -> Self {
        self.max_age = Some(max_age);
        self
    }

    /// Tells the time for [`max_age`](Self::max_age) in place of the system's
    /// clock.
    #[must_use]
    pub fn clock(mut self, now: fn() -> Timestamp) -> Self {
        self.clock = now;
        self
    }

    /// The name of the unsigned header that names the event, where the sender
    /// has another one than the documents name. Where a body names no event, it
    /// is taken from there ([`HeaderEvent::Only`]); from a header that was not
    /// named here it never is.
    #[must_use]
    pub fn event_header(mut self, name: impl Into<Arc<str>>) -> Self {
        self.event_header = Some(name.into());
        self.event_header_named = true;
        self
    }

    /// The verifier.
    pub fn verifier(&self) -> &Verifier<S> {
        &self.verifier
    }

    /// Looks at the header and the announced size, before any of the body.
    #[cfg(any(feature = "_body", feature = "actix"))]
    fn begin<L: AsRef<[u8]>>(
        &self,
        signature: impl IntoIterator<Item = L>,
        announced: Option<u64>,
    ) -> Result<crate::Collecting<S>, Rejection> {
        let signature = crate::Signature::from_lines(signature)?;
        let limit = self.body_limit;
        if announced.is_some_and(|bytes| usize::try_from(bytes).map_or(true, |b| b > limit)) {
            return Err(TooLarge { limit }.into());
        }
        Ok(self.verifier.collect_signature(&signature, limit))
    }

    /// Verifies a whole body.
    #[cfg(any(feature = "http", feature = "lambda"))]
    fn verify<B: AsRef<[u8]>, L: AsRef<[u8]>>(
        &self,
        signature: impl IntoIterator<Item = L>,
        body: B,
    ) -> Result<Verified<S, B>, Rejection> {
        let signature = crate::Signature::from_lines(signature)?;
        if body.as_ref().len() > self.body_limit {
            return Err(TooLarge { limit: self.body_limit }.into());
        }
        Ok(self.verifier.verify_signature(&signature, body)?)
    }

    /// Reads the envelope of what verified, and holds it to the limits.
    fn open<B: AsRef<[u8]>>(&self, verified: Verified<S, B>) -> Result<Delivery<S, B>, Rejection> {
        let delivery = verified.into_delivery()?;
        if let Some(max_age) = self.max_age {
            delivery.check_age((self.clock)(), max_age)?;
        }
        if let HeaderEvent::Different(_) = delivery.header_event() {
            // The header's value is anybody's text, and no log's business.
            tracing::warn!(
                scheme = S::NAME,
                event = ?Shown(event_for_log(&delivery)),
                "the unsigned event header of a verified delivery names another event"
            );
        }
        tracing::debug!(
            scheme = S::NAME,
            event = ?Shown(event_for_log(&delivery)),
            matched_secret = delivery.matched_secret(),
            "webhook delivery verified"
        );
        Ok(delivery)
    }

    /// Notes the lines of the event header.
    fn with_event_lines<B: AsRef<[u8]>, L: AsRef<[u8]>>(
        &self,
        verified: Verified<S, B>,
        lines: impl Iterator<Item = L>,
    ) -> Verified<S, B> {
        match joined(lines) {
            Some(value) if self.event_header_named => verified.with_event_header(value),
            Some(value) => verified.with_compared_header(&value),
            None => verified,
        }
    }

    /// Says why, where the sender cannot read it.
    fn log<T>(&self, result: Result<T, Rejection>) -> Result<T, Rejection> {
        if let Err(refused) = &result {
            tracing::warn!(
                scheme = S::NAME,
                status = refused.status(),
                reason = %refused,
                "webhook delivery refused"
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

/// Why an endpoint refuses a request. The adapters answer with
/// [`status`](Self::status) and an empty body, and write the reason to
/// `tracing`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The signature is missing or not right: 401.
    #[error(transparent)]
    Signature(#[from] VerifyError),
    /// The body is larger than the limit: 413.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The body could not be read to its end, so that nothing is verified: 401.
    #[error("the body could not be read to its end")]
    Unreadable,
    /// The verified body is no delivery: 400.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// The verified delivery is too old, or does not say how old it is: 400.
    #[error(transparent)]
    Age(#[from] AgeError),
}

impl Rejection {
    /// The HTTP status to answer with.
    pub fn status(&self) -> u16 {
        match self {
            Self::Signature(_) | Self::Unreadable => 401,
            Self::TooLarge(_) => 413,
            Self::Envelope(_) | Self::Age(_) => 400,
        }
    }
}

/// The lines of the event header as one text. Several are one that no event
/// has, so that they count as different from the body's.
fn joined<L: AsRef<[u8]>>(lines: impl Iterator<Item = L>) -> Option<Vec<u8>> {
    let lines: Vec<L> = lines.collect();
    let lines: Vec<&[u8]> = lines.iter().map(AsRef::as_ref).collect();
    (!lines.is_empty()).then(|| lines.join(&b", "[..]))
}

/// The event where it was signed.
fn event_for_log<S: Scheme, B: AsRef<[u8]>>(delivery: &Delivery<S, B>) -> &str {
    match delivery.header_event() {
        HeaderEvent::Only => "named by an unsigned header",
        _ => delivery.event().as_ref(),
    }
}
