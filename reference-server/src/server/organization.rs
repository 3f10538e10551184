//! The clients of a server, and its organizations, created through [`Server`].

use svc_sdk::{EmailClient, ExtractionClient};

use crate::Server;
use crate::api::control::organizations;
use crate::client::{Client, Error, Organization, Tenant};
use crate::control::organizations::NewOrganization;

impl Server {
    /// Creates an organization, like `POST /_sandbox/organizations`.
    ///
    /// Names need not be unique. [`tenant`](Self::tenant) also creates its clients.
    ///
    /// # Errors
    ///
    /// Returns [`CreateOrganizationError`] if the database cannot store it.
    pub async fn create_organization(
        &self,
        name: impl Into<String>,
    ) -> Result<Organization, CreateOrganizationError> {
        let new = NewOrganization { name: Some(name.into()), ..NewOrganization::default() };
        let created = organizations::create_with_keys(self.shared(), new).await;
        created.map_err(|error| CreateOrganizationError(error.message().to_owned()))
    }

    /// Creates an organization, and clients that use its keys. Tests that use one each can
    /// share a server.
    ///
    /// # Errors
    ///
    /// If the database cannot store it.
    pub async fn tenant(&self, name: impl AsRef<str>) -> Result<Tenant, Error> {
        let client = self.client()?;
        let organization = client.organizations().create(Some(name.as_ref()), None).await?;
        Tenant::new(&self.base_url(), &client, organization)
    }

    /// A client of the control interface, for the seeded organization.
    ///
    /// # Errors
    ///
    /// If the HTTP client cannot be initialized.
    pub fn client(&self) -> Result<Client, Error> {
        match self.control_token() {
            Some(token) => Client::with_token(self.base_url(), token),
            None => Client::new(self.base_url()),
        }
    }

    /// A client of the email service, with the seeded key. It accepts webhook URLs with `http`.
    ///
    /// # Errors
    ///
    /// If the HTTP client cannot be initialized.
    pub fn email_client(&self) -> Result<EmailClient, svc_sdk::Error> {
        let key = self.shared().settings.email_key.clone();
        EmailClient::builder(self.base_url(), key).no_proxy().insecure_webhook_urls(true).build()
    }

    /// A client of the extraction service, with the seeded key.
    ///
    /// # Errors
    ///
    /// If the HTTP client cannot be initialized.
    pub fn extraction_client(&self) -> Result<ExtractionClient, svc_sdk::Error> {
        let key = self.shared().settings.extraction_key.clone();
        ExtractionClient::builder(self.base_url(), key).no_proxy().build()
    }
}

/// The database could not store an organization, because the disk is full or an I/O
/// error occurred.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot create the organization: {0}")]
pub struct CreateOrganizationError(String);
