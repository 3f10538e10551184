//! Organizations in the control interface: the endpoints of `/_sandbox/organizations`, their types,
//! and the methods of `Client`. No organization sees what another one has, so tests with one
//! organization each can share a server. `Tenant` is an organization with clients that use its
//! keys; `server/organization.rs` makes it. `Debug` omits keys and secrets. `organization_api.rs`
//! handles the requests.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_sdk::{EmailClient, ExtractionClient};

use crate::control::{CREATED, Client, Endpoint, Error, GET, POST, Request, requests};
use crate::model::integer::{MAX_SAFE_INTEGER, integer};
use crate::model::schema;
use crate::webhooks::webhook_wire::Webhook;

requests! {
    /// Lists the organizations of the server, oldest first.
    LIST: fn organizations() -> Vec<OrganizationSummary> = Endpoint::new(
        GET,
        "sandboxOrganizationsList",
        "/_sandbox/organizations",
        "List the organizations",
    )
    .of_server();
}

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

/// The settings of a new organization.
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
    pub name: Option<String>,
    /// The balance of the extraction service, in cents. Default: 0.
    #[serde(default, deserialize_with = "integer")]
    #[schemars(extend("minimum" = -MAX_SAFE_INTEGER, "maximum" = MAX_SAFE_INTEGER))]
    pub balance_cents: Option<i64>,
    /// A sending domain, which is published and verified. Default: a random name under `.test`.
    #[schemars(extend("format" = "domain-name", "minLength" = 3))]
    pub domain: Option<String>,
    /// The webhooks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub webhooks: Vec<NewOrganizationWebhook>,
}

/// A webhook of a new organization, with the events of one service.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CreateOrganizationWebhook")]
pub struct NewOrganizationWebhook {
    /// Where it delivers.
    #[schemars(length(max = 2048), url)]
    pub url: String,
    /// The events that it subscribes to.
    #[schemars(with = "schema::EventsOfOneService")]
    pub events: Vec<String>,
    /// The signing secret. Default: a new one.
    #[schemars(extend("pattern" = "^[!-~]{1,200}$"))]
    pub secret: Option<String>,
    /// Whether it gets deliveries. Default: true.
    pub active: Option<bool>,
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
    /// let shop = NewOrganization {
    ///     name: Some("Shop".to_owned()),
    ///     domain: Some("shop.test".to_owned()),
    ///     ..NewOrganization::default()
    /// };
    /// let organization = client.create_organization(&shop).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_organization(&self, new: &NewOrganization) -> Request<Organization> {
        self.send(&CREATE, &[], new)
    }
}
