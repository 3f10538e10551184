//! How a client is made. One file, because every option is here once: what both
//! builders hold, what becomes of it, and its documentation.

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
#[cfg(feature = "tower")]
use super::layer::{AttemptService, Body};
use super::observe::{Attempt, Observer};
use super::payload::JSON;
use super::retry::{BackOff, Budget};
use super::shared::{KnownScopes, Settings, Shared};
use super::transport::CENTURY;
use crate::email::BatchShape;
use crate::{Error, Scope, Scopes, Secret, Service};

/// How long a pooled connection may wait for the next request. Servers close
/// idle connections after 5 s (Node) or more; a connection that closes while a
/// request goes out leaves that request's outcome unknown.
const IDLE: Duration = Duration::from_secs(4);

/// What both clients' builders hold.
#[derive(Clone)]
struct Builder {
    base: String,
    key: Secret,
    key_header: String,
    key_prefix: String,
    user_agent: String,
    headers: Vec<(String, String)>,
    connect_timeout: Duration,
    scopes: Option<Scopes>,
    settings: Settings,
    http: Option<reqwest::Client>,
    proxy: ProxyChoice,
    proxy_except: String,
    retry_budget: u32,
    observer: Option<Observer>,
    #[cfg(feature = "rate-limit")]
    rate_limit: Option<(NonZeroU32, NonZeroU32)>,
    #[cfg(feature = "tower")]
    layers: super::layer::Layers,
    #[cfg(any(feature = "rustls", feature = "native-tls"))]
    tls: super::tls::TlsChoice,
    request_id_headers: Vec<String>,
}

/// A header may carry a secret, so their values are not shown.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            // An address that cannot be a base may hold a password.
            .field("base", &base_address(&self.base).ok().as_ref().map(Url::as_str))
            .field("key", &self.key)
            .field("key_header", &self.key_header)
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("settings", &self.settings)
            .field("proxy", &self.proxy)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
enum ProxyChoice {
    /// `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`.
    Environment,
    None,
    Url(Secret),
}

impl Builder {
    fn new(base: String, key: Secret) -> Self {
        Self {
            base,
            key,
            key_header: AUTHORIZATION.as_str().to_owned(),
            key_prefix: "Bearer ".to_owned(),
            user_agent: concat!("svc-sdk/", env!("CARGO_PKG_VERSION")).to_owned(),
            headers: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            scopes: None,
            settings: Settings {
                timeout: Duration::from_secs(30),
                retries: 2,
                max_retry_after: Duration::from_secs(60),
                back_off: BackOff::default(),
                honours_idempotency_key: false,
                local_checks: true,
                check_scopes: false,
                insecure_webhook_urls: false,
                batch_shape: BatchShape::Array,
                first_page: 1,
                request_id_headers: Vec::new(),
                max_response_size: 16 * 1024 * 1024,
            },
            http: None,
            proxy: ProxyChoice::Environment,
            proxy_except: String::new(),
            retry_budget: 50,
            observer: None,
            #[cfg(feature = "rate-limit")]
            rate_limit: None,
            #[cfg(feature = "tower")]
            layers: super::layer::Layers::default(),
            #[cfg(any(feature = "rustls", feature = "native-tls"))]
            tls: super::tls::TlsChoice::default(),
            request_id_headers: Vec::new(),
        }
    }

    fn build(self, service: Service) -> Result<Arc<Shared>, Error> {
        let base = base_address(&self.base)?;
        if self.key.expose().trim().is_empty() {
            return Err(Error::config("the key is empty"));
        }
        let key_header = header_name(&self.key_header)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let known = header_name(name)?;
            if is_framing(&known) {
                return Err(Error::config(format!("the header {name} is not for callers to set")));
            }
            let mut value = header_value(name, value)?;
            value.set_sensitive(is_secret(&known));
            headers.insert(known, value);
        }
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, header_value("user-agent", &self.user_agent)?);
        let key = zeroize::Zeroizing::new([&self.key_prefix, self.key.expose()].concat());
        let mut key = HeaderValue::from_str(&key)
            .map_err(|_| Error::config("the key holds characters that no header can carry"))?;
        key.set_sensitive(true);
        headers.insert(&key_header, key);

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

        let own_http = self.http.is_none();
        let http = match self.http {
            Some(http) => http,
            None => {
                let builder = reqwest::Client::builder();
                // A browser has its own connections and proxies.
                #[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
                let _ = (self.connect_timeout, IDLE, &self.proxy, &self.proxy_except);
                #[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
                let builder = builder
                    // The key belongs to the configured address alone.
                    .redirect(reqwest::redirect::Policy::none())
                    // Whether to try again is decided in one place, here.
                    .retry(reqwest::retry::never())
                    .connect_timeout(self.connect_timeout)
                    .pool_idle_timeout(IDLE);
                #[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
                let builder = match &self.proxy {
                    ProxyChoice::Environment if all_is_direct() => builder.no_proxy(),
                    ProxyChoice::Environment => builder,
                    ProxyChoice::None => builder.no_proxy(),
                    ProxyChoice::Url(_) if names_all(&self.proxy_except) => builder.no_proxy(),
                    ProxyChoice::Url(url) => builder.proxy(
                        reqwest::Proxy::all(url.expose())
                            .map_err(|_| Error::config("the proxy's address is no address"))?
                            .no_proxy(reqwest::NoProxy::from_string(&self.proxy_except)),
                    ),
                };
                #[cfg(any(feature = "rustls", feature = "native-tls"))]
                let builder = self.tls.apply(builder)?;
                builder.build().map_err(|error| {
                    Error::config("the http client cannot be set up")
                        .with_source(error.without_url())
                })?
            }
        };

        Ok(Arc::new(Shared {
            service,
            observer: self.observer,
            #[cfg(feature = "rate-limit")]
            rate_limit: self
                .rate_limit
                .map(|(rate, burst)| super::rate::RateLimit::new(rate, burst)),
            #[cfg(feature = "tower")]
            layered: self.layers.around(&http, own_http),
            http,
            own_http,
            base,
            urls: Default::default(),
            #[cfg(feature = "tower")]
            addresses: Default::default(),
            json_headers: {
                let mut headers = headers.clone();
                headers.insert(CONTENT_TYPE, JSON);
                headers
            },
            headers,
            key_header,
            key: self.key,
            key_prefix: self.key_prefix,
            settings,
            budget: Budget::new(self.retry_budget),
            scopes: KnownScopes::new(self.scopes),
        }))
    }
}

/// Whether the environment says that no proxy is to be used at all.
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
fn all_is_direct() -> bool {
    let named = ["NO_PROXY", "no_proxy"].into_iter().filter_map(|name| std::env::var(name).ok());
    let mut named = named.filter(|value| !value.is_empty());
    named.next().is_some_and(|list| names_all(&list))
}

/// Whether a list as of `NO_PROXY` names every host, which reqwest takes to mean
/// names only, not addresses.
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
fn names_all(list: &str) -> bool {
    list.split(',').any(|host| host.trim() == "*")
}

fn base_address(text: &str) -> Result<Url, Error> {
    let url = Url::parse(text)
        .map_err(|error| Error::config(format!("the base address is no address: {error}")))?;
    let problem = if !matches!(url.scheme(), "http" | "https") {
        "the base address is neither http nor https"
    } else if !url.username().is_empty() || url.password().is_some() {
        "the base address holds a user name or password"
    } else if url.query().is_some() || url.fragment().is_some() {
        "the base address holds a query or a fragment"
    } else {
        return Ok(url);
    };
    Err(Error::config(problem))
}

fn header_name(name: &str) -> Result<HeaderName, Error> {
    name.parse().map_err(|_| Error::config(format!("{name:?} is no header name")))
}

pub(super) fn header_value(name: &str, value: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_str(value)
        .map_err(|_| Error::config(format!("the header {name} cannot carry its value")))
}

/// The options that both builders have.
macro_rules! options {
    () => {
        /// The deadline of a call, over all its attempts and waits; 30 s by
        /// default. One call can have another:
        /// [`Call::timeout`](crate::Call::timeout).
        pub fn timeout(mut self, timeout: Duration) -> Self {
            self.inner.settings.timeout = timeout;
            self
        }

        /// How long making a connection may take, TLS included; 10 s by
        /// default.
        pub fn connect_timeout(mut self, timeout: Duration) -> Self {
            self.inner.connect_timeout = timeout;
            self
        }

        /// How often at most a call is tried again; 2 by default. What is not
        /// harmless to repeat is tried again only where it certainly was not
        /// processed.
        pub fn retries(mut self, retries: u32) -> Self {
            self.inner.settings.retries = retries;
            self
        }

        /// The longest `Retry-After` that is waited for; 60 s by default. A
        /// longer one ends the call.
        pub fn max_retry_after(mut self, longest: Duration) -> Self {
            self.inner.settings.max_retry_after = longest;
            self
        }

        /// The longest waits before a retry where the service names none: the
        /// first one, doubled each time up to `longest`; 250 ms and 8 s by
        /// default. How much of it is waited is random, so that many clients
        /// do not come back at once.
        pub fn back_off(mut self, first: Duration, longest: Duration) -> Self {
            let longest = longest.min(CENTURY);
            self.inner.settings.back_off = BackOff { first, longest };
            self
        }

        /// How many retries all clones of the client may make at once beyond
        /// one for every ten successes; 50 by default. It keeps many callers
        /// from beating a service that is down.
        pub fn retry_budget(mut self, retries: u32) -> Self {
            self.inner.retry_budget = retries;
            self
        }

        /// Says that the service honours `Idempotency-Key`: a call that sets
        /// one is then tried again after ambiguous failures too. Off by
        /// default.
        pub fn service_honours_idempotency_key(mut self, honours: bool) -> Self {
            self.inner.settings.honours_idempotency_key = honours;
            self
        }

        /// Whether the documented limits are checked before sending; they are
        /// by default. An id that is empty or a dot segment is always refused.
        pub fn local_checks(mut self, check: bool) -> Self {
            self.inner.settings.local_checks = check;
            self
        }

        /// Tells which scopes the key has.
        pub fn scopes(mut self, scopes: impl IntoIterator<Item = Scope>) -> Self {
            self.inner.scopes = Some(scopes.into_iter().collect());
            self
        }

        /// Whether an operation is refused before sending when the key is
        /// known to lack its scope. Off by default.
        pub fn check_scopes(mut self, check: bool) -> Self {
            self.inner.settings.check_scopes = check;
            self
        }

        /// The headers that may carry a request id, the first one wins;
        /// `x-request-id`, `request-id`, `x-amzn-requestid`, `cf-ray` by
        /// default.
        pub fn request_id_headers<T: Into<String>>(
            mut self,
            names: impl IntoIterator<Item = T>,
        ) -> Self {
            self.inner.request_id_headers = names.into_iter().map(Into::into).collect();
            self
        }

        /// The largest answer body that is read; 16 MiB by default.
        pub fn max_response_size(mut self, bytes: u64) -> Self {
            self.inner.settings.max_response_size = bytes;
            self
        }

        /// Tells this function of every attempt when it is done, for a
        /// program's own logs and metrics.
        pub fn on_attempt(
            mut self,
            observe: impl Fn(&Attempt<'_>) + Send + Sync + 'static,
        ) -> Self {
            self.inner.observer = Some(Observer::new(observe));
            self
        }

        /// Sends at most so many requests a second, evenly, after a burst of
        /// so many at once. All clones share the limit; waiting for a place
        /// counts towards the deadline, and what cannot start before it ends
        /// at once, with an error of kind
        /// [`Timeout`](crate::ErrorKind::Timeout) and nothing sent.
        #[cfg(feature = "rate-limit")]
        pub fn rate_limit(mut self, per_second: NonZeroU32, burst: NonZeroU32) -> Self {
            self.inner.rate_limit = Some((per_second, burst));
            self
        }

        /// Puts a tower layer around every attempt; the last one is outermost.
        /// What it sees is the request as it goes out, the key included.
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

        /// A header on every request.
        pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
            self.inner.headers.push((name.into(), value.into()));
            self
        }

        /// Another `User-Agent` than `svc-sdk/VERSION`.
        pub fn user_agent(mut self, user_agent: impl Into<String>) -> Self {
            self.inner.user_agent = user_agent.into();
            self
        }

        /// Your own HTTP client, with its own pool, TLS, proxies and
        /// time-outs, in place of the one that this builder makes.
        ///
        /// Let it follow no redirects and retry nothing by itself: what it
        /// repeats, this crate cannot know, and a key in another header than
        /// `Authorization` it takes along to wherever it is redirected. Its
        /// proxies, certificates and connect time-out are its own; those of
        /// this builder do not reach it.
        pub fn http_client(mut self, client: reqwest::Client) -> Self {
            self.inner.http = Some(client);
            self
        }

        /// A proxy for all requests, in place of the one that the environment
        /// names (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`).
        pub fn proxy(mut self, url: impl Into<Secret>) -> Self {
            self.inner.proxy = ProxyChoice::Url(url.into());
            self
        }

        /// Hosts that [`proxy`](Self::proxy) is not for, named as in `NO_PROXY`:
        /// `internal.example,10.0.0.0/8`, or `*` for all.
        pub fn proxy_except(mut self, hosts: impl Into<String>) -> Self {
            self.inner.proxy_except = hosts.into();
            self
        }

        /// No proxy, whatever the environment says.
        pub fn no_proxy(mut self) -> Self {
            self.inner.proxy = ProxyChoice::None;
            self
        }

        /// Trusts the certificates of this PEM text too, such as a company's
        /// own. Called again, it adds more.
        #[cfg(any(feature = "rustls", feature = "native-tls"))]
        pub fn ca_bundle(mut self, pem: impl AsRef<[u8]>) -> Self {
            self.inner.tls.add_bundle(pem.as_ref());
            self
        }

        /// Whether the platform's own certificates are trusted; they are by
        /// default.
        #[cfg(any(feature = "rustls", feature = "native-tls"))]
        pub fn platform_certificates(mut self, trust: bool) -> Self {
            self.inner.tls.trust_platform(trust);
            self
        }

        /// TLS by the platform's own library (OpenSSL on Linux) in place of
        /// rustls.
        #[cfg(feature = "native-tls")]
        pub fn native_tls(mut self, native: bool) -> Self {
            self.inner.tls.prefer_native(native);
            self
        }
    };
}

/// Makes an [`EmailClient`].
///
/// ```no_run
/// # fn main() -> Result<(), svc_sdk::Error> {
/// use std::time::Duration;
/// use svc_sdk::{EmailClient, Scope};
///
/// let client = EmailClient::builder("https://mail.example", "mk_live_…")
///     .timeout(Duration::from_secs(10))
///     .retries(3)
///     // What the key may do is known, so what it may not is refused here.
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
#[must_use = "a builder makes a client by `build`"]
pub struct EmailClientBuilder {
    inner: Builder,
}

impl EmailClientBuilder {
    pub(super) fn new(base_url: String, key: Secret) -> Self {
        Self { inner: Builder::new(base_url, key) }
    }

    options!();

    /// The header that carries the key; `Authorization` by default. The
    /// documents do not show it (`docs/undocumented/email-service.md#key-header`).
    pub fn key_header(mut self, name: impl Into<String>) -> Self {
        self.inner.key_header = name.into();
        self
    }

    /// What stands before the key in its header; `Bearer ` by default.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.inner.key_prefix = prefix.into();
        self
    }

    /// The shape of a batch's body; an array by default
    /// (`docs/undocumented/email-service.md#batch-body`).
    pub fn batch_shape(mut self, shape: BatchShape) -> Self {
        self.inner.settings.batch_shape = shape;
        self
    }

    /// The number of the first page, for a service whose answers do not name
    /// their page; 1 by default (`docs/undocumented/email-service.md#contact-pages`).
    pub fn first_page(mut self, first: u64) -> Self {
        self.inner.settings.first_page = first;
        self
    }

    /// Whether a webhook's address may be http, for a local server
    /// (`docs/undocumented/email-service.md#webhook-urls`).
    pub fn insecure_webhook_urls(mut self, allow: bool) -> Self {
        self.inner.settings.insecure_webhook_urls = allow;
        self
    }

    /// Makes the client. Nothing is sent and no certificate is read yet.
    ///
    /// # Errors
    ///
    /// When the base address is no http or https address, the key is empty,
    /// or an option's value cannot be used.
    pub fn build(self) -> Result<EmailClient, Error> {
        Ok(EmailClient { shared: self.inner.build(Service::Email)? })
    }
}

/// Makes an [`ExtractionClient`].
#[derive(Clone, Debug)]
#[must_use = "a builder makes a client by `build`"]
pub struct ExtractionClientBuilder {
    inner: Builder,
}

impl ExtractionClientBuilder {
    pub(super) fn new(base_url: String, key: Secret) -> Self {
        Self { inner: Builder::new(base_url, key) }
    }

    options!();

    /// Makes the client. Nothing is sent and no certificate is read yet.
    ///
    /// # Errors
    ///
    /// When the base address is no http or https address, the key is empty,
    /// or an option's value cannot be used.
    pub fn build(self) -> Result<ExtractionClient, Error> {
        Ok(ExtractionClient { shared: self.inner.build(Service::Extraction)? })
    }
}
