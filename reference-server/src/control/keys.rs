//! `/_sandbox/keys`: creates, lists and revokes API keys of both services.

use std::sync::Arc;

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_sdk::{Scope, Service};

use super::organizations::EMAIL_SCOPES;
use super::{ControlResponse, json_response, no_content, organization, organization_param};
use crate::error::{ApiError, Problems};
use crate::keys::{self, Mode};
use crate::openapi::schema;
use crate::time::{self, Millis};
use crate::web::Input;

/// A key of the email service needs `scopes`, one of the extraction service `scope`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewKey")]
#[schemars(extend("oneOf" = [
    {
        "properties": {"service": {"const": "email"}, "scopes": {"type": "array"}},
        "required": ["scopes"],
    },
    {
        "properties": {"service": {"const": "extraction"}, "scope": {"type": "string"}},
        "required": ["scope"],
    },
]))]
pub(crate) struct New {
    organization: Option<String>,
    #[schemars(extend("enum" = ["email", "extraction"]))]
    service: String,
    #[schemars(with = "Option<schema::EmailScopes>")]
    scopes: Option<Vec<String>>,
    #[schemars(extend("enum" = ["full", "extract_only", null]))]
    scope: Option<String>,
    #[schemars(extend("enum" = ["live", "test", null], "default" = "test"))]
    mode: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Key")]
pub(crate) struct View {
    id: String,
    #[schemars(extend("enum" = ["email", "extraction"]))]
    service: &'static str,
    #[schemars(extend("enum" = ["live", "test"]))]
    mode: String,
    /// Only for a key of the email service.
    #[serde(skip_serializing_if = "Option::is_none")]
    scopes: Option<Vec<&'static str>>,
    /// Only for a key of the extraction service.
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'static str>,
    /// The key itself; only in the response that creates it.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The start of the key; only in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[schemars(with = "schema::Time")]
    created_at: String,
}

pub(super) async fn create(mut input: Input) -> ControlResponse {
    let new: New = input.object().await?;
    let (service, scopes, mode) = new.resolve()?;
    let app = Arc::clone(&input.app);
    let view = input.app.store.write(move |tx| {
        let organization =
            organization(tx.connection(), &app.settings, new.organization.as_deref())?;
        let secret = keys::new_secret(service, mode)?;
        let key = keys::create(tx, &app.keys, secret.clone(), organization, service, scopes, mode)?;
        let view = View::new(key.id, service, &key.scopes, mode.as_str().to_owned(), tx.now);
        Ok(View { key: Some(secret), ..view })
    });
    json_response(StatusCode::CREATED, &view.await?)
}

impl New {
    fn resolve(&self) -> Result<(Service, Vec<Scope>, Mode), ApiError> {
        let mut problems = Problems::default();
        let service = match self.service.as_str() {
            "email" => Service::Email,
            "extraction" => Service::Extraction,
            _ => return Err(ApiError::field("service", "must be email or extraction")),
        };
        let mode = match self.mode.as_deref() {
            None | Some("test") => Mode::Test,
            Some("live") => Mode::Live,
            Some(_) => {
                problems.add("mode", "must be live or test");
                Mode::Test
            }
        };
        let mut email_scopes = Vec::new();
        for (index, name) in self.scopes.iter().flatten().enumerate() {
            match name.parse().ok().filter(|scope| EMAIL_SCOPES.contains(scope)) {
                Some(scope) if email_scopes.contains(&scope) => {}
                Some(scope) => email_scopes.push(scope),
                None => {
                    problems.add(format!("scopes[{index}]"), "is not a scope of the email service");
                }
            }
        }
        let extraction_scopes = match self.scope.as_deref() {
            Some("full") => vec![Scope::Full],
            Some("extract_only") => vec![Scope::ExtractOnly],
            None if service == Service::Email => Vec::new(),
            _ => {
                problems.add("scope", "must be full or extract_only");
                Vec::new()
            }
        };
        if service == Service::Email && self.scopes.is_none() {
            problems.add("scopes", "is required for a key of the email service");
        }
        problems.check()?;
        let scopes = match service {
            Service::Email => email_scopes,
            Service::Extraction => extraction_scopes,
        };
        Ok((service, scopes, mode))
    }
}

pub(super) async fn list(input: Input) -> ControlResponse {
    let app = Arc::clone(&input.app);
    let name = organization_param(&input);
    let all = input.app.store.read(move |connection| {
        let organization = organization(connection, &app.settings, name.as_deref())?;
        let mut statement = connection.prepare_cached(
            "SELECT id, service, scopes, mode, hint, created_at FROM api_key
             WHERE organization = ?1 ORDER BY id",
        )?;
        let rows = statement.query_map([organization], |row| {
            let scopes: String = row.get(2)?;
            let scopes: Vec<Scope> =
                scopes.split(' ').filter_map(|name| name.parse().ok()).collect();
            let service = keys::service_from(&row.get::<_, String>(1)?);
            let view = View::new(row.get(0)?, service, &scopes, row.get(3)?, row.get(5)?);
            Ok(View { hint: row.get(4)?, ..view })
        })?;
        Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
    });
    json_response(StatusCode::OK, &all.await?)
}

pub(super) async fn delete(input: Input) -> ControlResponse {
    let app = Arc::clone(&input.app);
    let (id, name) = (input.id().to_owned(), organization_param(&input));
    input
        .app
        .store
        .write(move |tx| {
            let organization = organization(tx.connection(), &app.settings, name.as_deref())?;
            let deleted = tx.execute(
                "DELETE FROM api_key WHERE id = ?1 AND organization = ?2",
                (&id, organization),
            )?;
            if deleted == 0 {
                return Err(ApiError::not_found("key"));
            }
            let keys = Arc::clone(&app.keys);
            tx.after_commit(move || keys.remove(&id));
            Ok(())
        })
        .await?;
    no_content()
}

impl View {
    fn new(id: String, service: Service, scopes: &[Scope], mode: String, at: Millis) -> Self {
        let names: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
        let (scopes, scope) = match service {
            Service::Email => (Some(names), None),
            Service::Extraction => (None, names.first().copied()),
        };
        let created_at = time::rfc3339(at);
        Self {
            id,
            service: service.as_str(),
            mode,
            scopes,
            scope,
            key: None,
            hint: None,
            created_at,
        }
    }
}
