//! `/_sandbox/keys`: creates and revokes API keys of both services.

use svc_sdk::{Scope, Service};

use crate::api::framework::ControlCall;
use crate::control::keys::{Key, KeyService, NewKey};
use crate::model::error::ApiError;
use crate::model::nearest::did_you_mean;
use crate::model::scope::{EMAIL_SCOPES, scopes_of};
use crate::store::keys;

pub(crate) async fn create(call: ControlCall<NewKey>) -> Result<Key, ApiError> {
    let (service, scopes) = call.body.scopes()?;
    let mode = call.body.mode.unwrap_or_default();
    let created = call.data.write(move |tx, _, organization| {
        let secret = keys::new_secret(service, mode)?;
        keys::create(tx, &secret, organization, service, scopes, mode)
    });
    created.await
}

impl NewKey {
    fn scopes(&self) -> Result<(Service, Vec<Scope>), ApiError> {
        match (self.service, &self.scopes, self.scope.as_deref()) {
            (KeyService::Email, _, Some(_)) => {
                Err(ApiError::field("scope", "is of the extraction service; use scopes"))
            }
            (KeyService::Extraction, Some(_), _) => {
                Err(ApiError::field("scopes", "is of the email service; use scope"))
            }
            (KeyService::Email, None, None) => {
                Err(ApiError::field("scopes", "is required for a key of the email service"))
            }
            (KeyService::Email, Some(names), None) => {
                let scopes = scopes_of(Service::Email, names).map_err(|index| {
                    let known = did_you_mean(&names[index], EMAIL_SCOPES.map(Scope::as_str));
                    let message = format!("is not a scope of the email service{known}");
                    ApiError::field(format!("scopes[{index}]"), message)
                })?;
                Ok((Service::Email, scopes))
            }
            (KeyService::Extraction, None, scope) => {
                let scopes = scopes_of(Service::Extraction, &[scope.unwrap_or_default()]);
                let unknown = |_| ApiError::field("scope", "must be full or extract_only");
                Ok((Service::Extraction, scopes.map_err(unknown)?))
            }
        }
    }
}

pub(crate) async fn revoke(call: ControlCall) -> Result<(), ApiError> {
    let id = call.id();
    call.data.write(move |tx, _, organization| keys::delete(tx, &id, organization)).await
}
