//! `/_sandbox/organizations`: creates and lists organizations. Tests that use one
//! organization each can share a server.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_sdk::{Scope, Service};

use crate::api::app::App;
use crate::api::framework::{Input, Json, MAX_SAFE_INTEGER, OptionalBody, integer};
use crate::model::error::{ApiError, Code};
use crate::model::scope::EMAIL_SCOPES;
use crate::store::Tx;
use crate::store::keys::{self, Keys, Mode};
use crate::store::organizations::{self, SANDBOX};

/// Maximum length of an organization's name, in characters.
const MAX_NAME_LENGTH: usize = 200;

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
    if let Some(name) = &new.name {
        let length = name.chars().count();
        if !(1..=MAX_NAME_LENGTH).contains(&length) || name.chars().any(char::is_control) {
            let message =
                format!("must have 1 to {MAX_NAME_LENGTH} characters and no control characters");
            return Err(ApiError::field("name", message));
        }
    }
    if input.app.settings.seed && new.name.as_deref() == Some(SANDBOX) {
        let message = "the organization Sandbox already exists";
        return Err(ApiError::new(Code::Conflict, message));
    }
    let created = create_with_keys(&input.app, new.name, new.balance_cents.unwrap_or(0)).await?;
    Json::of(&created)
}

/// Creates an organization with a key of each service that has all scopes.
pub(crate) async fn create_with_keys(
    app: &App,
    name: Option<String>,
    balance_cents: i64,
) -> Result<Organization, ApiError> {
    let keys = Arc::clone(&app.keys);
    let created = app.store.write(move |tx| {
        let organization = organizations::insert(tx, name.as_deref(), balance_cents)?;
        let email_key = keys::new_secret(Service::Email, Mode::Test)?;
        let extraction_key = keys::new_secret(Service::Extraction, Mode::Test)?;
        insert_keys(tx, &keys, organization.number, email_key.clone(), extraction_key.clone())?;
        let organizations::Organization { id, name, balance_cents, .. } = organization;
        Ok(Organization { id, name, balance_cents, email_key, extraction_key })
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

/// Inserts a key of each service, with all scopes.
pub(crate) fn insert_keys(
    tx: &mut Tx<'_>,
    keys: &Arc<Keys>,
    organization: i64,
    email_key: String,
    extraction_key: String,
) -> Result<(), ApiError> {
    let scopes = EMAIL_SCOPES.to_vec();
    keys::create(tx, keys, email_key, organization, Service::Email, scopes, Mode::Test)?;
    let scopes = vec![Scope::Full];
    keys::create(tx, keys, extraction_key, organization, Service::Extraction, scopes, Mode::Test)?;
    Ok(())
}
