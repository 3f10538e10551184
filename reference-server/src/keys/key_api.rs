//! `/_sandbox/keys`: creates and revokes API keys of both services.

use svc_sdk::{Scope, Service};

use crate::http::ControlCall;
use crate::keys::key_rows;
use crate::keys::key_wire::{Key, KeyService, NewKey};
use crate::model::key::scopes_of;
use crate::model::{Failure, Result};

pub(crate) async fn create(call: ControlCall<NewKey>) -> Result<Key> {
    let service = call.body.service.service();
    let scopes = call.body.scopes()?;
    let mode = call.body.mode.unwrap_or_default();
    let created = call.write(move |tx, _, organization| {
        let secret = key_rows::new_secret(service, mode)?;
        key_rows::create(tx, &secret, organization, service, scopes, mode)
    });
    created.await
}

impl NewKey {
    fn scopes(&self) -> Result<Vec<Scope>> {
        match (self.service, &self.scopes, &self.scope) {
            (KeyService::Email, Some(names), None) => scopes_of(Service::Email, names),
            (KeyService::Email, ..) => Err(Failure::field(
                "scopes",
                "is required for the email service, without scope",
            )),
            (KeyService::Extraction, None, Some(name)) => {
                let unknown = |_| Failure::field("scope", "must be full or extract_only");
                scopes_of(Service::Extraction, &[name]).map_err(unknown)
            }
            (KeyService::Extraction, ..) => {
                let message = "is required for the extraction service, without scopes";
                Err(Failure::field("scope", message))
            }
        }
    }
}

pub(crate) async fn revoke(call: ControlCall) -> Result<()> {
    let id = call.id();
    call.write(move |tx, _, organization| key_rows::delete(tx, &id, organization))
        .await
}
