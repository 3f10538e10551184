//! `/_sandbox/organizations`: creates and lists organizations. Tests that use one
//! organization each can share a server.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_sdk::Service;

use super::seed::file::{self, SeedError};
use super::seed::{MAX_NAME_LENGTH, check_name, insert_keys};
use crate::api::app::Shared;
use crate::api::framework::{Input, Json, MAX_SAFE_INTEGER, OptionalBody, integer};
use crate::model::error::{ApiError, Code};
use crate::model::seed_file::{SeedFile, SeedOrganization};
use crate::store::domains;
use crate::store::keys::{self, Mode, random_hex};
use crate::store::organizations::{self, SANDBOX};
use crate::store::webhooks::{self, Webhook};

#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewOrganization")]
pub(crate) struct New {
    /// Default: the ID. Names need not be unique; to select one of several organizations
    /// with the same name, use its ID.
    #[schemars(extend("minLength" = 1, "maxLength" = MAX_NAME_LENGTH))]
    #[schemars(extend("pattern" = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(default, deserialize_with = "integer", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = -MAX_SAFE_INTEGER, "maximum" = MAX_SAFE_INTEGER))]
    pub(crate) balance_cents: Option<i64>,
    /// A sending domain, which is published and verified. Default: a random name under `.test`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) domain: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) webhooks: Vec<NewOrganizationWebhook>,
}

/// A webhook of a new organization, with the events of one service.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewOrganizationWebhook")]
pub(crate) struct NewOrganizationWebhook {
    url: String,
    events: Vec<String>,
    /// Default: a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

/// A webhook of a new organization. The `Debug` output omits the secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct OrganizationWebhook {
    /// The ID, `whk_…`.
    pub id: String,
    /// Where it delivers.
    pub url: String,
    /// The events that it subscribes to.
    pub events: Vec<String>,
    /// The signing secret.
    pub secret: String,
}

impl fmt::Debug for OrganizationWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrganizationWebhook").field("id", &self.id).finish_non_exhaustive()
    }
}

impl From<Webhook> for OrganizationWebhook {
    fn from(webhook: Webhook) -> Self {
        let events = webhook.events.iter().map(|event| event.as_str().to_owned()).collect();
        Self { id: webhook.id, url: webhook.url, events, secret: webhook.secret }
    }
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
    pub webhooks: Vec<OrganizationWebhook>,
}

impl fmt::Debug for Organization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Organization").field("id", &self.id).finish_non_exhaustive()
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

pub(crate) async fn create(
    mut input: Input,
    body: OptionalBody<New>,
) -> Result<Json<Organization, 201>, ApiError> {
    let new = body.read(&mut input).await?;
    if let Some(message) = new.name.as_deref().and_then(check_name) {
        return Err(ApiError::field("name", message));
    }
    if input.app.settings.seed && new.name.as_deref() == Some(SANDBOX) {
        let message = "the organization Sandbox already exists";
        return Err(ApiError::new(Code::Conflict, message));
    }
    Json::of(&create_with_keys(&input.app, new).await?)
}

/// Creates an organization with a key of each service that has all scopes, a verified domain and
/// webhooks.
pub(crate) async fn create_with_keys(app: &Shared, new: New) -> Result<Organization, ApiError> {
    let New { name, balance_cents, domain, webhooks } = new;
    let context = Arc::clone(app);
    let created = app.store.write(move |tx| {
        let app = &context;
        let organization = organizations::insert(tx, name.as_deref(), balance_cents.unwrap_or(0))?;
        let email_key = keys::new_secret(Service::Email, Mode::Test)?;
        let extraction_key = keys::new_secret(Service::Extraction, Mode::Test)?;
        let number = organization.number;
        insert_keys(tx, &app.keys, number, email_key.clone(), extraction_key.clone())?;
        let organizations::Organization { id, name, balance_cents, .. } = organization;
        let domain = match domain {
            Some(domain) => domain,
            None => format!("{}.test", random_hex::<4>()?),
        };
        let seed = SeedOrganization::with(
            name.clone(),
            domain,
            webhooks.into_iter().map(|webhook| (webhook.url, webhook.events, webhook.secret)),
        );
        file::apply_to(tx, app, &SeedFile::default(), number, &seed, "").map_err(|error| {
            match error {
                SeedError::Invalid(mistake) => {
                    let field = mistake.field.trim_start_matches('.');
                    let field = if field == "domains[0].name" { "domain" } else { field };
                    ApiError::field(field, mistake.message)
                }
                SeedError::Failed(error) => error,
            }
        })?;
        let domain = domains::list(tx.reader(), number)?.into_iter().next();
        let domain = domain.map(|domain| domain.name).unwrap_or_default();
        let webhooks = [Service::Email, Service::Extraction]
            .map(|service| webhooks::list(tx.reader(), number, service));
        let [email, extraction] = webhooks;
        let webhooks = email?.into_iter().chain(extraction?).map(OrganizationWebhook::from);
        let webhooks = webhooks.collect();
        Ok(Organization { id, name, balance_cents, email_key, extraction_key, domain, webhooks })
    });
    created.await
}

pub(crate) async fn list(input: Input) -> Result<Json<Vec<OrganizationSummary>>, ApiError> {
    let all = input.app.store.read(organizations::list).await?;
    let views: Vec<_> = all.into_iter().map(OrganizationSummary::from).collect();
    Json::of(&views)
}

impl From<organizations::Organization> for OrganizationSummary {
    fn from(organization: organizations::Organization) -> Self {
        let organizations::Organization { id, name, balance_cents, .. } = organization;
        Self { id, name, balance_cents }
    }
}
