//! The common part of the framework adapters.
//!
//! Every adapter checks in the same order: signature header, announced size, verifier, body up to
//! the limits, signature, envelope, age. The body is not read if the header is malformed, and not
//! parsed before its signature is verified.

#[cfg(feature = "actix")]
mod actix;
#[cfg(feature = "axum")]
pub(crate) mod axum;

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};

use crate::delivery::Delivery;
use crate::log_text::{LogText, debug_fields, setters};
use crate::rejection::Rejection;
use crate::signature::Signature;
use crate::verifier::Verifier;

/// An error of your own, of a resolver or of a store.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A webhook endpoint: a [`Verifier`] with the limits that the framework adapters enforce.
///
/// Create it once at startup and pass it to your framework: as the router's state in axum, as app
/// data in actix-web, or call `receive` with an `http::Request`. Clones are cheap.
///
/// For each request, the adapters check in this order:
///
/// 1. Exactly one well-formed signature header: otherwise 401.
/// 2. The announced size of the body is within [`body_limit`](Self::body_limit): otherwise 413.
/// 3. With [`resolving`](Self::resolving), that there is a verifier for the request: otherwise
///    401, or 503 if your function fails.
/// 4. The body, read up to the limit and within [`body_timeout`](Self::body_timeout): 413 if it is
///    larger, 408 if it takes longer, 401 if it cannot be read completely.
/// 5. The signature: 401 if it does not match.
/// 6. That the signed body is a delivery, and its [age](Self::max_age): otherwise 400.
///
/// A rejection has an empty body, and its reason is logged with `tracing` at level `WARN`.
///
/// ```
/// use webhook_verify::{Receiver, Secret, Verifier};
///
/// # fn main() -> Result<(), webhook_verify::SecretError> {
/// let receiver =
///     Receiver::new(Verifier::email(Secret::new("whsec_3f1c")?)).body_limit(256 * 1024);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Receiver {
    verifiers: Verifiers,
    body_limit: usize,
    body_timeout: Duration,
    max_age: Option<Duration>,
    /// Whether a delivery without a readable `created` is rejected.
    needs_created: bool,
    clock: Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>,
    event_header: Option<Arc<str>>,
}

#[derive(Clone)]
enum Verifiers {
    One(Verifier),
    Resolved(Arc<dyn Fn(RequestHead) -> Resolving + Send + Sync>),
}

type Resolving = Pin<Box<dyn Future<Output = Result<Option<(String, Verifier)>, BoxError>> + Send>>;

/// How far the sender's clock may be ahead of this machine's.
pub(crate) const MAX_CLOCK_SKEW: Duration = Duration::from_secs(5 * 60);

impl Receiver {
    /// The default of [`body_limit`](Self::body_limit): 1 MiB.
    pub const DEFAULT_BODY_LIMIT: usize = 1024 * 1024;

    /// The default of [`body_timeout`](Self::body_timeout): 10 seconds, the time-out of the email
    /// service. The reference of the extraction service names none.
    pub const DEFAULT_BODY_TIMEOUT: Duration = Duration::from_secs(10);

    /// The default of [`max_age`](Self::max_age): one day, in which all retries of a service fit.
    pub const DEFAULT_MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

    /// Creates a receiver with the default limits.
    pub fn new(verifier: Verifier) -> Self {
        Self::with_verifiers(Verifiers::One(verifier))
    }

    /// Creates a receiver that looks up tenant and verifier of each request, for example by a name
    /// in its path.
    ///
    /// `resolve` is called once for each request, after the signature header was checked and
    /// before the body is read. It returns the tenant's name and its verifier, or `Ok(None)` if
    /// nobody can have signed the request, which gets a 401 response. An error is logged and gets
    /// a 503 response with `Retry-After`.
    ///
    /// A handler takes the tenant from [`Delivery::tenant`] and must not read it from the request
    /// again: a framework decodes a path (`m%61in`) that the resolver sees as it was received, and
    /// both could come to different tenants. [`Delivery::key`] begins with the tenant.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use std::sync::Arc;
    /// use webhook_verify::{Receiver, Verifier};
    ///
    /// // POST /tenants/{tenant}/hooks
    /// fn receiver(verifiers: HashMap<String, Verifier>) -> Receiver {
    ///     let verifiers = Arc::new(verifiers);
    ///     Receiver::resolving(move |head| {
    ///         let verifiers = verifiers.clone();
    ///         async move {
    ///             let Some(tenant) = head.path().split('/').nth(2) else { return Ok(None) };
    ///             Ok(verifiers.get(tenant).map(|verifier| (tenant.to_owned(), verifier.clone())))
    ///         }
    ///     })
    /// }
    /// # receiver(HashMap::new());
    /// ```
    pub fn resolving<F, Fut>(resolve: F) -> Self
    where
        F: Fn(RequestHead) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<(String, Verifier)>, BoxError>> + Send + 'static,
    {
        Self::with_verifiers(Verifiers::Resolved(Arc::new(move |head| {
            Box::pin(resolve(head))
        })))
    }

    fn with_verifiers(verifiers: Verifiers) -> Self {
        Self {
            verifiers,
            body_limit: Self::DEFAULT_BODY_LIMIT,
            body_timeout: Self::DEFAULT_BODY_TIMEOUT,
            max_age: Some(Self::DEFAULT_MAX_AGE),
            needs_created: false,
            clock: Arc::new(Utc::now),
            event_header: None,
        }
    }

    /// Sets how long after its signed `created` time a delivery is accepted. `None` removes the
    /// limit. Default: one day.
    ///
    /// Neither service signs the time of a request, so this limits how long a captured delivery
    /// can be replayed; within it, only de-duplication prevents a replay, and `Dedup` remembers
    /// every delivery at least as long. Choose a value longer than the period over which the
    /// sender retries, or late retries are lost.
    ///
    /// An older delivery is rejected with 400. One that is dated more than five minutes in the
    /// future is rejected with 503, so that it comes again: this machine's clock may be slow. A
    /// delivery without a readable `created` is accepted under the default, because
    /// the email service does not document the field, and rejected once this is set.
    #[must_use]
    pub fn max_age(mut self, max_age: impl Into<Option<Duration>>) -> Self {
        self.max_age = max_age.into();
        self.needs_created = self.max_age.is_some();
        self
    }

    /// Verifies a request whose body is complete, of any framework. `path` and `query` are for
    /// [`resolving`](Self::resolving) only.
    ///
    /// # Errors
    ///
    /// The [`Rejection`], which is logged.
    pub async fn receive_parts<'a>(
        &self,
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        path: &str,
        query: Option<&str>,
        body: impl Into<Bytes>,
    ) -> Result<Delivery, Rejection> {
        let head = RequestHead::new(path, query, headers);
        let body = body.into();
        let length = Some(body.len() as u64);
        self.receive_with(head, length, async || Ok(body)).await
    }

    /// Checks in the order of all adapters. `read` reads the body.
    async fn receive_with(
        &self,
        head: RequestHead,
        announced: Option<u64>,
        read: impl AsyncFnOnce() -> Result<Bytes, Rejection>,
    ) -> Result<Delivery, Rejection> {
        let received = async {
            let headers = head.headers.iter();
            let signature =
                Signature::from_headers(headers.map(|(name, value)| (&**name, &**value)))?;
            if announced.is_some_and(|length| length > self.body_limit as u64) {
                return Err(Rejection::TooLarge {
                    limit: self.body_limit,
                });
            }
            let (tenant, verifier) = self.verifier_for(&head).await?;
            verifier.check_service(&signature)?;
            let body = read().await?;
            let matched = verifier.verify_bytes(&signature, &body)?;
            let header = self.event_header_value(&signature, &head);
            let delivery = Delivery::parse(
                &signature,
                &body,
                matched,
                header.as_deref(),
                self.event_header.is_some(),
            )?;
            let delivery = self.check_age(delivery)?;
            Ok(match tenant {
                Some(tenant) => delivery.with_tenant(tenant.into()),
                None => delivery,
            })
        };
        let received = received.await;
        let path = LogText(&head.path);
        match &received {
            // An unsigned event is not logged.
            Ok(delivery) => tracing::debug!(
                service = %delivery.service(),
                event = ?delivery.event_is_signed().then(|| LogText(delivery.event())),
                matched_secret = delivery.matched_secret(),
                header_differs = delivery.different_header_event().is_some(),
                "webhook delivery verified"
            ),
            Err(rejection) => tracing::warn!(
                status = rejection.status(),
                reason = %rejection,
                ?path,
                "webhook delivery rejected"
            ),
        }
        received
    }

    async fn verifier_for(
        &self,
        head: &RequestHead,
    ) -> Result<(Option<String>, Verifier), Rejection> {
        let resolve = match &self.verifiers {
            Verifiers::One(verifier) => return Ok((None, verifier.clone())),
            Verifiers::Resolved(resolve) => resolve,
        };
        match resolve(head.clone()).await {
            Ok(Some((tenant, verifier))) => Ok((Some(tenant), verifier)),
            Ok(None) => Err(Rejection::UnknownTenant),
            Err(error) => {
                tracing::error!(
                    error = ?LogText(&error),
                    "failed to resolve the verifier of a webhook delivery"
                );
                Err(Rejection::ResolverFailed)
            }
        }
    }

    /// Several values are joined, which matches no event name.
    fn event_header_value(&self, signature: &Signature, head: &RequestHead) -> Option<String> {
        let documented = signature.service().event_header();
        let name = self.event_header.as_deref().or(documented)?;
        let headers = head.headers.iter();
        let named = headers.filter(|(other, _)| other.eq_ignore_ascii_case(name));
        let values: Vec<_> = named
            .map(|(_, value)| String::from_utf8_lossy(value))
            .collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    fn check_age(&self, mut delivery: Delivery) -> Result<Delivery, Rejection> {
        let Some(max_age) = self.max_age else {
            return Ok(delivery);
        };
        let Some(created) = delivery.created_at() else {
            return if self.needs_created {
                Err(Rejection::UnknownAge)
            } else {
                Ok(delivery)
            };
        };

        let age = (self.clock)() - created;
        if age.to_std().is_ok_and(|age| age > max_age) {
            return Err(Rejection::TooOld);
        }
        if (-age).to_std().is_ok_and(|ahead| ahead > MAX_CLOCK_SKEW) {
            return Err(Rejection::InTheFuture);
        }

        delivery.accepted_for = Some(max_age);
        Ok(delivery)
    }
}

#[cfg(feature = "http")]
impl Receiver {
    /// Receives a request of hyper, tower, tonic, `lambda_http` and other servers that use the
    /// crate `http`: reads its body within the limits, and verifies it.
    ///
    /// # Errors
    ///
    /// The [`Rejection`], which is logged. Respond with its [`status`](Rejection::status).
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with a timer.
    pub async fn receive<B>(&self, request: http::Request<B>) -> Result<Delivery, Rejection>
    where
        B: http_body::Body,
        B::Error: Into<BoxError>,
    {
        use http_body_util::{BodyExt as _, Limited};

        let (parts, body) = request.into_parts();
        let headers = parts
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()));
        let head = RequestHead::new(parts.uri.path(), parts.uri.query(), headers);
        let announced = body.size_hint().exact();
        let limit = self.body_limit;
        let read = async || {
            let body = Limited::new(body, limit);
            match tokio::time::timeout(self.body_timeout, body.collect()).await {
                Ok(Ok(body)) => Ok(body.to_bytes()),
                Ok(Err(error)) if is_too_large(&*error) => Err(Rejection::TooLarge { limit }),
                Ok(Err(_)) => Err(Rejection::Unreadable),
                Err(_) => Err(Rejection::Timeout {
                    timeout: self.body_timeout,
                }),
            }
        };

        self.receive_with(head, announced, read).await
    }
}

/// Whether the error, or one that caused it, is that of a limit.
#[cfg(feature = "http")]
fn is_too_large(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |&error| error.source())
        .any(<dyn Error>::is::<http_body_util::LengthLimitError>)
}

setters! {
    Receiver:

    /// Sets the maximum size of a body in bytes. Default: 1 MiB. A larger body is rejected with
    /// 413. axum's `DefaultBodyLimit` (2 MB unless set) applies too.
    body_limit(bytes: usize) = bytes;

    /// Sets the time in which a body must arrive completely. Default: 10 seconds. A slower body
    /// is rejected with 408.
    body_timeout(timeout: Duration) = timeout;

    /// Sets the clock for [`max_age`](Self::max_age), for tests. Default: the system's clock.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use chrono::{DateTime, Utc};
    /// use webhook_verify::{Receiver, Secret, Verifier};
    ///
    /// # fn main() -> Result<(), webhook_verify::SecretError> {
    /// // A test moves this clock, for example to the time of the sandbox.
    /// let now = Arc::new(Mutex::new(Utc::now()));
    /// let clock = now.clone();
    /// let receiver = Receiver::new(Verifier::email(Secret::new("whsec_3f1c")?))
    ///     .clock(move || *clock.lock().unwrap());
    /// *now.lock().unwrap() += chrono::TimeDelta::hours(23);
    /// # Ok(())
    /// # }
    /// ```
    clock(now: impl Fn() -> DateTime<Utc> + Send + Sync + 'static) = Arc::new(now);

    /// Sets the name of the header that names the event if the body does not. It is **not
    /// signed**. Without this setting, the header `X-Service-Event` of the extraction service is
    /// compared with the body and never used in its place.
    event_header(name: impl Into<Arc<str>>) = Some(name.into());
}

impl From<Verifier> for Receiver {
    fn from(verifier: Verifier) -> Self {
        Self::new(verifier)
    }
}

debug_fields!(Receiver: body_limit, body_timeout, max_age, event_header);

/// The head of a request, for [`Receiver::resolving`]. Nothing in it is signed.
#[derive(Clone)]
pub struct RequestHead {
    path: String,
    query: Option<String>,
    headers: Vec<(String, Vec<u8>)>,
}

impl RequestHead {
    fn new<'a>(
        path: &str,
        query: Option<&str>,
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Self {
        let headers = headers.into_iter();
        Self {
            path: path.to_owned(),
            query: query.map(str::to_owned),
            headers: headers
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        }
    }

    /// The path of the request, percent-encoded as it was received. In a nested axum router, the
    /// part of the path that the router sees.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The query of the request, without the question mark.
    pub fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    /// The first value of a header, if it is valid UTF-8. Names are case-insensitive.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut named = self
            .headers
            .iter()
            .filter(|(key, _)| key.eq_ignore_ascii_case(name));
        named
            .next()
            .and_then(|(_, value)| str::from_utf8(value).ok())
    }
}

debug_fields!(RequestHead: path);
