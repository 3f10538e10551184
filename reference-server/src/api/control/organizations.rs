//! `/_sandbox/organizations`: creates and lists organizations. Tests that use one
//! organization each can share a server.

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
use crate::store::organizations::{self, Organization, SANDBOX};

/// Maximum length of an organization's name, in characters.
const MAX_NAME_LENGTH: usize = 200;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewOrganization")]
pub(crate) struct New {
    /// Default: the ID. Names need not be unique; to select one of several organizations
    /// with the same name, use its ID.
    #[schemars(extend("minLength" = 1, "maxLength" = MAX_NAME_LENGTH))]
    #[schemars(extend("pattern" = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"))]
    name: Option<String>,
    #[serde(default, deserialize_with = "integer")]
    #[schemars(extend("minimum" = -MAX_SAFE_INTEGER, "maximum" = MAX_SAFE_INTEGER))]
    balance_cents: Option<i64>,
}

/// A new organization with its keys.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OrganizationWithKeys")]
pub(crate) struct Created {
    #[serde(flatten)]
    pub(crate) organization: View,
    pub(crate) email_key: String,
    pub(crate) extraction_key: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SandboxOrganization")]
pub(crate) struct View {
    pub(crate) id: String,
    pub(crate) name: String,
    balance_cents: i64,
}

pub(crate) async fn create(
    mut input: Input,
    body: OptionalBody<New>,
) -> Result<Json<Created, 201>, ApiError> {
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
) -> Result<Created, ApiError> {
    let keys = Arc::clone(&app.keys);
    let created = app.store.write(move |tx| {
        let organization = organizations::insert(tx, name.as_deref(), balance_cents)?;
        let email_key = keys::new_secret(Service::Email, Mode::Test)?;
        let extraction_key = keys::new_secret(Service::Extraction, Mode::Test)?;
        insert_keys(tx, &keys, organization.seq, email_key.clone(), extraction_key.clone())?;
        Ok(Created { organization: organization.into(), email_key, extraction_key })
    });
    created.await
}

pub(crate) async fn list(input: Input) -> Result<Json<Vec<View>>, ApiError> {
    let all = input.app.store.read(organizations::list).await?;
    let views: Vec<View> = all.into_iter().map(View::from).collect();
    Json::of(&views)
}

impl From<Organization> for View {
    fn from(organization: Organization) -> Self {
        let Organization { id, name, balance_cents, .. } = organization;
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
