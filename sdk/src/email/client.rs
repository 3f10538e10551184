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
use crate::client::client;
use crate::engine::{Call, ClientBuilder, Pause, RawResponse, Shared, address_from_env, raw};
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

client! {
    EmailClient, Email, "`SVC_EMAIL_URL` (the base URL) and `SVC_EMAIL_KEY` (the API key),";

    /// Operations on emails: send, fetch, cancel, and wait for a final status.
    emails: Emails;
    /// Operations on audiences, which are lists of contacts.
    audiences: Audiences;
    /// Operations on the contacts of audiences.
    contacts: Contacts;
    /// Operations on sending domains, including their verification.
    domains: Domains;
    /// Operations on webhooks, including test deliveries.
    webhooks: Webhooks;
}

/// Builds an [`EmailClient`], see [`ClientBuilder`].
pub type EmailClientBuilder = ClientBuilder<EmailClient>;

/// # Webhooks
impl EmailClientBuilder {
    /// Whether to accept `http` webhook URLs, for a local server. They are always accepted if
    /// the base URL itself is `http`. Default: false.
    pub fn insecure_webhook_urls(mut self, allow: bool) -> Self {
        self.settings.insecure_webhook_urls = allow;
        self
    }
}
