//! `EmailClient`, its builder, and raw requests to endpoints that this crate does not model. The
//! client is an `Arc<Shared>`: its methods return a handle for a resource or a `Call`, and send
//! nothing. The operations are in `emails.rs`, `audiences.rs`, `contacts.rs`, `domains.rs` and
//! `webhooks.rs`; the options of the builder in `engine/builder.rs`.

use std::sync::Arc;

use super::audiences::Audiences;
use super::contacts::Contacts;
use super::domains::Domains;
use super::emails::Emails;
use super::webhooks::Webhooks;
use crate::engine::{
    Call, ClientBuilder, Pause, RawResponse, RecipientGuard, Shared, raw, required,
};
use crate::error::Error;
use crate::operation::Service;
use crate::secret::Secret;

/// An asynchronous client of the email-sending service.
///
/// Create one with [`EmailClient::builder`] and reuse it: it holds a connection pool.
/// Cloning is cheap; clones share the connection pool and the pauses of a key.
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
    shared: Arc<Shared>,
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

    /// Returns a client that uses another API key, and shares the connections and all
    /// options with this one, for an application that acts for several organizations. If the service limits the rate of one key, the other is not held back.
    ///
    /// The scopes of the key are unknown to the client until they are declared or learned.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if the key is empty, or contains
    /// characters that are not allowed in a header.
    pub fn with_key(&self, key: impl Into<Secret>) -> Result<Self, Error> {
        Ok(Self {
            shared: self.shared.with_key(&key.into())?,
        })
    }

    /// Returns the pauses that the service asked for with a 429 and that hold back calls of this
    /// client and its clones with the same key. See
    /// [`max_retry_after`](crate::ClientBuilder::max_retry_after).
    pub fn pauses(&self) -> Vec<Pause> {
        self.shared.pauses()
    }

    /// Ends the [pauses](Self::pauses). The calls that wait start at once.
    pub fn end_pauses(&self) {
        self.shared.end_pauses();
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
        Emails {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Operations on audiences, which are lists of contacts.
    pub fn audiences(&self) -> Audiences {
        Audiences {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Operations on the contacts of audiences.
    pub fn contacts(&self) -> Contacts {
        Contacts {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Operations on sending domains, including their verification.
    pub fn domains(&self) -> Domains {
        Domains {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Operations on webhooks, including test deliveries.
    pub fn webhooks(&self) -> Webhooks {
        Webhooks {
            shared: Arc::clone(&self.shared),
        }
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
        let read = |name: &str| std::env::var(name);
        let url = required("SVC_EMAIL_URL", &read)?;
        let mut builder = Self::new(url, required("SVC_EMAIL_KEY", &read)?.into());
        builder.guard = RecipientGuard::from_env()?;
        Ok(builder)
    }

    /// Builds the client. This sends nothing. It loads the platform's certificates if the base URL
    /// is `https`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if the base URL is not an `http` or
    /// `https` URL, it uses `https` and the platform has no certificates, the key is empty, or the value of an option is invalid.
    pub fn build(self) -> Result<EmailClient, Error> {
        Ok(EmailClient {
            shared: self.build_shared(Service::Email)?,
        })
    }
}

/// # Webhooks
impl EmailClientBuilder {
    /// Whether to accept `http` webhook URLs, for a local server. They are always accepted if
    /// the base URL itself is `http`. Default: false.
    pub fn insecure_webhook_urls(mut self, allow: bool) -> Self {
        self.settings.insecure_webhook_urls = allow;
        self
    }
}
