//! `/_sandbox/organizations`: a tenant with its keys, so that tests share a
//! server and see nothing of each other.

use std::sync::Arc;

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_sdk::{Scope, Service};

use super::{Reply, json as reply};
use crate::app::App;
use crate::error::{ApiError, Code};
use crate::id::{self, Prefix};
use crate::keys::{self, Keys, Mode};
use crate::store::Tx;
use crate::web::{Input, LARGEST, whole};

/// The organization that is there from the first start on.
pub(crate) const SANDBOX: &str = "Sandbox";

/// Characters of an organization's name.
const LONGEST_NAME: usize = 200;

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "NewOrganization")]
pub(crate) struct New {
    /// Its id where none is given. Others may have the same name; where the control
    /// interface is to find one of them, it asks for the id.
    #[schemars(extend("minLength" = 1, "maxLength" = LONGEST_NAME))]
    #[schemars(extend("pattern" = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$"))]
    name: Option<String>,
    #[serde(default, deserialize_with = "whole")]
    #[schemars(extend("minimum" = -LARGEST, "maximum" = LARGEST))]
    balance_cents: Option<i64>,
}

/// An organization with the keys that it was made with.
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

pub(super) async fn create(mut input: Input) -> Reply {
    let new: New = input.optional_object().await?;
    if let Some(name) = &new.name {
        let length = name.chars().count();
        if !(1..=LONGEST_NAME).contains(&length) || name.chars().any(char::is_control) {
            let message = format!(
                "must have 1 to {LONGEST_NAME} characters, none of them a control character"
            );
            return Err(ApiError::field("name", message));
        }
    }
    if input.app.settings.seed && new.name.as_deref() == Some(SANDBOX) {
        let message = "the organization Sandbox is there from the start";
        return Err(ApiError::new(Code::Conflict, message));
    }
    let made = make(&input.app, new.name, new.balance_cents.unwrap_or(0)).await?;
    reply(StatusCode::CREATED, &made)
}

/// Makes an organization, with keys that have every scope.
pub(crate) async fn make(
    app: &App,
    name: Option<String>,
    balance_cents: i64,
) -> Result<Created, ApiError> {
    let keys = Arc::clone(&app.keys);
    let made = app.store.write(move |tx| {
        let organization = insert(tx, name.as_deref(), balance_cents)?;
        let email_key = keys::new_secret(Service::Email, Mode::Test)?;
        let extraction_key = keys::new_secret(Service::Extraction, Mode::Test)?;
        all_keys(tx, &keys, organization.seq, email_key.clone(), extraction_key.clone())?;
        let Organization { id, name, .. } = organization;
        let organization = View { id, name, balance_cents };
        Ok(Created { organization, email_key, extraction_key })
    });
    made.await
}

pub(super) async fn list(input: Input) -> Reply {
    let all = input.app.store.read(|connection| {
        let mut statement = connection
            .prepare_cached("SELECT id, name, balance_cents FROM organization ORDER BY seq")?;
        let rows = statement.query_map([], |row| {
            Ok(View { id: row.get(0)?, name: row.get(1)?, balance_cents: row.get(2)? })
        })?;
        Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
    });
    reply(StatusCode::OK, &all.await?)
}

pub(crate) struct Organization {
    pub(crate) seq: i64,
    id: String,
    name: String,
}

/// Adds an organization; without a name it is called by its id.
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

/// Gives an organization a key of each service with every scope.
pub(crate) fn all_keys(
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

/// Every scope of the email service.
pub(crate) const EMAIL_SCOPES: [Scope; 5] = [
    Scope::EmailsSend,
    Scope::EmailsRead,
    Scope::ContactsManage,
    Scope::DomainsManage,
    Scope::WebhooksManage,
];
