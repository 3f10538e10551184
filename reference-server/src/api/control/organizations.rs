//! `/_sandbox/organizations`: creates and lists organizations. Tests that use one
//! organization each can share a server.

use std::sync::Arc;

use svc_sdk::{Scope, Service};

use crate::api::app::App;
use crate::api::framework::route::Routes;
use crate::api::framework::{ControlCall, Json};
use crate::control::organizations::{
    self as control, MAX_NAME_LENGTH, NewOrganization, Organization, OrganizationSummary,
};
use crate::model::error::{ApiError, Code};
use crate::model::scope::EMAIL_SCOPES;
use crate::store::Tx;
use crate::store::keys::{self, Keys, Mode};
use crate::store::organizations::{self, SANDBOX};

pub(crate) fn routes(r: &mut Routes) {
    r.tag("Sandbox organizations");
    r.control(control::CREATE, create).errors(&[Code::Conflict]);
    r.control(control::LIST, list);
}

pub(crate) async fn create(
    call: ControlCall<NewOrganization>,
) -> Result<Json<Organization, 201>, ApiError> {
    let (app, new) = (Arc::clone(call.app()), call.body);
    if let Some(name) = &new.name {
        let length = name.chars().count();
        if !(1..=MAX_NAME_LENGTH).contains(&length) || name.chars().any(char::is_control) {
            let message =
                format!("must have 1 to {MAX_NAME_LENGTH} characters and no control characters");
            return Err(ApiError::field("name", message));
        }
    }
    if app.settings.seed && new.name.as_deref() == Some(SANDBOX) {
        let message = "the organization Sandbox already exists";
        return Err(ApiError::new(Code::Conflict, message));
    }
    let created = create_with_keys(&app, new.name, new.balance_cents.unwrap_or(0)).await?;
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
        insert_keys(tx, &keys, organization.seq, email_key.clone(), extraction_key.clone())?;
        let organizations::Organization { id, name, balance_cents, .. } = organization;
        Ok(Organization { id, name, balance_cents, email_key, extraction_key })
    });
    created.await
}

pub(crate) async fn list(call: ControlCall) -> Result<Json<Vec<OrganizationSummary>>, ApiError> {
    let all = call.app().store.read(organizations::list).await?;
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
