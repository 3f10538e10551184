//! The common part of the framework adapters: checks, limits and rejections.
//!
//! Every adapter checks in the same order: signature header, announced size, verifier,
//! body up to the limits, signature, envelope, age. The body is not read if the header
//! is malformed, and not parsed before its signature is verified.

#[cfg(feature = "actix")]
pub(crate) mod actix;
pub(crate) mod any;
#[cfg(feature = "axum")]
pub(crate) mod axum;
#[cfg(feature = "_body")]
pub(crate) mod body;
#[cfg(feature = "http")]
pub(crate) mod http;
#[cfg(any(feature = "_body", feature = "actix"))]
mod incoming;
#[cfg(feature = "lambda")]
pub(crate) mod lambda;
mod rejection;
pub(crate) mod resolver;
#[cfg(feature = "tower")]
pub(crate) mod tower;
#[cfg(any(feature = "_body", feature = "actix"))]
mod unverified;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub use any::{AnyDelivery, AnyReceiver};
pub use rejection::Rejection;
pub use resolver::{RequestHead, RequestParts};

use crate::log_text::LogText;
use crate::{
    BodyBytes, BoxError, Delivery, Extraction, HeaderEvent, Mail, Scheme, Timestamp, Verified,
    Verifier,
};
#[cfg(any(feature = "http", feature = "lambda"))]
use crate::{BodyTooLarge, Signature};
use resolver::Verifiers;

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
/// 3. With [`resolving`](Self::resolving), that there is a verifier for the request:
///    otherwise 401, or 503 if your function fails.
/// 4. The body, read up to the limit and within
///    [`body_timeout`](Self::body_timeout): 413 if it is larger, 408 if it takes longer,
///    401 if it cannot be read completely, and 503 if it has waited longest and all bodies
///    together exceed [`unverified_limit`](Self::unverified_limit).
/// 5. The signature: 401 if it does not match.
/// 6. The envelope: 400 if the signed body is not a delivery.
/// 7. The age, if [`max_age`](Self::max_age) is set: 400 if it is out of range.
///
/// A limit of the framework for the size of a body applies too: axum's
/// `DefaultBodyLimit`, a registered `PayloadConfig` of actix-web, and the body limits of
/// tower-http.
///
/// A rejection has an empty body, and its reason is logged with `tracing` at level
/// `WARN`.
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
    verifiers: Verifiers<S>,
    body_limit: usize,
    body_timeout: Option<Duration>,
    unverified_limit: usize,
    #[cfg(any(feature = "_body", feature = "actix"))]
    unverified: Arc<unverified::Unverified>,
    max_age: Option<Duration>,
    clock: fn() -> Timestamp,
    event_header: Option<Arc<str>>,
    event_header_is_fallback: bool,
}

impl<S: Scheme> Receiver<S> {
    /// The default of [`body_limit`](Self::body_limit): 1 MiB.
    pub const DEFAULT_BODY_LIMIT: usize = 1024 * 1024;

    /// The default of [`body_timeout`](Self::body_timeout): 10 seconds, the time-out of the email
    /// service. The reference of the extraction service names none.
    pub const DEFAULT_BODY_TIMEOUT: Duration = Duration::from_secs(10);

    /// The default of [`unverified_limit`](Self::unverified_limit): 8 MiB.
    pub const DEFAULT_UNVERIFIED_LIMIT: usize = 8 * 1024 * 1024;

    /// Creates a receiver with the default limits and no maximum age.
    pub fn new(verifier: Verifier<S>) -> Self {
        Self::with_verifiers(Verifiers::One(verifier))
    }

    /// Creates a receiver that resolves the verifier of each request, for example of the
    /// tenant in its path.
    ///
    /// `resolve` is called after the signature header was checked and before the body is
    /// read. It returns `Ok(None)` if nobody can have signed the request, which gets a 401
    /// response. An error is logged and gets a 503 response with `Retry-After`.
    ///
    /// Cache the verifiers. Use one [scope](crate::dedup::Dedup::scope) of de-duplication
    /// for each tenant.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use std::sync::Arc;
    /// use webhook_verify::{MailVerifier, Receiver};
    ///
    /// // POST /tenants/{tenant}/hooks
    /// fn receiver(verifiers: HashMap<String, MailVerifier>) -> Receiver<webhook_verify::Mail> {
    ///     let verifiers = Arc::new(verifiers);
    ///     Receiver::resolving(move |head| {
    ///         let verifiers = verifiers.clone();
    ///         async move {
    ///             let tenant = head.path().split('/').nth(2);
    ///             Ok(tenant.and_then(|tenant| verifiers.get(tenant)).cloned())
    ///         }
    ///     })
    /// }
    /// # receiver(HashMap::new());
    /// ```
    pub fn resolving<F, Fut>(resolve: F) -> Self
    where
        F: Fn(RequestHead) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<Verifier<S>>, BoxError>> + Send + 'static,
    {
        Self::with_verifiers(Verifiers::resolving(resolve))
    }

    fn with_verifiers(verifiers: Verifiers<S>) -> Self {
        Self {
            verifiers,
            body_limit: Self::DEFAULT_BODY_LIMIT,
            body_timeout: Some(Self::DEFAULT_BODY_TIMEOUT),
            unverified_limit: Self::DEFAULT_UNVERIFIED_LIMIT,
            #[cfg(any(feature = "_body", feature = "actix"))]
            unverified: Arc::default(),
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

    /// Sets the time in which a body must arrive completely. Default: 10 seconds. `None`
    /// removes the limit.
    ///
    /// A slower body is rejected with 408. It applies to the adapters that read the body:
    /// axum, actix-web and tower. With tower outside of a tokio runtime, which has the
    /// timer, set `None`. There is no limit on `wasm32-unknown-unknown`.
    #[must_use]
    pub fn body_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.body_timeout = timeout.into();
        self
    }

    /// Sets the maximum memory for bodies that have not arrived completely, in bytes and
    /// for all requests together. Default: 8 MiB, and always enough for one body of the
    /// maximum size.
    ///
    /// A signature can be verified only when the body is complete, so everyone can make a
    /// receiver store bytes. When the limit is reached, the body that has waited longest is
    /// rejected with 503. Clones of a receiver share the memory. It applies to the
    /// adapters that read the body: axum, actix-web and tower.
    ///
    /// With actix-web, each body also counts for the 192 KiB that actix-web buffers for its
    /// connection, so the default is enough for 42 bodies that arrive at the same time.
    #[must_use]
    pub fn unverified_limit(mut self, bytes: usize) -> Self {
        self.unverified_limit = bytes;
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

    /// The verifier, unless it is resolved for each request.
    fn verifier(&self) -> Option<&Verifier<S>> {
        match &self.verifiers {
            Verifiers::One(verifier) => Some(verifier),
            Verifiers::Resolved(_) => None,
        }
    }

    /// Verifies a complete body.
    #[cfg(any(feature = "http", feature = "lambda"))]
    async fn verify_complete<B: BodyBytes>(
        &self,
        parts: &impl RequestParts,
        body: B,
    ) -> Result<Verified<S, B>, Rejection> {
        let signature = Signature::from_header_values(parts.values(S::SIGNATURE_HEADER))?;
        if body.as_ref().len() > self.body_limit {
            return Err(BodyTooLarge { limit: self.body_limit }.into());
        }
        let verified = self.verifier_for(parts).await?.verify_signature(&signature, body)?;
        Ok(self.with_event_header_of(verified, parts))
    }

    /// Parses the envelope of a verified body and checks the age.
    fn parse<B: BodyBytes>(&self, verified: Verified<S, B>) -> Result<Delivery<S, B>, Rejection> {
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
    fn with_event_header_of<B: BodyBytes>(
        &self,
        verified: Verified<S, B>,
        parts: &impl RequestParts,
    ) -> Verified<S, B> {
        let values = self.event_header.as_deref().map(|name| parts.values(name));
        match join_values(&values.unwrap_or_default()) {
            Some(value) if self.event_header_is_fallback => verified.with_event_header(value),
            Some(value) => verified.with_compared_event_header(&value),
            None => verified,
        }
    }

    /// Logs the reason of a rejection, which the sender must not see.
    fn log<T>(&self, result: Result<T, Rejection>) -> Result<T, Rejection> {
        log_rejection(S::NAME, &result);
        result
    }
}

fn log_rejection<T>(scheme: &str, result: &Result<T, Rejection>) {
    if let Err(rejection) = result {
        tracing::warn!(
            scheme,
            status = rejection.status(),
            reason = %rejection,
            "webhook delivery rejected"
        );
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
            .field("verifiers", &self.verifiers)
            .field("body_limit", &self.body_limit)
            .field("body_timeout", &self.body_timeout)
            .field("unverified_limit", &self.unverified_limit)
            .field("max_age", &self.max_age)
            .field("event_header", &self.event_header)
            .finish_non_exhaustive()
    }
}

/// The values of the event header as one text. Several values are joined, which
/// matches no event name, so they are reported as different from the body's event.
fn join_values(values: &[&[u8]]) -> Option<Vec<u8>> {
    (!values.is_empty()).then(|| values.join(&b", "[..]))
}

/// The event name if it is signed.
fn event_for_log<S: Scheme, B: BodyBytes>(delivery: &Delivery<S, B>) -> &str {
    match delivery.header_event() {
        HeaderEvent::Fallback => "from an unsigned header",
        _ => delivery.event().as_ref(),
    }
}
