//! `ExtractionClient`, its builder, the operation `me`, and raw requests to endpoints that this
//! crate does not model. The client is an `Arc<Shared>`: its methods return a `Call` or a handle,
//! and send nothing. `me` stores the scope of the key that it was called with, for `check_scopes`.
//! The operations on webhooks are in `webhooks.rs`, the options of the builder in
//! `engine/builder.rs`.

use std::sync::Arc;

use super::me::Me;
use super::webhooks::Webhooks;
use crate::client::client;
use crate::engine::{Call, ClientBuilder, Pause, RawResponse, Shared, address_from_env, raw};
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
        me.then(move |response, me| {
            let scope = me.auth.scope.as_deref();
            if let Some(scope) = scope.and_then(|scope| scope.parse().ok()) {
                shared.learn_scope(scope, response.api_key.clone());
            }
            Ok(me)
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
        self.me().then(move |response, me| {
            if me.organization.id == expected {
                Ok(me)
            } else {
                let kind = ErrorKind::wrong_organization(expected, &me.organization.id);
                Err(response.error(kind, Outcome::Refused))
            }
        })
    }
}

client! {
    ExtractionClient, Extraction, "`SVC_EXTRACTION_URL` (the base URL) and `SVC_EXTRACTION_KEY` (the API key),";

    /// Operations on webhook endpoints.
    webhooks: Webhooks;
}

/// Builds an [`ExtractionClient`], see [`ClientBuilder`].
pub type ExtractionClientBuilder = ClientBuilder<ExtractionClient>;
