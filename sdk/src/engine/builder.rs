//! The builder of both clients: one list of options. Over 400 lines, most of them
//! documentation.

use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::header::{ACCEPT, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::call::header;
use super::connections::{HttpClients, HttpConfig};
use super::guard::{ActiveGuard, RecipientGuard};
use super::observer::{Attempt, HeaderHook, Observer};
use super::pauses::{Pauses, Rate};
use super::proxy::ProxyChoice;
use super::shared::{BackOff, KnownScopes, Settings, Shared};
use super::target::{ApiKey, KeyForm, KeyProvider, Target, api_key_value};
use crate::dialect::{Dialect, Point};
use crate::error::Error;
use crate::names::setters;
use crate::operation::Service;
use crate::scope::Scope;
use crate::secret::Secret;

/// Builds an [`EmailClient`](crate::EmailClient) or an
/// [`ExtractionClient`](crate::ExtractionClient). Returned by their method `builder`.
///
/// Five options matter to most programs: [`timeout`](Self::timeout),
/// [`retries`](Self::retries), [`max_retry_after`](Self::max_retry_after),
/// [`on_attempt`](Self::on_attempt), and
/// [`recipient_guard`](Self::recipient_guard) for staging systems.
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
#[derive(Clone)]
#[must_use = "call `build` to create the client"]
pub struct ClientBuilder<C> {
    base: String,
    api_key: Secret,
    key_provider: Option<KeyProvider>,
    pub(crate) dialect: Dialect,
    headers: Vec<(String, String)>,
    scopes: Option<BTreeSet<Scope>>,
    rate: Option<f64>,
    pub(crate) settings: Settings,
    http: HttpConfig,
    observers: Vec<Observer>,
    hooks: Vec<HeaderHook>,
    pub(crate) guard: Option<RecipientGuard>,
    client: PhantomData<fn() -> C>,
}

/// Omits header values, which may be secrets.
impl<C> fmt::Debug for ClientBuilder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            // A URL that is not a valid base URL may contain a password.
            .field(
                "base",
                &parse_base_url(&self.base).ok().as_ref().map(Url::as_str),
            )
            .field("dialect", &self.dialect)
            .field(
                "headers",
                &self
                    .headers
                    .iter()
                    .map(|(name, _)| name)
                    .collect::<Vec<_>>(),
            )
            .field("settings", &self.settings)
            .field("proxy", &self.http.proxy)
            .finish_non_exhaustive()
    }
}

setters! {
    /// # Timeouts
    impl<C> ClientBuilder<C>;

    /// Sets the deadline of a call, including all attempts and the pauses between them.
    /// Default: 30 seconds. A single call can override it with
    /// [`Call::timeout`](crate::Call::timeout).
    timeout(timeout: Duration) { settings.timeout = timeout }

    /// Sets the time limit of each attempt, from the start of the connection to the end
    /// of the response. Default: the time that is left until the deadline. A single call can
    /// override it with [`Call::attempt_timeout`](crate::Call::attempt_timeout).
    ///
    /// An attempt that takes longer fails with [`Timeout`](crate::ErrorKind::Timeout),
    /// and the call is retried if that is safe. A send that was already transmitted is
    /// not retried, and its outcome is unknown.
    attempt_timeout(timeout: Duration) { settings.attempt_timeout = Some(timeout) }

    /// Sets the time limit for establishing a connection, TLS handshake included. Default: a
    /// third of [`timeout`](Self::timeout), at most 10 seconds. A request whose connection
    /// was not established was certainly not sent.
    connect_timeout(timeout: Duration) { http.connect_timeout = Some(timeout) }
}

setters! {
    /// # Retries
    impl<C> ClientBuilder<C>;

    /// Sets the maximum number of retries per call. Default: 2; 0 disables retries.
    ///
    /// A 429 with `Retry-After` does not count: the call is repeated as often as its
    /// deadline allows, unless this is 0, which means exactly one attempt.
    ///
    /// Calls that are not idempotent are retried only if the failed attempt was
    /// certainly not processed, see [Retries](crate#retries).
    retries(retries: u32) { settings.retries = retries }

    /// Sets the longest `Retry-After` that the client waits for. Default: 30 seconds, like
    /// the deadline of a call. If the service asks for more, or the pause ends after the
    /// deadline, the call fails at once.
    ///
    /// A 429 with `Retry-After` holds back this client and its clones, also those made by
    /// `with_key`: their calls with the same key to the same operation wait, at most for this
    /// time, and then start at random times, so that the service accepts as many as it can. A
    /// send and a batch count as the same operation. Other operations, other keys and other
    /// clients go on. `pauses` and `end_pauses` of the client show and end the pauses.
    max_retry_after(max: Duration) { settings.max_retry_after = max }

    /// Sets the back-off between attempts, for responses without `Retry-After`. The
    /// upper limit of the first pause is `initial`; it doubles with each attempt up to
    /// `max`. Default: 250 milliseconds and 8 seconds.
    ///
    /// The actual pause is chosen at random between zero and that limit (full jitter),
    /// so that clients do not retry in lockstep.
    back_off(initial: Duration, max: Duration) { settings.back_off = BackOff::new(initial, max) }

    /// Limits the attempts of this client and its clones, for a service whose limit is known:
    /// they start evenly spaced, `5.0` for one every 200 milliseconds. A call that would have
    /// to wait beyond its deadline fails at once, and is not sent. From 0.000001 to 1,000,000;
    /// default: no limit.
    #[doc(alias = "rate_limit")]
    max_per_second(attempts: f64) { rate = Some(attempts) }

    /// Declares that the service honors `Idempotency-Key`. Default: false.
    ///
    /// If true, every send and every batch carries a key: the one of
    /// [`Call::idempotency_key`](crate::Call::idempotency_key), or else one that is made for the
    /// call. Calls with a key are also retried after ambiguous failures. A key that was made for
    /// a call ends with it, so the error of such a call is retryable only if it was not processed.
    service_honors_idempotency_key(honors: bool) { settings.honors_idempotency_key = honors }
}

setters! {
    /// # Checks before sending
    impl<C> ClientBuilder<C>;

    /// Whether to check documented limits before sending, such as the number of
    /// recipients. Default: true. Ids that are empty or `.` or `..` are always
    /// rejected.
    local_checks(check: bool) { settings.local_checks = check }

    /// Declares the scopes of the API key, for [`check_scopes`](Self::check_scopes) and
    /// error messages.
    scopes(scopes: impl IntoIterator<Item = Scope>) { scopes = Some(scopes.into_iter().collect()) }

    /// Whether to reject a call before sending if the key is known to lack the required
    /// scope. Default: false.
    check_scopes(check: bool) { settings.check_scopes = check }
}

setters! {
    /// # Requests and responses
    impl<C> ClientBuilder<C>;

    /// Sets how the service behaves where its reference is silent. Default: what most services do,
    /// and what each response tells.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use svc_sdk::{Dialect, EmailClient};
    ///
    /// let dialect = Dialect::with(["key-header=X-Api-Key", "batch-body=emails"])?;
    /// let client = EmailClient::builder("https://mail.example", "mk_…")
    ///     .dialect(dialect)
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    dialect(dialect: Dialect) { dialect = dialect }

    /// Sets the maximum size of a response body in bytes. Default: 16 MiB.
    max_response_size(bytes: u64) { settings.max_response_size = bytes }
}

setters! {
    /// # Logging and hooks
    impl<C> ClientBuilder<C>;

    /// Adds a callback that runs after every attempt, for logs and metrics. It blocks
    /// the call, so it should return quickly. If this is called more than once, all
    /// callbacks run, in that order.
    on_attempt(observe: impl Fn(&Attempt<'_>) + Send + Sync + 'static) {
        observers.push(Arc::new(observe))
    }

    /// Adds a function that can change the headers of every attempt, for example to
    /// propagate a trace context. It runs just before an attempt and should return quickly.
    /// The header that carries the API key is set after it; headers that delimit the body
    /// cannot be changed.
    ///
    /// ```
    /// # fn main() -> Result<(), svc_sdk::Error> {
    /// use svc_sdk::http::HeaderValue;
    ///
    /// let client = svc_sdk::EmailClient::builder("https://mail.example", "mk_…")
    ///     .header_hook(|headers| {
    ///         let context = HeaderValue::from_static("00-4bf92f-00f067-01");
    ///         headers.insert("traceparent", context);
    ///     })
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    header_hook(hook: impl Fn(&mut HeaderMap) + Send + Sync + 'static) {
        hooks.push(Arc::new(hook))
    }
}

setters! {
    /// # Headers
    impl<C> ClientBuilder<C>;

    /// Adds a header to every request. It replaces a header of the same name. The header
    /// that carries the API key cannot be set.
    header(name: impl Into<String>, value: impl Into<String>) {
        headers.push((name.into(), value.into()))
    }

    /// Sets the `User-Agent` header. Default: `svc-sdk/VERSION`.
    user_agent(user_agent: impl Into<String>) {
        headers.push((USER_AGENT.to_string(), user_agent.into()))
    }
}

setters! {
    /// # HTTP and TLS
    impl<C> ClientBuilder<C>;

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
    configure_http(
        configure: impl Fn(reqwest::ClientBuilder) -> reqwest::ClientBuilder + Send + Sync + 'static
    ) {
        http.configure = Some(Arc::new(configure))
    }

    /// Sends all requests with this HTTP client. This builder's options for connections, proxies
    /// and TLS do not apply then. It should not follow redirects, because the API key is meant
    /// for the configured host only; a response after a redirect is an error. In programs with
    /// several runtimes, all of them share its connections.
    http_client(client: reqwest::Client) { http.given = Some(client) }

    /// Sends all requests through this proxy. By default, the environment variables
    /// `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` apply.
    proxy(url: impl Into<Secret>) { http.proxy = ProxyChoice::Url(url.into()) }

    /// Sets the hosts that bypass [`proxy`](Self::proxy), in the format of `NO_PROXY`: a host
    /// or a domain with its subdomains (`internal.example`), only the subdomains
    /// (`*.internal.example`), a port (`host:8080`), addresses (`10.0.0.0/8`), or `*` for all
    /// hosts, separated by commas or spaces. Anything else is an error of `build`, also in the
    /// variable `NO_PROXY` itself.
    proxy_except(hosts: impl Into<String>) { http.proxy_except = hosts.into() }

    /// Ignores the proxy settings of the environment and connects directly.
    no_proxy() { http.proxy = ProxyChoice::None }

    /// Trusts the certificates in this PEM text, in addition to the platform's. Can be
    /// called more than once.
    #[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
    ca_bundle(pem: impl AsRef<[u8]>) { http.tls.bundles.push(pem.as_ref().to_vec()) }

    /// Whether to trust the platform's root certificates. Default: true.
    #[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
    platform_certificates(trust: bool) { http.tls.platform = trust }

    /// Whether to use the platform's TLS library (OpenSSL on Linux) instead of rustls.
    /// Default: false, unless rustls is not compiled in.
    #[cfg(feature = "native-tls")]
    native_tls(native: bool) { http.tls.native = native || !super::tls::HAS_RUSTLS }
}

/// # API key
impl<C> ClientBuilder<C> {
    /// Sets a function that returns the API key, for keys that rotate. It replaces the key that
    /// was passed to the builder. The client calls it when it is built and before each attempt,
    /// so the function should return quickly: it reads the key from memory, and something else
    /// keeps that up to date.
    ///
    /// An empty or invalid key fails the call with
    /// [`ErrorKind::Config`](crate::ErrorKind::Config); nothing is sent then.
    pub fn key_provider(mut self, provide: impl Fn() -> Secret + Send + Sync + 'static) -> Self {
        self.key_provider = Some(Arc::new(provide));
        self
    }
}

impl<C> ClientBuilder<C> {
    pub(crate) fn new(base: String, api_key: Secret) -> Self {
        Self {
            base,
            api_key,
            key_provider: None,
            dialect: Dialect::default(),
            headers: Vec::new(),
            scopes: None,
            rate: None,
            settings: Settings {
                timeout: Duration::from_secs(30),
                attempt_timeout: None,
                retries: 2,
                max_retry_after: Duration::from_secs(30),
                back_off: BackOff {
                    initial: Duration::from_millis(250),
                    max: Duration::from_secs(8),
                },
                honors_idempotency_key: false,
                local_checks: true,
                check_scopes: false,
                insecure_webhook_urls: false,
                dialect: Arc::default(),
                max_response_size: 16 * 1024 * 1024,
            },
            http: HttpConfig::default(),
            observers: Vec::new(),
            hooks: Vec::new(),
            guard: None,
            client: PhantomData,
        }
    }

    /// Checks the options and builds what the clones of a client share.
    pub(crate) fn build_shared(mut self, service: Service) -> Result<Arc<Shared>, Error> {
        let base = parse_base_url(&self.base)?;
        let prefix = service.path_prefix();
        if base.path().trim_end_matches('/').ends_with(prefix) {
            return Err(Error::config(format!(
                "the base URL must not end in {prefix}: the client appends it to the base URL; \
                 leave it out"
            )));
        }

        // The extraction service documents how its key is presented.
        let documented = Dialect::default();
        let dialect = match service {
            Service::Email => &self.dialect,
            Service::Extraction => &documented,
        };
        let key_form = KeyForm::of(dialect);
        let api_key = match self.key_provider {
            None => ApiKey::Fixed(api_key_value(&key_form, &self.api_key)?),
            Some(provide) => {
                api_key_value(&key_form, &provide())?;
                ApiKey::Provided(provide)
            }
        };
        let key_header = dialect.choice(Point::KeyHeader);
        let key_header = HeaderName::try_from(key_header)
            .map_err(|_| Error::config(format!("{key_header:?} is not a valid header name")))?;
        self.settings.local_checks &= !self.dialect.is(Point::Limits, "other");
        self.settings.insecure_webhook_urls |= self.dialect.is(Point::WebhookUrls, "any");
        self.settings.honors_idempotency_key |=
            self.dialect.pinned(Point::Idempotency) == Some("honored");
        self.settings.dialect = Arc::new(self.dialect);
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let (name, value) = header(name, value, &key_header)
                .map_err(|problem| Error::config(format!("the header {name} {problem}")))?;
            headers.insert(name, value);
        }

        headers
            .entry(ACCEPT)
            .or_insert(HeaderValue::from_static("application/json"));
        headers.entry(USER_AGENT).or_insert(DEFAULT_USER_AGENT);
        let connect = (self.settings.timeout / 3).min(Duration::from_secs(10));
        self.http.connect_timeout.get_or_insert(connect);
        Ok(Arc::new(Shared {
            http: Arc::new(HttpClients::new(self.http, &base)?),
            target: Target {
                service,
                base,
                headers,
                key_header,
                key_form,
                api_key,
            },
            settings: self.settings,
            pauses: Arc::new(Pauses::default()),
            rate: rate(self.rate)?,
            observers: self.observers,
            hooks: self.hooks,
            guard: self.guard.map(ActiveGuard::new).transpose()?.map(Arc::new),
            scopes: Arc::new(Mutex::new(self.scopes.map(|scopes| KnownScopes {
                scopes,
                learned_of: None,
            }))),
        }))
    }
}

fn rate(per_second: Option<f64>) -> Result<Option<Arc<Rate>>, Error> {
    match per_second {
        None => Ok(None),
        // The pause between two attempts must be a time that the clock can represent.
        Some(rate) if (1e-6..=1e6).contains(&rate) => Ok(Some(Arc::new(Rate::per_second(rate)))),
        Some(_) => Err(Error::config(
            "the rate must be from 0.000001 to 1000000 attempts per second",
        )),
    }
}

/// # Recipients
impl<C> ClientBuilder<C> {
    /// Limits who gets emails, for staging systems and tests. The guard checks every request of
    /// the client and its clones: raw requests that may send emails are refused, also by the
    /// client of the extraction service. By default, every recipient is allowed. See
    /// [`RecipientGuard`].
    pub fn recipient_guard(mut self, guard: RecipientGuard) -> Self {
        self.guard = Some(guard);
        self
    }

    /// Sets the [recipient guard](RecipientGuard::from_env) of the environment, or none if no
    /// variable is set. The `from_env` of both clients does this by itself.
    ///
    /// # Errors
    ///
    /// As for [`RecipientGuard::from_env`].
    pub fn recipient_guard_from_env(mut self) -> Result<Self, Error> {
        self.guard = RecipientGuard::from_env()?;
        Ok(self)
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

const DEFAULT_USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("svc-sdk/", env!("CARGO_PKG_VERSION")));
