//! The two clients.

use std::sync::Arc;

use super::builder::{EmailClientBuilder, ExtractionClientBuilder};
use super::raw::raw;
use super::{Call, Payload, RawResponse, Shared};
use crate::email::{Audiences, Contacts, Domains, Emails, Webhooks};
use crate::extraction::{self, Me};
use crate::{Operation, Secret};

/// A client of the email-sending service. Clones share one pool of
/// connections.
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
    pub(super) shared: Arc<Shared>,
}

impl EmailClient {
    /// Begins with the service's base address, which may have a path, and the
    /// key. By an `http` address the key goes out unencrypted: that is for a
    /// server on the same machine.
    pub fn builder(base_url: impl Into<String>, key: impl Into<Secret>) -> EmailClientBuilder {
        EmailClientBuilder::new(base_url.into(), key.into())
    }

    /// The operations on emails.
    pub fn emails(&self) -> Emails {
        Emails { shared: Arc::clone(&self.shared) }
    }

    /// The operations on audiences.
    pub fn audiences(&self) -> Audiences {
        Audiences { shared: Arc::clone(&self.shared) }
    }

    /// The operations on contacts.
    pub fn contacts(&self) -> Contacts {
        Contacts { shared: Arc::clone(&self.shared) }
    }

    /// The operations on domains.
    pub fn domains(&self) -> Domains {
        Domains { shared: Arc::clone(&self.shared) }
    }

    /// The operations on webhooks.
    pub fn webhooks(&self) -> Webhooks {
        Webhooks { shared: Arc::clone(&self.shared) }
    }

    /// A request that the documents do not show: any method, a path below the
    /// base address, with its query if it has one.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), Box<dyn std::error::Error>> {
    /// let answer = client.raw("GET", "/api/v1/templates").query("page", "2").await?;
    /// let templates: Vec<String> = answer.json()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Of these, only GET and HEAD are tried again after ambiguous failures;
    /// see [`Call::harmless`].
    pub fn raw(&self, method: impl AsRef<str>, path: impl AsRef<str>) -> Call<RawResponse> {
        raw(&self.shared, method.as_ref(), path.as_ref())
    }
}

/// A client of the document-extraction service. Clones share one pool of
/// connections.
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
    /// Begins with the service's base address, which may have a path, and the
    /// key. By an `http` address the key goes out unencrypted: that is for a
    /// server on the same machine.
    pub fn builder(base_url: impl Into<String>, key: impl Into<Secret>) -> ExtractionClientBuilder {
        ExtractionClientBuilder::new(base_url.into(), key.into())
    }

    /// The organization and the scope of the key. Any key may ask.
    ///
    /// The client learns the key's scope from it.
    pub fn me(&self) -> Call<Me> {
        Call::new(&self.shared, Operation::Me, &[], Ok(Payload::Empty))
    }

    /// [`me`](Self::me), and an error of kind
    /// [`WrongOrganization`](crate::ErrorKind::WrongOrganization) when the key
    /// belongs to another organization than this one: to be called once at
    /// start-up (`docs/extraction-service/organization.md`, rule 1).
    pub fn verify_organization(&self, expected: impl Into<String>) -> Call<Me> {
        self.me().of_organization(expected.into())
    }

    /// The operations on webhook endpoints.
    pub fn webhooks(&self) -> extraction::Webhooks {
        extraction::Webhooks { shared: Arc::clone(&self.shared) }
    }

    /// A request that the documents do not show, such as submitting an
    /// extraction: any method, a path below the base address, with its query
    /// if it has one.
    ///
    /// Of these, only GET and HEAD are tried again after ambiguous failures;
    /// see [`Call::harmless`].
    pub fn raw(&self, method: impl AsRef<str>, path: impl AsRef<str>) -> Call<RawResponse> {
        raw(&self.shared, method.as_ref(), path.as_ref())
    }
}
