//! `/_sandbox/keys`: creates, lists and revokes API keys of both services.

use svc_sdk::{Scope, Service};

use crate::api::framework::route::{ID, Routes};
use crate::api::framework::{ControlCall, Json, NoContent};
use crate::control::keys::{self as control, Key, NewKey};
use crate::model::error::{ApiError, Code, Problems};
use crate::model::scope::EMAIL_SCOPES;
use crate::model::time::Millis;
use crate::store::keys::{self, Mode};

pub(crate) fn routes(r: &mut Routes) {
    r.tag("Sandbox keys");
    r.control(control::CREATE, create).errors(&[Code::Conflict]).links(ID, "/_sandbox/keys/{");
    r.control(control::LIST, list);
    r.control(control::REVOKE, revoke);
}

pub(crate) async fn create(call: ControlCall<NewKey>) -> Result<Json<Key, 201>, ApiError> {
    let organization = call.organization;
    let (service, scopes, mode) = call.body.resolve()?;
    let view = call.app().store.write(move |tx| {
        let secret = keys::new_secret(service, mode)?;
        let key = keys::create(tx, &secret, organization, service, scopes, mode)?;
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

pub(crate) async fn list(call: ControlCall) -> Result<Json<Vec<Key>>, ApiError> {
    let organization = call.organization;
    let all = call.app().store.read(move |reader| keys::list(reader, organization)).await?;
    let views = all.into_iter().map(|key| {
        let view = Key::new(key.id, key.service, &key.scopes, key.mode, key.created_at);
        Key { hint: Some(key.hint), ..view }
    });
    Json::of(&views.collect::<Vec<_>>())
}

pub(crate) async fn revoke(call: ControlCall) -> Result<NoContent, ApiError> {
    let (organization, id) = (call.organization, call.id());
    let deleted = call.app().store.write(move |tx| keys::delete(tx, &id, organization));
    if deleted.await? { Ok(NoContent) } else { Err(ApiError::not_found("key")) }
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
