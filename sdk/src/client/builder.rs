//! The builders of both clients.

mod build;
mod connections;
mod requests;
mod retries;

use std::fmt;
#[cfg(feature = "rate-limit")]
use std::num::NonZeroU32;
use std::time::Duration;

use http::header::{AUTHORIZATION, USER_AGENT};
use url::Url;

use self::build::parse_base_url;
use self::connections::connection_options;
use self::requests::request_options;
use self::retries::retry_options;
use super::clients::{EmailClient, ExtractionClient};
use super::connections::{HttpConfig, ProxyChoice};
use super::guard::RecipientGuard;
use super::key::KeyProvider;
#[cfg(feature = "tower")]
use super::layer::{AttemptService, Body};
use super::observer::{Attempt, Observers};
use super::retry::BackOff;
use super::shared::Settings;
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

        retry_options!($builder);
        request_options!($builder);
        connection_options!($builder);
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
