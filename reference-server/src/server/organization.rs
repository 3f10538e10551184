//! The clients of a server, and its organizations, created through [`Server`].

use svc_sdk::{EmailClient, ExtractionClient, Secret};

use crate::Server;
use crate::client::{Client, Error, NewOrganization, Tenant};

impl Server {
    /// Creates an organization, and clients that use its keys. Tests that use one each can
    /// share a server.
    ///
    /// # Errors
    ///
    /// If the database cannot store it.
    pub async fn tenant(&self, name: impl AsRef<str>) -> Result<Tenant, Error> {
        let client = self.client()?;
        let new = NewOrganization {
            name: Some(name.as_ref().to_owned()),
            ..NewOrganization::default()
        };
        let organization = client.create_organization(&new).await?;
        Ok(Tenant {
            email: self.email_client_with(organization.email_key.as_str())?,
            extraction: self.extraction_client_with(organization.extraction_key.as_str())?,
            sandbox: client.of(&organization.id),
            organization,
        })
    }

    /// A client of the control interface, for the seeded organization.
    ///
    /// # Errors
    ///
    /// If the HTTP client cannot be initialized.
    pub fn client(&self) -> Result<Client, Error> {
        Client::with_token(self.base_url(), self.control_token().unwrap_or("none"))
    }

    /// A client of the email service, with the seeded key. It accepts webhook URLs with `http`.
    ///
    /// # Errors
    ///
    /// If the HTTP client cannot be initialized.
    pub fn email_client(&self) -> Result<EmailClient, svc_sdk::Error> {
        self.email_client_with(self.app().settings.email_key.clone())
    }

    fn email_client_with(&self, key: impl Into<Secret>) -> Result<EmailClient, svc_sdk::Error> {
        EmailClient::builder(self.base_url(), key)
            .no_proxy()
            .dialect(self.app().settings.dialect.clone())
            .insecure_webhook_urls(true)
            .build()
    }

    /// A client of the extraction service, with the seeded key.
    ///
    /// # Errors
    ///
    /// If the HTTP client cannot be initialized.
    pub fn extraction_client(&self) -> Result<ExtractionClient, svc_sdk::Error> {
        self.extraction_client_with(self.app().settings.extraction_key.clone())
    }

    fn extraction_client_with(
        &self,
        key: impl Into<Secret>,
    ) -> Result<ExtractionClient, svc_sdk::Error> {
        ExtractionClient::builder(self.base_url(), key)
            .no_proxy()
            .build()
    }
}
