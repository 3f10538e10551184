//! The builders of both clients.
//!
//! This is one file because each option belongs to both builders: the stored value, its
//! effect on the client and its documentation.

use std::fmt;
#[cfg(feature = "rate-limit")]
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::call::{is_framing, is_secret};
use super::clients::{EmailClient, ExtractionClient};
use super::connections::{Connections, HttpConfig, ProxyChoice};
use super::guard::{ActiveGuard, RecipientGuard};
use super::hold::Hold;
use super::key::{KeyProvider, key_value};
#[cfg(feature = "tower")]
use super::layer::{AttemptService, Body};
use super::observer::{Attempt, Observers};
use super::payload::JSON;
use super::retry::{BackOff, RetryBudget};
use super::shared::{KnownScopes, Settings, Shared};
use super::transport::MAX_TIMEOUT;
use crate::email::BatchShape;
use crate::{Error, Scope, Scopes, Secret, Service};

/// The options of both builders.
#[derive(Clone)]
struct Builder {
    base: String,
    key: Secret,
    key_header: String,
    key_prefix: String,
    key_provider: Option<KeyProvider>,
    headers: Vec<(String, String)>,
    scopes: Option<Scopes>,
    settings: Settings,
    http: HttpConfig,
    retry_budget: u32,
    observers: Observers,
    guard: Option<RecipientGuard>,
    #[cfg(feature = "rate-limit")]
    rate_limit: Option<(NonZeroU32, NonZeroU32)>,
    #[cfg(feature = "tower")]
    layers: super::layer::Layers,
    request_id_headers: Vec<String>,
}

/// Omits header values, which may be secrets.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            // A URL that is not a valid base URL may contain a password.
            .field("base", &parse_base_url(&self.base).ok().as_ref().map(Url::as_str))
            .field("key", &self.key)
            .field("key_header", &self.key_header)
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("settings", &self.settings)
            .field("proxy", &self.http.proxy)
            .finish_non_exhaustive()
    }
}

impl Builder {
    fn new(base: String, key: Secret) -> Self {
        Self {
            base,
            key,
            key_header: AUTHORIZATION.as_str().to_owned(),
            key_prefix: "Bearer ".to_owned(),
            key_provider: None,
            headers: Vec::new(),
            scopes: None,
            settings: Settings {
                timeout: Duration::from_secs(30),
                attempt_timeout: None,
                retries: 2,
                max_retry_after: Duration::from_secs(60),
                back_off: BackOff::default(),
                honors_idempotency_key: false,
                local_checks: true,
                check_scopes: false,
                insecure_webhook_urls: false,
                batch_shape: BatchShape::Array,
                first_page: 1,
                request_id_headers: Vec::new(),
                max_response_size: 16 * 1024 * 1024,
            },
            http: HttpConfig::default(),
            retry_budget: 50,
            observers: Observers::default(),
            guard: None,
            #[cfg(feature = "rate-limit")]
            rate_limit: None,
            #[cfg(feature = "tower")]
            layers: super::layer::Layers::default(),
            request_id_headers: Vec::new(),
        }
    }

    fn build(self, service: Service) -> Result<Arc<Shared>, Error> {
        let base = parse_base_url(&self.base)?;
        check_base_url(&base, service)?;
        let key = self.key_provider.as_ref().map_or(self.key, KeyProvider::key);
        let key_value = key_value(&self.key_prefix, &key)?;
        let key_header = header_name(&self.key_header)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let known = header_name(name)?;
            if is_framing(&known) {
                return Err(Error::config(format!(
                    "the header {name} cannot be set: the client sets it"
                )));
            }
            if known == key_header {
                return Err(Error::config(format!(
                    "the header {name} carries the API key and cannot be set"
                )));
            }
            let mut value = header_value(name, value)?;
            value.set_sensitive(is_secret(&known));
            headers.insert(known, value);
        }
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
        headers.entry(USER_AGENT).or_insert(DEFAULT_USER_AGENT);
        headers.insert(&key_header, key_value);

        let mut settings = self.settings;
        settings.request_id_headers = if self.request_id_headers.is_empty() {
            ["x-request-id", "request-id", "x-amzn-requestid", "cf-ray"]
                .map(HeaderName::from_static)
                .to_vec()
        } else {
            self.request_id_headers
                .iter()
                .map(|name| header_name(name))
                .collect::<Result<_, _>>()?
        };

        let guard = self.guard.map(ActiveGuard::new).transpose()?.map(Arc::new);
        let connections = Connections::new(self.http)?;
        Ok(Arc::new(Shared {
            service,
            observers: self.observers,
            guard,
            #[cfg(feature = "rate-limit")]
            rate_limit: self
                .rate_limit
                .map(|(rate, burst)| Arc::new(super::rate_limit::RateLimit::new(rate, burst))),
            #[cfg(feature = "tower")]
            layered: self.layers.around(&connections),
            connections,
            base,
            urls: Default::default(),
            #[cfg(feature = "tower")]
            layer_urls: Default::default(),
            json_headers: {
                let mut headers = headers.clone();
                headers.insert(CONTENT_TYPE, JSON);
                headers
            },
            headers,
            key_header,
            key,
            key_prefix: self.key_prefix,
            key_provider: self.key_provider,
            settings,
            budget: Arc::new(RetryBudget::new(self.retry_budget)),
            hold: Arc::new(Hold::new()),
            scopes: KnownScopes::new(self.scopes),
        }))
    }
}

fn parse_base_url(text: &str) -> Result<Url, Error> {
    let url = Url::parse(text)
        .map_err(|error| Error::config(format!("the base URL is not a valid URL: {error}")))?;
    let problem = if !matches!(url.scheme(), "http" | "https") {
        "the base URL must start with http:// or https://"
    } else if !url.username().is_empty() || url.password().is_some() {
        "the base URL must not contain a user name or password"
    } else if url.query().is_some() || url.fragment().is_some() {
        "the base URL must not contain a query or a fragment"
    } else {
        return Ok(url);
    };
    Err(Error::config(problem))
}

/// Rejects base URLs with which no call can succeed.
fn check_base_url(base: &Url, service: Service) -> Result<(), Error> {
    let prefix = service.path_prefix();
    if base.path().trim_end_matches('/').ends_with(prefix) {
        return Err(Error::config(format!(
            "the base URL must not end in {prefix}: the client appends it to the base URL; \
             leave it out"
        )));
    }
    let has_tls = cfg!(any(
        feature = "_rustls",
        feature = "native-tls",
        all(target_arch = "wasm32", target_os = "unknown")
    ));
    if base.scheme() == "https" && !has_tls {
        return Err(Error::config(
            "the base URL uses https, but svc-sdk was compiled without TLS; \
             enable its feature `rustls` in Cargo.toml",
        ));
    }
    Ok(())
}

const DEFAULT_USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("svc-sdk/", env!("CARGO_PKG_VERSION")));

fn header_name(name: &str) -> Result<HeaderName, Error> {
    name.parse().map_err(|_| Error::config(format!("{name:?} is not a valid header name")))
}

pub(super) fn header_value(name: &str, value: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_str(value).map_err(|_| {
        Error::config(format!(
            "the value of the header {name} contains characters that are not allowed"
        ))
    })
}

/// The methods that both builders have.
macro_rules! common_options {
    ($builder:ident) => {
        impl $builder {
            pub(super) fn set_guard(&mut self, guard: Option<RecipientGuard>) {
                self.inner.guard = guard;
            }

            pub(super) fn set_key_provider(&mut self, provider: KeyProvider) {
                self.inner.key_provider = Some(provider);
            }
        }

        /// # Timeouts
        impl $builder {
            /// Sets the deadline of a call, including all attempts and the pauses between them.
            /// Default: 30 seconds. A single call can override it with
            /// [`Call::timeout`](crate::Call::timeout).
            pub fn timeout(mut self, timeout: Duration) -> Self {
                self.inner.settings.timeout = timeout;
                self
            }

            /// Sets the time limit of each attempt, from the start of the connection to the end
            /// of the response. Default: a third of the deadline, see below. A single call can
            /// override it with [`Call::attempt_timeout`](crate::Call::attempt_timeout).
            ///
            /// An attempt that takes longer fails with [`Timeout`](crate::ErrorKind::Timeout),
            /// and the call is retried if that is safe. A send that was already transmitted is
            /// not retried, and its outcome is unknown.
            ///
            /// The default limit only ends attempts that can be retried: those of idempotent
            /// calls, and others as long as no connection has taken the request. It does not
            /// apply to the last attempt of a call, and not to requests with streamed
            /// attachments that are being sent.
            pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
                self.inner.settings.attempt_timeout = Some(timeout);
                self
            }

            /// Sets the time limit for establishing a connection, TLS handshake included.
            /// Default: 10 seconds.
            pub fn connect_timeout(mut self, timeout: Duration) -> Self {
                self.inner.http.connect_timeout = timeout;
                self
            }
        }

        /// # Retries
        impl $builder {
            /// Sets the maximum number of retries per call. Default: 2; 0 disables retries.
            ///
            /// A 429 with `Retry-After` does not count: the call is repeated as often as its
            /// deadline allows.
            ///
            /// Calls that are not idempotent are retried only if the failed attempt was
            /// certainly not processed, see [Retries](crate#retries).
            pub fn retries(mut self, retries: u32) -> Self {
                self.inner.settings.retries = retries;
                self
            }

            /// Sets the longest `Retry-After` that the client waits for. Default: 60 seconds.
            /// If the service asks for more, the call fails at once.
            ///
            /// A 429 with `Retry-After` holds back all clones of the client. When the pause is
            /// over, their calls start in order, and few at first. A call fails at once if the
            /// pause ends after its deadline.
            pub fn max_retry_after(mut self, max: Duration) -> Self {
                self.inner.settings.max_retry_after = max;
                self
            }

            /// Sets the back-off between attempts, for responses without `Retry-After`. The
            /// upper limit of the first pause is `initial`; it doubles with each attempt up to
            /// `max`. Default: 250 milliseconds and 8 seconds.
            ///
            /// The actual pause is chosen at random between zero and that limit (full jitter),
            /// so that clients do not retry in lockstep.
            pub fn back_off(mut self, initial: Duration, max: Duration) -> Self {
                let max = max.min(MAX_TIMEOUT);
                self.inner.settings.back_off = BackOff { initial, max };
                self
            }

            /// Sets the retry budget that all clones of the client share. Each retry takes one
            /// from it, except after a 429 with `Retry-After`. Every ten successful attempts put
            /// one back, and an empty budget is full again after a minute. Default: 50.
            ///
            /// While it is spent, failed attempts are not retried, and the error says so. This
            /// limits the load on a service that is down.
            pub fn retry_budget(mut self, retries: u32) -> Self {
                self.inner.retry_budget = retries;
                self
            }

            /// Declares that the service honors `Idempotency-Key`. Default: false.
            ///
            /// If true, calls with an idempotency key are also retried after ambiguous
            /// failures. See `docs/undocumented/both-services.md#idempotency`.
            pub fn service_honors_idempotency_key(mut self, honors: bool) -> Self {
                self.inner.settings.honors_idempotency_key = honors;
                self
            }
        }

        /// # Checks before sending
        impl $builder {
            /// Whether to check documented limits before sending, such as the number of
            /// recipients. Default: true. Ids that are empty or `.` or `..` are always
            /// rejected.
            pub fn local_checks(mut self, check: bool) -> Self {
                self.inner.settings.local_checks = check;
                self
            }

            /// Declares the scopes of the API key, for [`check_scopes`](Self::check_scopes) and
            /// error messages.
            pub fn scopes(mut self, scopes: impl IntoIterator<Item = Scope>) -> Self {
                self.inner.scopes = Some(scopes.into_iter().collect());
                self
            }

            /// Whether to reject a call before sending if the key is known to lack the required
            /// scope. Default: false.
            pub fn check_scopes(mut self, check: bool) -> Self {
                self.inner.settings.check_scopes = check;
                self
            }
        }

        /// # Requests and responses
        impl $builder {
            /// Sets the response headers to read the request id from; the first one present is
            /// used. Default: `x-request-id`, `request-id`, `x-amzn-requestid`, `cf-ray`.
            pub fn request_id_headers<T: Into<String>>(
                mut self,
                names: impl IntoIterator<Item = T>,
            ) -> Self {
                self.inner.request_id_headers = names.into_iter().map(Into::into).collect();
                self
            }

            /// Sets the maximum size of a response body in bytes. Default: 16 MiB.
            pub fn max_response_size(mut self, bytes: u64) -> Self {
                self.inner.settings.max_response_size = bytes;
                self
            }
        }

        /// # Logging, limits and middleware
        impl $builder {
            /// Adds a callback that runs after every attempt, for logs and metrics. It blocks
            /// the call, so it should return quickly. If this is called more than once, all
            /// callbacks run, in that order.
            pub fn on_attempt(
                mut self,
                observe: impl Fn(&Attempt<'_>) + Send + Sync + 'static,
            ) -> Self {
                self.inner.observers.push(observe);
                self
            }

            /// Limits the request rate to `per_second`, evenly spaced, with bursts of up to
            /// `burst` requests. No limit by default.
            ///
            /// All clones of the client share the limit. Waiting counts towards the call's
            /// deadline. A call that could only start after its deadline fails at once with
            /// [`RateLimited`](crate::ErrorKind::RateLimited); nothing is sent.
            #[cfg(feature = "rate-limit")]
            pub fn rate_limit(mut self, per_second: NonZeroU32, burst: NonZeroU32) -> Self {
                self.inner.rate_limit = Some((per_second, burst));
                self
            }

            /// Wraps every attempt in a tower layer. The layer added last is the outermost.
            /// Layers see the request as it is sent, including the API key.
            ///
            /// ```
            /// # fn main() -> Result<(), svc_sdk::Error> {
            /// use svc_sdk::{AttemptService, Body, EmailClient};
            /// use tower::ServiceExt;
            ///
            /// let traced = tower::layer::layer_fn(|inner: AttemptService| {
            ///     inner.map_request(|mut request: http::Request<Body>| {
            ///         let id = http::HeaderValue::from_static("00-4bf92f-00f067-01");
            ///         request.headers_mut().insert("traceparent", id);
            ///         request
            ///     })
            /// });
            /// let client = EmailClient::builder("https://mail.example", "k").layer(traced).build()?;
            /// # Ok(())
            /// # }
            /// ```
            #[cfg(feature = "tower")]
            pub fn layer<L, S>(mut self, layer: L) -> Self
            where
                L: tower_layer::Layer<AttemptService, Service = S> + Send + Sync + 'static,
                S: tower_service::Service<http::Request<Body>, Response = http::Response<Body>>,
                S: Clone + Send + Sync + 'static,
                S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
                S::Future: Send + 'static,
            {
                self.inner.layers.push(layer);
                self
            }
        }

        /// # Headers
        impl $builder {
            /// Adds a header to every request. It replaces a header of the same name. The header
            /// that carries the API key cannot be set.
            pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
                self.inner.headers.push((name.into(), value.into()));
                self
            }

            /// Sets the `User-Agent` header. Default: `svc-sdk/VERSION`.
            pub fn user_agent(self, user_agent: impl Into<String>) -> Self {
                self.header(USER_AGENT.as_str(), user_agent)
            }
        }

        /// # HTTP and TLS
        impl $builder {
            /// Configures the HTTP client with reqwest's own options, such as a DNS resolver, a
            /// local address, or the number of idle connections.
            ///
            /// The function gets a builder on which this builder's proxy and connect timeout are
            /// set. Redirects, retries and TLS remain as this crate sets them: use
            /// [`attempt_timeout`](Self::attempt_timeout), [`retries`](Self::retries),
            /// `ca_bundle`, `platform_certificates` and `native_tls` instead. The function runs
            /// once in `build`, and once in each further runtime that uses the client.
            ///
            /// ```
            /// # fn main() -> Result<(), svc_sdk::Error> {
            /// let client = svc_sdk::EmailClient::builder("http://127.0.0.1:4080", "mk_…")
            ///     .configure_http(|http| http.pool_max_idle_per_host(4))
            ///     .build()?;
            /// # Ok(())
            /// # }
            /// ```
            #[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
            pub fn configure_http(
                mut self,
                configure: impl Fn(reqwest::ClientBuilder) -> reqwest::ClientBuilder
                + Send
                + Sync
                + 'static,
            ) -> Self {
                self.inner.http.configure = Some(Arc::new(configure));
                self
            }

            /// Sends all requests through this proxy. By default, the environment variables
            /// `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` apply.
            pub fn proxy(mut self, url: impl Into<Secret>) -> Self {
                self.inner.http.proxy = ProxyChoice::Url(url.into());
                self
            }

            /// Sets the hosts that bypass [`proxy`](Self::proxy), in the format of `NO_PROXY`:
            /// for example `internal.example,10.0.0.0/8`, or `*` for all hosts.
            pub fn proxy_except(mut self, hosts: impl Into<String>) -> Self {
                self.inner.http.proxy_except = hosts.into();
                self
            }

            /// Ignores the proxy settings of the environment and connects directly.
            pub fn no_proxy(mut self) -> Self {
                self.inner.http.proxy = ProxyChoice::None;
                self
            }

            /// Trusts the certificates in this PEM text, in addition to the platform's. Can be
            /// called more than once.
            #[cfg(any(feature = "_rustls", feature = "native-tls"))]
            pub fn ca_bundle(mut self, pem: impl AsRef<[u8]>) -> Self {
                self.inner.http.tls.add_bundle(pem.as_ref());
                self
            }

            /// Whether to trust the platform's root certificates. Default: true.
            #[cfg(any(feature = "_rustls", feature = "native-tls"))]
            pub fn platform_certificates(mut self, trust: bool) -> Self {
                self.inner.http.tls.trust_platform(trust);
                self
            }

            /// Whether to use the platform's TLS library (OpenSSL on Linux) instead of rustls.
            /// Default: false, unless rustls is not compiled in.
            #[cfg(feature = "native-tls")]
            pub fn native_tls(mut self, native: bool) -> Self {
                self.inner.http.tls.prefer_native(native);
                self
            }
        }
    };
}

/// Builds an [`EmailClient`]. Returned by [`EmailClient::builder`].
///
/// # Options
///
/// - **API key:** [`from_env`](Self::from_env), [`key_provider`](Self::key_provider)
/// - **Timeouts:** [`timeout`](Self::timeout), [`attempt_timeout`](Self::attempt_timeout),
///   [`connect_timeout`](Self::connect_timeout)
/// - **Retries:** [`retries`](Self::retries), [`back_off`](Self::back_off),
///   [`max_retry_after`](Self::max_retry_after), [`retry_budget`](Self::retry_budget),
///   [`service_honors_idempotency_key`](Self::service_honors_idempotency_key)
/// - **Checks before sending:** [`local_checks`](Self::local_checks),
///   [`scopes`](Self::scopes), [`check_scopes`](Self::check_scopes),
///   [`insecure_webhook_urls`](Self::insecure_webhook_urls)
/// - **Recipients:** [`recipient_guard`](Self::recipient_guard)
/// - **Requests and responses:** [`header`](Self::header),
///   [`user_agent`](Self::user_agent), [`request_id_headers`](Self::request_id_headers),
///   [`max_response_size`](Self::max_response_size), `rate_limit` (feature `rate-limit`)
/// - **Logging and middleware:** [`on_attempt`](Self::on_attempt), `layer` (feature
///   `tower`)
/// - **HTTP and TLS:** [`configure_http`](Self::configure_http), [`proxy`](Self::proxy),
///   [`proxy_except`](Self::proxy_except), [`no_proxy`](Self::no_proxy), `ca_bundle`,
///   `platform_certificates`, `native_tls`
/// - **Undocumented details of the service:** [`key_header`](Self::key_header),
///   [`key_prefix`](Self::key_prefix), [`batch_shape`](Self::batch_shape),
///   [`first_page`](Self::first_page)
///
/// ```no_run
/// # fn main() -> Result<(), svc_sdk::Error> {
/// use std::time::Duration;
/// use svc_sdk::{EmailClient, Scope};
///
/// let client = EmailClient::builder("https://mail.example", "mk_live_…")
///     .timeout(Duration::from_secs(10))
///     .retries(3)
///     // Reject calls that this key may not make without sending a request.
///     .scopes([Scope::EmailsSend, Scope::EmailsRead])
///     .check_scopes(true)
///     .on_attempt(|attempt| {
///         if let Some(failure) = attempt.failure {
///             eprintln!("attempt {}: {failure}", attempt.number);
///         }
///     })
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "call `build` to create the client"]
pub struct EmailClientBuilder {
    inner: Builder,
}

impl EmailClientBuilder {
    pub(super) fn new(base_url: String, key: Secret) -> Self {
        Self { inner: Builder::new(base_url, key) }
    }
}

common_options!(EmailClientBuilder);

/// # Recipients
impl EmailClientBuilder {
    /// Limits who gets emails, for staging systems and tests. The guard checks every send of
    /// the client and its clones, batches and raw requests included; with a guard, raw requests
    /// to undocumented paths can only read. Tower layers see the request after the check. By
    /// default, every recipient is allowed.
    ///
    /// See [`RecipientGuard`] and `docs/guides/recipient-guard.md`.
    pub fn recipient_guard(mut self, guard: RecipientGuard) -> Self {
        self.inner.guard = Some(guard);
        self
    }
}

/// # Undocumented details of the service
impl EmailClientBuilder {
    /// Sets the header that carries the API key. Default: `Authorization`. The service's
    /// reference does not name it (`docs/undocumented/email-service.md#key-header`).
    pub fn key_header(mut self, name: impl Into<String>) -> Self {
        self.inner.key_header = name.into();
        self
    }

    /// Sets the text before the key in its header. Default: `Bearer ` (with a space).
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.inner.key_prefix = prefix.into();
        self
    }

    /// Sets the JSON shape of a batch request. Default: [`BatchShape::Array`]
    /// (`docs/undocumented/email-service.md#batch-body`).
    pub fn batch_shape(mut self, shape: BatchShape) -> Self {
        self.inner.settings.batch_shape = shape;
        self
    }

    /// Sets the number of the first page of contacts. Default: 1. Only relevant if the
    /// service's responses do not contain the page number
    /// (`docs/undocumented/email-service.md#contact-pages`).
    pub fn first_page(mut self, first: u64) -> Self {
        self.inner.settings.first_page = first;
        self
    }

    /// Whether to accept `http` webhook URLs, for a local server. Default: false
    /// (`docs/undocumented/email-service.md#webhook-urls`).
    pub fn insecure_webhook_urls(mut self, allow: bool) -> Self {
        self.inner.settings.insecure_webhook_urls = allow;
        self
    }
}

/// # Building
impl EmailClientBuilder {
    /// Builds the client. This sends nothing and loads no certificates.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if the base URL is not an `http` or
    /// `https` URL, it uses `https` and the crate was compiled without TLS, the key is
    /// empty, or the value of an option is invalid.
    pub fn build(self) -> Result<EmailClient, Error> {
        Ok(EmailClient { shared: self.inner.build(Service::Email)? })
    }
}

/// Builds an [`ExtractionClient`]. Returned by [`ExtractionClient::builder`].
///
/// # Options
///
/// - **API key:** [`from_env`](Self::from_env), [`key_provider`](Self::key_provider)
/// - **Timeouts:** [`timeout`](Self::timeout), [`attempt_timeout`](Self::attempt_timeout),
///   [`connect_timeout`](Self::connect_timeout)
/// - **Retries:** [`retries`](Self::retries), [`back_off`](Self::back_off),
///   [`max_retry_after`](Self::max_retry_after), [`retry_budget`](Self::retry_budget),
///   [`service_honors_idempotency_key`](Self::service_honors_idempotency_key)
/// - **Checks before sending:** [`local_checks`](Self::local_checks),
///   [`scopes`](Self::scopes), [`check_scopes`](Self::check_scopes)
/// - **Requests and responses:** [`header`](Self::header),
///   [`user_agent`](Self::user_agent), [`request_id_headers`](Self::request_id_headers),
///   [`max_response_size`](Self::max_response_size), `rate_limit` (feature `rate-limit`)
/// - **Logging and middleware:** [`on_attempt`](Self::on_attempt), `layer` (feature
///   `tower`)
/// - **HTTP and TLS:** [`configure_http`](Self::configure_http), [`proxy`](Self::proxy),
///   [`proxy_except`](Self::proxy_except), [`no_proxy`](Self::no_proxy), `ca_bundle`,
///   `platform_certificates`, `native_tls`
///
/// ```no_run
/// # fn main() -> Result<(), svc_sdk::Error> {
/// use std::time::Duration;
/// use svc_sdk::ExtractionClient;
///
/// let client = ExtractionClient::builder("https://api.example", "sk_live_…")
///     .timeout(Duration::from_secs(10))
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "call `build` to create the client"]
pub struct ExtractionClientBuilder {
    inner: Builder,
}

impl ExtractionClientBuilder {
    pub(super) fn new(base_url: String, key: Secret) -> Self {
        Self { inner: Builder::new(base_url, key) }
    }
}

common_options!(ExtractionClientBuilder);

/// # Building
impl ExtractionClientBuilder {
    /// Builds the client. This sends nothing and loads no certificates.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if the base URL is not an `http` or
    /// `https` URL, it uses `https` and the crate was compiled without TLS, the key is
    /// empty, or the value of an option is invalid.
    pub fn build(self) -> Result<ExtractionClient, Error> {
        Ok(ExtractionClient { shared: self.inner.build(Service::Extraction)? })
    }
}
