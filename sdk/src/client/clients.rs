//! The clients of both services.

use std::sync::Arc;

use super::builder::ClientBuilder;
use super::call::Call;
use super::guard::RecipientGuard;
use super::payload::Payload;
use super::raw::raw;
use super::response::RawResponse;
use super::shared::Shared;
use crate::email::audiences::Audiences;
use crate::email::batch_plan::BatchShape;
use crate::email::contacts::Contacts;
use crate::email::domains::Domains;
use crate::email::emails::Emails;
use crate::email::webhooks::Webhooks;
use crate::error::Error;
use crate::extraction::me::Me;
use crate::extraction::webhooks as extraction;
use crate::operation::{Operation, Service};
use crate::secret::Secret;

/// An asynchronous client of the email-sending service.
///
/// Create one with [`EmailClient::builder`] and reuse it: it holds a connection pool.
/// Cloning is cheap; clones share the connection pool, the retry budget and the pauses of a key.
///
/// The operations are grouped by resource: [`emails`](Self::emails),
/// [`audiences`](Self::audiences), [`contacts`](Self::contacts), [`domains`](Self::domains)
/// and [`webhooks`](Self::webhooks). Each operation returns a [`Call`], which sends the
/// request when it is awaited; in programs without an async runtime, use `Call::block`
/// (feature `blocking`). Operations that the client does not model are available through
/// [`raw`](Self::raw).
///
/// A call times out after 30 seconds and is retried up to twice where that is safe, see
/// [Retries](crate#retries). [`EmailClientBuilder`] lists all options. The service itself
/// is described in <https://github.com/svc-tools/svc/blob/main/docs/email-service/README.md>.
///
/// ```no_run
/// # async fn f() -> Result<(), svc_sdk::Error> {
/// use svc_sdk::EmailClient;
/// use svc_sdk::email::Email;
///
/// let client = EmailClient::builder("https://mail.example", "mk_live_…").build()?;
/// let email = Email::new("hello@shop.example", "ada@example.com", "Hi").text("Hello");
/// let accepted = client.emails().send(&email).await?;
/// println!("{}", accepted.id);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct EmailClient {
    pub(crate) shared: Arc<Shared>,
}

impl EmailClient {
    /// Builds a client from the environment variables `SVC_EMAIL_URL` (the base URL) and
    /// `SVC_EMAIL_KEY` (the API key), which `svc` reads, too. It has the
    /// [recipient guard](RecipientGuard::from_env) of the environment.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if a variable is missing or invalid;
    /// the error names it.
    pub fn from_env() -> Result<Self, Error> {
        EmailClientBuilder::from_env()?.build()
    }

    /// Returns a client that uses another API key, and shares the connections, the retry
    /// budget and all options with this one, for an application that acts for several
    /// organizations. If the service limits the rate of one key, the other is not held back.
    ///
    /// The scopes of the key are unknown to the client until they are declared or learned.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if the key is empty, or contains
    /// characters that are not allowed in a header.
    pub fn with_key(&self, key: impl Into<Secret>) -> Result<Self, Error> {
        Ok(Self { shared: self.shared.with_key(key.into())? })
    }

    /// Starts building a client for the service at `base_url`, authenticated with the API
    /// key `key`.
    ///
    /// The base URL is the part before `/api/v1` and may have a path. Use `http` only for a
    /// server on the same machine: it transmits the key in cleartext.
    pub fn builder(base_url: impl Into<String>, key: impl Into<Secret>) -> EmailClientBuilder {
        EmailClientBuilder::new(base_url.into(), key.into())
    }

    /// Operations on emails: send, fetch, cancel, and wait for a final status.
    pub fn emails(&self) -> Emails {
        Emails { shared: Arc::clone(&self.shared) }
    }

    /// Operations on audiences, which are lists of contacts.
    pub fn audiences(&self) -> Audiences {
        Audiences { shared: Arc::clone(&self.shared) }
    }

    /// Operations on the contacts of audiences.
    pub fn contacts(&self) -> Contacts {
        Contacts { shared: Arc::clone(&self.shared) }
    }

    /// Operations on sending domains, including their verification.
    pub fn domains(&self) -> Domains {
        Domains { shared: Arc::clone(&self.shared) }
    }

    /// Operations on webhooks, including test deliveries.
    pub fn webhooks(&self) -> Webhooks {
        Webhooks { shared: Arc::clone(&self.shared) }
    }

    /// Sends a request to any endpoint of the service, such as one that this crate does not
    /// model.
    ///
    /// `path` is relative to the base URL, starts with a slash and may include a query. If
    /// method and path match a documented operation, the call behaves like that operation;
    /// otherwise only `GET` and `HEAD` are retried after ambiguous failures, see
    /// [`Call::idempotent`].
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), Box<dyn std::error::Error>> {
    /// let response = client.raw("GET", "/api/v1/templates").query("page", "2").await?;
    /// let templates: Vec<String> = response.json()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn raw(&self, method: impl AsRef<str>, path: impl AsRef<str>) -> Call<RawResponse> {
        raw(&self.shared, method.as_ref(), path.as_ref())
    }
}

/// An asynchronous client of the document-extraction service.
///
/// Create one with [`ExtractionClient::builder`] and reuse it: it holds a connection pool.
/// Cloning is cheap; clones share the connection pool, the retry budget and the pauses of a key.
///
/// Each operation returns a [`Call`], which sends the request when it is awaited.
/// [`ExtractionClientBuilder`] lists all options. The service itself is described in
/// <https://github.com/svc-tools/svc/blob/main/docs/extraction-service/README.md>.
///
/// ```no_run
/// # async fn f() -> Result<(), svc_sdk::Error> {
/// let client = svc_sdk::ExtractionClient::builder("https://api.example", "sk_test_…").build()?;
/// let me = client.verify_organization("org_1").await?;
/// println!("{} has {:?} cents", me.organization.name, me.organization.balance_cents);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ExtractionClient {
    pub(super) shared: Arc<Shared>,
}

impl ExtractionClient {
    /// Builds a client from the environment variables `SVC_EXTRACTION_URL` (the base URL) and
    /// `SVC_EXTRACTION_KEY` (the API key), which `svc` reads, too.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if a variable is missing or invalid;
    /// the error names it.
    pub fn from_env() -> Result<Self, Error> {
        ExtractionClientBuilder::from_env()?.build()
    }

    /// Returns a client that uses another API key, and shares the connections, the retry
    /// budget and all options with this one, for an application that acts for several
    /// organizations. If the service limits the rate of one key, the other is not held back.
    ///
    /// The scopes of the key are unknown to the client until they are declared or learned.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if the key is empty, or contains
    /// characters that are not allowed in a header.
    pub fn with_key(&self, key: impl Into<Secret>) -> Result<Self, Error> {
        Ok(Self { shared: self.shared.with_key(key.into())? })
    }

    /// Starts building a client for the service at `base_url`, authenticated with the API
    /// key `key`.
    ///
    /// The base URL is the part before `/v1` and may have a path. Use `http` only for a
    /// server on the same machine: it transmits the key in cleartext.
    pub fn builder(base_url: impl Into<String>, key: impl Into<Secret>) -> ExtractionClientBuilder {
        ExtractionClientBuilder::new(base_url.into(), key.into())
    }

    /// Returns the organization and the scope of the API key. Any key may call this.
    ///
    /// The client remembers the scope for
    /// [`check_scopes`](ExtractionClientBuilder::check_scopes).
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::ExtractionClient) -> Result<(), svc_sdk::Error> {
    /// let me = client.me().await?;
    /// println!("{}: {:?}", me.organization.name, me.auth.scope);
    /// # Ok(())
    /// # }
    /// ```
    pub fn me(&self) -> Call<Me> {
        Call::new(&self.shared, Operation::Me, &[], Ok(Payload::Empty))
    }

    /// Like [`me`](Self::me), but fails if the key belongs to another organization than
    /// `expected` (the organization's id).
    ///
    /// Call this once at startup so that a wrong key is noticed before it changes data.
    ///
    /// # Errors
    ///
    /// [`WrongOrganization`](crate::ErrorKind::WrongOrganization) if the key belongs to
    /// another organization; otherwise as for [`me`](Self::me).
    pub fn verify_organization(&self, expected: impl Into<String>) -> Call<Me> {
        self.me().expect_organization(expected.into())
    }

    /// Operations on webhook endpoints.
    pub fn webhooks(&self) -> extraction::Webhooks {
        extraction::Webhooks { shared: Arc::clone(&self.shared) }
    }

    /// Sends a request to any endpoint of the service, such as submitting an extraction,
    /// which this crate does not model.
    ///
    /// `path` is relative to the base URL, starts with a slash and may include a query. If
    /// method and path match a documented operation, the call behaves like that operation;
    /// otherwise only `GET` and `HEAD` are retried after ambiguous failures, see
    /// [`Call::idempotent`].
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::ExtractionClient) -> Result<(), Box<dyn std::error::Error>> {
    /// let response = client.raw("GET", "/v1/templates").await?;
    /// println!("{}", response.text());
    /// # Ok(())
    /// # }
    /// ```
    pub fn raw(&self, method: impl AsRef<str>, path: impl AsRef<str>) -> Call<RawResponse> {
        raw(&self.shared, method.as_ref(), path.as_ref())
    }
}

/// Builds an [`EmailClient`], see [`ClientBuilder`].
pub type EmailClientBuilder = ClientBuilder<EmailClient>;

impl EmailClientBuilder {
    /// Starts building a client from the environment variables `SVC_EMAIL_URL` (the base URL) and
    /// `SVC_EMAIL_KEY` (the API key). It has the
    /// [recipient guard](RecipientGuard::from_env) of the environment.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if a variable is missing; the error
    /// names it.
    pub fn from_env() -> Result<Self, Error> {
        let (url, key) = from_env("SVC_EMAIL_URL", "SVC_EMAIL_KEY", |name| std::env::var(name))?;
        let mut builder = Self::new(url, key);
        builder.guard = RecipientGuard::from_env()?;
        Ok(builder)
    }

    /// Builds the client. This sends nothing and loads no certificates.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if the base URL is not an `http` or
    /// `https` URL, it uses `https` and the crate was compiled without TLS, the key is
    /// empty, or the value of an option is invalid.
    pub fn build(self) -> Result<EmailClient, Error> {
        Ok(EmailClient { shared: self.build_shared(Service::Email)? })
    }
}

/// # Recipients
impl EmailClientBuilder {
    /// Limits who gets emails, for staging systems and tests. The guard checks every send of
    /// the client and its clones; raw requests that may send emails are refused. By default,
    /// every recipient is allowed. See [`RecipientGuard`].
    pub fn recipient_guard(mut self, guard: RecipientGuard) -> Self {
        self.guard = Some(guard);
        self
    }

    /// Sets the [recipient guard](RecipientGuard::from_env) of the environment, or none if no
    /// variable is set. [`EmailClient::from_env`] does this by itself.
    ///
    /// # Errors
    ///
    /// As for [`RecipientGuard::from_env`].
    pub fn recipient_guard_from_env(mut self) -> Result<Self, Error> {
        self.guard = RecipientGuard::from_env()?;
        Ok(self)
    }
}

/// # Undocumented details of the service
impl EmailClientBuilder {
    /// Sets the header that carries the API key. Default: `Authorization`. The service's
    /// reference does not name it.
    pub fn key_header(mut self, name: impl Into<String>) -> Self {
        self.key_header = name.into();
        self
    }

    /// Sets the text before the key in its header. Default: `Bearer ` (with a space).
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = prefix.into();
        self
    }

    /// Sets the JSON shape of a batch request. Default: [`BatchShape::Array`].
    pub fn batch_shape(mut self, shape: BatchShape) -> Self {
        self.settings.batch_shape = shape;
        self
    }

    /// Sets the number of the first page of contacts. Default: 1. Only relevant if the
    /// service's responses do not contain the page number.
    pub fn first_page(mut self, first: u64) -> Self {
        self.settings.first_page = first;
        self
    }

    /// Whether to accept `http` webhook URLs, for a local server. They are always accepted if
    /// the base URL itself is `http`. Default: false.
    pub fn insecure_webhook_urls(mut self, allow: bool) -> Self {
        self.settings.insecure_webhook_urls = allow;
        self
    }
}

/// Builds an [`ExtractionClient`], see [`ClientBuilder`].
pub type ExtractionClientBuilder = ClientBuilder<ExtractionClient>;

impl ExtractionClientBuilder {
    /// Starts building a client from the environment variables `SVC_EXTRACTION_URL` (the base URL) and
    /// `SVC_EXTRACTION_KEY` (the API key).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if a variable is missing; the error
    /// names it.
    pub fn from_env() -> Result<Self, Error> {
        let (url, key) =
            from_env("SVC_EXTRACTION_URL", "SVC_EXTRACTION_KEY", |name| std::env::var(name))?;
        let builder = Self::new(url, key);
        Ok(builder)
    }

    /// Builds the client. This sends nothing and loads no certificates.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if the base URL is not an `http` or
    /// `https` URL, it uses `https` and the crate was compiled without TLS, the key is
    /// empty, or the value of an option is invalid.
    pub fn build(self) -> Result<ExtractionClient, Error> {
        Ok(ExtractionClient { shared: self.build_shared(Service::Extraction)? })
    }
}

fn from_env(
    url: &str,
    key: &str,
    read: impl Fn(&str) -> Result<String, std::env::VarError>,
) -> Result<(String, Secret), Error> {
    let read = |name: &str| match read(name) {
        Ok(text) if !text.trim().is_empty() => Ok(text),
        Ok(_) => Err(Error::config(format!("the environment variable {name} is empty"))),
        Err(std::env::VarError::NotPresent) => {
            Err(Error::config(format!("the environment variable {name} is not set")))
        }
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(Error::config(format!("the environment variable {name} is not UTF-8")))
        }
    };
    Ok((read(url)?, read(key)?.into()))
}

#[cfg(test)]
mod tests {
    use std::env::VarError;

    use super::*;

    #[test]
    fn names_the_environment_variable_that_is_missing() {
        let read = |set: &'static [&str]| {
            from_env("URL", "KEY", move |name| match set.contains(&name) {
                true => Ok(format!("value of {name}")),
                false => Err(VarError::NotPresent),
            })
        };
        let (url, key) = read(&["URL", "KEY"]).expect("both are set");
        assert_eq!((url.as_str(), key.expose()), ("value of URL", "value of KEY"));
        let error = read(&["URL"]).expect_err("no key");
        assert_eq!(error.to_string(), "the environment variable KEY is not set");
        let error = from_env("URL", "KEY", |_| Ok(" ".to_owned())).expect_err("empty");
        assert_eq!(error.to_string(), "the environment variable URL is empty");
    }
}
