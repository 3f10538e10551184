//! `ExtractionClient`, its builder, the operation `me`, and raw requests to endpoints that this
//! crate does not model. The client is an `Arc<Shared>`: its methods return a `Call` or a handle,
//! and send nothing. `me` stores the scope of the key that it was called with, for `check_scopes`.
//! The operations on webhooks are in `webhooks.rs`, the options of the builder in
//! `engine/builder.rs`.

use std::sync::Arc;

use super::me::Me;
use super::webhooks::Webhooks;
use crate::engine::{Call, ClientBuilder, Pause, RawResponse, Shared, raw, required};
use crate::error::{Error, ErrorKind, Outcome};
use crate::operation::{Operation, Service};
use crate::secret::Secret;

/// An asynchronous client of the document-extraction service.
///
/// Create one with [`ExtractionClient::builder`] and reuse it: it holds a connection pool.
/// Cloning is cheap; clones share the connection pool and the pauses of a key.
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
    shared: Arc<Shared>,
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
        let shared = Arc::clone(&self.shared);
        let me = Call::<Me>::without_body(&self.shared, Operation::Me, &[]);
        me.checked(move |response, me| {
            let scope = me.auth.scope.as_deref();
            if let Some(scope) = scope.and_then(|scope| scope.parse().ok()) {
                shared.learn_scope(scope, response.api_key.clone());
            }
            Ok(())
        })
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
        let expected = expected.into();
        self.me()
            .checked(move |response, me| match me.organization.id == expected {
                true => Ok(()),
                false => {
                    let kind = ErrorKind::wrong_organization(expected, &me.organization.id);
                    Err(response.error(kind, Outcome::Refused))
                }
            })
    }

    /// Operations on webhook endpoints.
    pub fn webhooks(&self) -> Webhooks {
        Webhooks {
            shared: Arc::clone(&self.shared),
        }
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
        let read = |name: &str| std::env::var(name);
        let url = required("SVC_EXTRACTION_URL", &read)?;
        Self::new(url, required("SVC_EXTRACTION_KEY", &read)?.into()).recipient_guard_from_env()
    }

    /// Builds the client. This sends nothing. It loads the platform's certificates if the base URL
    /// is `https`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if the base URL is not an `http` or
    /// `https` URL, it uses `https` and the platform has no certificates, the key is empty, or the value of an option is invalid.
    pub fn build(self) -> Result<ExtractionClient, Error> {
        Ok(ExtractionClient {
            shared: self.build_shared(Service::Extraction)?,
        })
    }
}
