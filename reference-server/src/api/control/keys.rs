//! `/_sandbox/keys`: creates, lists and revokes API keys of both services.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_sdk::{Scope, Service};

use super::{named_organization, organization, organization_param};
use crate::api::framework::{Input, Json, JsonBody, NoContent};
use crate::model::error::{ApiError, Problems};
use crate::model::schema;
use crate::model::scope::EMAIL_SCOPES;
use crate::model::time::Millis;
use crate::model::timestamp::Timestamp;
use crate::store::keys::{self, Mode};

/// A key of the email service needs `scopes`, one of the extraction service `scope`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
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
pub struct NewKey {
    #[serde(skip_serializing_if = "Option::is_none")]
    organization: Option<String>,
    #[schemars(extend("enum" = ["email", "extraction"]))]
    service: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::EmailScopes>")]
    scopes: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["full", "extract_only", null]))]
    scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["live", "test", null], "default" = "test"))]
    mode: Option<String>,
}

impl NewKey {
    /// A key of the email service with these scopes, such as `emails:send`.
    pub fn email(scopes: impl IntoIterator<Item = impl ToString>) -> Self {
        let scopes = scopes.into_iter().map(|scope| scope.to_string()).collect();
        Self { scopes: Some(scopes), ..Self::of("email") }
    }

    /// A key of the extraction service with the scope `full` or `extract_only`.
    #[expect(clippy::needless_pass_by_value, reason = "scopes and strings are passed alike")]
    pub fn extraction(scope: impl ToString) -> Self {
        Self { scope: Some(scope.to_string()), ..Self::of("extraction") }
    }

    /// `live` or `test`. Default: `test`.
    #[must_use]
    pub fn mode(mut self, mode: impl Into<String>) -> Self {
        self.mode = Some(mode.into());
        self
    }

    fn of(service: &str) -> Self {
        let service = service.to_owned();
        Self { organization: None, service, scopes: None, scope: None, mode: None }
    }
}

/// An API key. The `Debug` output omits the key itself.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Key")]
#[non_exhaustive]
pub struct Key {
    /// The ID, `key_…`.
    pub id: String,
    /// `email` or `extraction`.
    #[schemars(extend("enum" = ["email", "extraction"]))]
    pub service: String,
    /// `live` or `test`.
    #[schemars(extend("enum" = ["live", "test"]))]
    pub mode: String,
    /// Only for a key of the email service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// Only for a key of the extraction service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The key itself; only in the response that creates it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The start of the key; only in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id).finish_non_exhaustive()
    }
}

pub(crate) async fn create(
    mut input: Input,
    body: JsonBody<NewKey>,
) -> Result<Json<Key, 201>, ApiError> {
    let new = body.read(&mut input).await?;
    let (service, scopes, mode) = new.resolve()?;
    let name = named_organization(&input, new.organization)?;
    let app = Arc::clone(&input.app);
    let view = input.app.store.write(move |tx| {
        let organization = organization(tx.reader(), &app.settings, name.as_deref())?;
        let secret = keys::new_secret(service, mode)?;
        let key = keys::create(tx, &app.keys, secret.clone(), organization, service, scopes, mode)?;
        let view = Key::new(key.id, service, &key.scopes, mode.as_str().to_owned(), tx.now);
        Ok(Key { key: Some(secret), ..view })
    });
    Json::of(&view.await?)
}

impl NewKey {
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
            _ => extraction_scopes,
        };
        Ok((service, scopes, mode))
    }
}

pub(crate) async fn list(input: Input) -> Result<Json<Vec<Key>>, ApiError> {
    let app = Arc::clone(&input.app);
    let name = organization_param(&input);
    let all = input.app.store.read(move |reader| {
        let organization = organization(reader, &app.settings, name.as_deref())?;
        keys::list(reader, organization)
    });
    let views = all.await?.into_iter().map(|key| {
        let view = Key::new(key.id, key.service, &key.scopes, key.mode, key.created_at);
        Key { hint: Some(key.hint), ..view }
    });
    Json::of(&views.collect::<Vec<_>>())
}

pub(crate) async fn delete(input: Input) -> Result<NoContent, ApiError> {
    let app = Arc::clone(&input.app);
    let (id, name) = (input.id().to_owned(), organization_param(&input));
    input
        .app
        .store
        .write(move |tx| {
            let organization = organization(tx.reader(), &app.settings, name.as_deref())?;
            if !keys::delete(tx, &app.keys, id, organization)? {
                return Err(ApiError::not_found("key"));
            }
            Ok(())
        })
        .await?;
    Ok(NoContent)
}

impl Key {
    fn new(id: String, service: Service, scopes: &[Scope], mode: String, at: Millis) -> Self {
        let mut names: Vec<String> = scopes.iter().map(ToString::to_string).collect();
        let (scopes, scope) = match service {
            Service::Email => (Some(names), None),
            _ => (None, names.pop()),
        };
        Self {
            id,
            service: service.as_str().to_owned(),
            mode,
            scopes,
            scope,
            key: None,
            hint: None,
            created_at: at.into(),
        }
    }
}
