//! `/_sandbox/organizations`: creates and lists organizations. Tests that use one
//! organization each can share a server.

use std::sync::Arc;

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_sdk::{Scope, Service};

use super::{ControlResponse, json_response};
use crate::app::App;
use crate::error::{ApiError, Code};
use crate::id::{self, Prefix};
use crate::keys::{self, Keys, Mode};
use crate::store::Tx;
use crate::web::{Input, MAX_SAFE_INTEGER, integer};

/// The name of the seeded organization.
pub(crate) const SANDBOX: &str = "Sandbox";

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

pub(super) async fn create(mut input: Input) -> ControlResponse {
    let new: New = input.optional_object().await?;
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
    json_response(StatusCode::CREATED, &created)
}

/// Creates an organization with a key of each service that has all scopes.
pub(crate) async fn create_with_keys(
    app: &App,
    name: Option<String>,
    balance_cents: i64,
) -> Result<Created, ApiError> {
    let keys = Arc::clone(&app.keys);
    let created = app.store.write(move |tx| {
        let organization = insert(tx, name.as_deref(), balance_cents)?;
        let email_key = keys::new_secret(Service::Email, Mode::Test)?;
        let extraction_key = keys::new_secret(Service::Extraction, Mode::Test)?;
        insert_keys(tx, &keys, organization.seq, email_key.clone(), extraction_key.clone())?;
        let Organization { id, name, .. } = organization;
        let organization = View { id, name, balance_cents };
        Ok(Created { organization, email_key, extraction_key })
    });
    created.await
}

pub(super) async fn list(input: Input) -> ControlResponse {
    let all = input.app.store.read(|connection| {
        let mut statement = connection
            .prepare_cached("SELECT id, name, balance_cents FROM organization ORDER BY seq")?;
        let rows = statement.query_map([], |row| {
            Ok(View { id: row.get(0)?, name: row.get(1)?, balance_cents: row.get(2)? })
        })?;
        Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
    });
    json_response(StatusCode::OK, &all.await?)
}

pub(crate) struct Organization {
    pub(crate) seq: i64,
    id: String,
    name: String,
}

/// Inserts an organization. Without a name, its ID becomes its name.
pub(crate) fn insert(
    tx: &Tx<'_>,
    name: Option<&str>,
    balance_cents: i64,
) -> Result<Organization, ApiError> {
    let id = id::new(Prefix::Organization);
    let name = name.unwrap_or(&id).to_owned();
    tx.execute(
        "INSERT INTO organization (id, name, balance_cents, created_at) VALUES (?1, ?2, ?3, ?4)",
        (&id, &name, balance_cents, tx.now),
    )?;
    Ok(Organization { seq: tx.connection().last_insert_rowid(), id, name })
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

/// All scopes of the email service.
pub(crate) const EMAIL_SCOPES: [Scope; 5] = [
    Scope::EmailsSend,
    Scope::EmailsRead,
    Scope::ContactsManage,
    Scope::DomainsManage,
    Scope::WebhooksManage,
];
