//! The public clients of the two services.

use std::sync::Arc;

use super::builder::{EmailClientBuilder, ExtractionClientBuilder};
use super::raw::raw;
use super::{Call, Payload, RawResponse, Shared};
use crate::email::{Audiences, Contacts, Domains, Emails, Webhooks};
use crate::extraction::{self, Me};
use crate::{Operation, Secret};

/// An asynchronous client of the email-sending service.
///
/// Create one with [`EmailClient::builder`] and reuse it: it holds a connection pool.
/// Cloning is cheap; clones share the connection pool, the retry budget and the rate limit.
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
/// is described in `docs/email-service/README.md`.
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
/// Cloning is cheap; clones share the connection pool, the retry budget and the rate limit.
///
/// Each operation returns a [`Call`], which sends the request when it is awaited.
/// [`ExtractionClientBuilder`] lists all options. The service itself is described in
/// `docs/extraction-service/README.md`.
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
    /// Call this once at startup so that a wrong key is noticed before it changes data
    /// (`docs/extraction-service/organization.md`).
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
