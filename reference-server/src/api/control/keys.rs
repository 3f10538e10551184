//! `/_sandbox/keys`: creates and revokes API keys of both services.

use svc_sdk::{Scope, Service};

use crate::api::framework::ControlCall;
use crate::control::keys::{Key, KeyService, NewKey};
use crate::model::error::ApiError;
use crate::model::scope::scopes_of;
use crate::store::keys;

pub(crate) async fn create(call: ControlCall<NewKey>) -> Result<Key, ApiError> {
    let (service, scopes) = (call.body.service.service(), call.body.scopes()?);
    let mode = call.body.mode.unwrap_or_default();
    let created = call.data.write(move |tx, _, organization| {
        let secret = keys::new_secret(service, mode)?;
        keys::create(tx, &secret, organization, service, scopes, mode)
    });
    created.await
}

impl NewKey {
    fn scopes(&self) -> Result<Vec<Scope>, ApiError> {
        match (self.service, &self.scopes, &self.scope) {
            (KeyService::Email, Some(names), None) => scopes_of(Service::Email, names),
            (KeyService::Email, ..) => Err(ApiError::field(
                "scopes",
                "is required for the email service, without scope",
            )),
            (KeyService::Extraction, None, Some(name)) => {
                let unknown = |_| ApiError::field("scope", "must be full or extract_only");
                scopes_of(Service::Extraction, &[name]).map_err(unknown)
            }
            (KeyService::Extraction, ..) => {
                let message = "is required for the extraction service, without scopes";
                Err(ApiError::field("scope", message))
            }
        }
    }
}

pub(crate) async fn revoke(call: ControlCall) -> Result<(), ApiError> {
    let id = call.id();
    call.data
        .write(move |tx, _, organization| keys::delete(tx, &id, organization))
        .await
}
