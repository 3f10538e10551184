//! Organizations, and the clients of one.

use svc_sdk::{EmailClient, ExtractionClient};

use super::connection::Client;
use super::error::Error;
use super::request::Request;
use crate::api::control::endpoints as e;
use crate::api::control::organizations::New;
use crate::api::control::organizations::{Organization, OrganizationSummary};

impl Client {
    /// The organizations of the server.
    pub fn organizations(&self) -> Organizations<'_> {
        Organizations(self)
    }
}

/// Requests for organizations; see [`Client::organizations`].
#[derive(Clone, Copy, Debug)]
pub struct Organizations<'a>(&'a Client);

impl Organizations<'_> {
    /// Creates an organization with keys that have all scopes. The name is by default the
    /// ID, the balance 0.
    pub fn create(&self, name: Option<&str>, balance_cents: Option<i64>) -> Request<Organization> {
        let body = New { name: name.map(str::to_owned), balance_cents, ..New::default() };
        self.0.json(&e::ORGANIZATIONS_CREATE, &[]).with_body(&e::ORGANIZATIONS_CREATE, &body)
    }

    /// Lists the organizations, oldest first.
    pub fn list(&self) -> Request<Vec<OrganizationSummary>> {
        self.0.json(&e::ORGANIZATIONS, &[])
    }
}

/// An organization of its own for a test, with clients that use its keys.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tenant {
    /// The organization.
    pub organization: Organization,
    /// A client of the email service, with all scopes.
    pub email: EmailClient,
    /// A client of the extraction service, with the scope `full`.
    pub extraction: ExtractionClient,
    /// A client of the control interface.
    pub sandbox: Client,
}

impl Tenant {
    pub(crate) fn new(
        base_url: &str,
        sandbox: &Client,
        organization: Organization,
    ) -> Result<Self, Error> {
        let email = EmailClient::builder(base_url, organization.email_key.as_str());
        let extraction = ExtractionClient::builder(base_url, organization.extraction_key.as_str());
        Ok(Self {
            email: email.no_proxy().insecure_webhook_urls(true).build()?,
            extraction: extraction.no_proxy().build()?,
            sandbox: sandbox.of(&organization.id),
            organization,
        })
    }

    /// Adds a sending domain under `.test`, `.example`, `.invalid` or `.localhost`, publishes
    /// its DNS records and verifies it.
    ///
    /// The organization has one already, [`Organization::domain`].
    ///
    /// # Errors
    ///
    /// If the name is invalid, or belongs to another organization.
    pub async fn add_domain(&self, name: &str) -> Result<(), Error> {
        let domain = self.email.domains().create(name).await?;
        self.sandbox.dns().publish(name, &[]).await?;
        self.email.domains().verify(&domain.id).await?;
        Ok(())
    }
}
