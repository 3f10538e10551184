//! Organizations in the control interface: the endpoints of `/_sandbox/organizations`, their types,
//! and the methods of `Client`. No organization sees what another one has, so tests with one
//! organization each can share a server. `Tenant` is an organization with clients that use its
//! keys; `server/organization.rs` makes it. `Debug` omits keys and secrets. `organization_api.rs`
//! handles the requests.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_sdk::{EmailClient, ExtractionClient};

use crate::control::client::{Client, Error, Request};
use crate::control::endpoint::{CREATED, Endpoint, GET, POST};
use crate::model::integer::{MAX_SAFE_INTEGER, integer};
use crate::model::schema;
use crate::webhooks::webhook_wire::Webhook;

pub(crate) const LIST: Endpoint<(), Vec<OrganizationSummary>> = Endpoint::new(
    GET,
    "sandboxOrganizationsList",
    "/_sandbox/organizations",
    "List the organizations",
)
.of_server();
pub(crate) const CREATE: Endpoint<NewOrganization, Organization> = Endpoint::new(
    POST,
    "sandboxOrganizationsCreate",
    "/_sandbox/organizations",
    "Create an organization with keys that have all scopes",
)
.of_server()
.optional_body()
.responds(CREATED);

/// Maximum length of an organization's name, in characters.
pub(crate) const MAX_NAME_LENGTH: usize = 200;

/// What a new organization is created with.
#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = "")]
#[schemars(extend("examples" = [{"name": "Shop", "domain": "shop.test"}]))]
#[schemars(rename = "CreateOrganization")]
pub struct NewOrganization {
    /// Default: the ID. Names need not be unique; to select one of several organizations
    /// with the same name, use its ID.
    #[schemars(extend("minLength" = 1, "maxLength" = MAX_NAME_LENGTH))]
    #[schemars(extend("pattern" = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"))]
    pub(crate) name: Option<String>,
    #[serde(default, deserialize_with = "integer")]
    #[schemars(extend("minimum" = -MAX_SAFE_INTEGER, "maximum" = MAX_SAFE_INTEGER))]
    pub(crate) balance_cents: Option<i64>,
    /// A sending domain, which is published and verified. Default: a random name under `.test`.
    #[schemars(extend("format" = "domain-name", "minLength" = 3))]
    pub(crate) domain: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) webhooks: Vec<NewOrganizationWebhook>,
}

/// A webhook of a new organization, with the events of one service.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CreateOrganizationWebhook")]
pub(crate) struct NewOrganizationWebhook {
    #[schemars(length(max = 2048), url)]
    pub(crate) url: String,
    #[schemars(with = "schema::EventsOfOneService")]
    pub(crate) events: Vec<String>,
    /// Default: a new one.
    #[schemars(extend("pattern" = "^[!-~]{1,200}$"))]
    pub(crate) secret: Option<String>,
    /// Whether it gets deliveries. Default: true.
    pub(crate) active: Option<bool>,
}

/// A new organization with one API key for each service.
///
/// An organization cannot see the resources of another, so tests that use one
/// organization each can share a server. The `Debug` output omits the keys.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "OrganizationWithKeys")]
#[non_exhaustive]
pub struct Organization {
    /// The ID, `org_…`.
    pub id: String,
    /// The name.
    pub name: String,
    /// The balance of the extraction service, in cents.
    pub balance_cents: i64,
    /// A key of the email service with all scopes.
    pub email_key: String,
    /// A key of the extraction service with the scope `full`.
    pub extraction_key: String,
    /// A sending domain, published and verified.
    pub domain: String,
    /// The webhooks that it was created with.
    pub webhooks: Vec<Webhook>,
}

impl fmt::Debug for Organization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Organization")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// An organization in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SandboxOrganization")]
#[non_exhaustive]
pub struct OrganizationSummary {
    /// The ID, `org_…`.
    pub id: String,
    /// The name.
    pub name: String,
    /// The balance of the extraction service, in cents.
    pub balance_cents: i64,
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
        self.sandbox.publish_dns(name, &[]).await?;
        self.email.domains().verify(&domain.id).await?;
        Ok(())
    }
}

impl NewOrganization {
    /// Sets the name. Default: the ID.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the balance of the extraction service, in cents. Default: 0.
    #[must_use]
    pub fn balance_cents(mut self, cents: i64) -> Self {
        self.balance_cents = Some(cents);
        self
    }

    /// Sets the sending domain, which is published and verified. Default: a random name under
    /// `.test`.
    #[must_use]
    pub fn domain(mut self, domain: impl Into<String>) -> Self {
        self.domain = Some(domain.into());
        self
    }

    /// Adds a webhook with the events of one service.
    #[must_use]
    pub fn webhook<E: Into<String>>(
        mut self,
        url: impl Into<String>,
        events: impl IntoIterator<Item = E>,
    ) -> Self {
        self.webhooks.push(NewOrganizationWebhook {
            url: url.into(),
            events: events.into_iter().map(Into::into).collect(),
            secret: None,
            active: None,
        });
        self
    }

    /// Sets the signing secret of the webhook that was added last. Default: a new one.
    #[must_use]
    pub fn webhook_secret(mut self, secret: impl Into<String>) -> Self {
        if let Some(webhook) = self.webhooks.last_mut() {
            webhook.secret = Some(secret.into());
        }
        self
    }
}

/// Omits the secrets of webhooks.
impl fmt::Debug for NewOrganization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewOrganization")
            .field("name", &self.name)
            .field("domain", &self.domain)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Creates an organization with keys that have all scopes.
    ///
    /// ```no_run
    /// # async fn f(client: svc_reference_server::client::Client)
    /// # -> Result<(), svc_reference_server::client::Error> {
    /// use svc_reference_server::client::NewOrganization;
    ///
    /// let shop = NewOrganization::default()
    ///     .name("Shop")
    ///     .domain("shop.test")
    ///     .webhook("http://127.0.0.1:3000/hooks", ["email.bounced"]);
    /// let organization = client.create_organization(&shop).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_organization(&self, new: &NewOrganization) -> Request<Organization> {
        self.send(&CREATE, &[], new)
    }

    /// Lists the organizations of the server, oldest first.
    pub fn organizations(&self) -> Request<Vec<OrganizationSummary>> {
        self.call(&LIST, &[])
    }
}
