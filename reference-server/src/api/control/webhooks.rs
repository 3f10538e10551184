//! `/_sandbox/webhooks`: the webhooks of both services.

use svc_sdk::Service;

use crate::api::framework::ControlCall;
use crate::api::framework::route::Routes;
use crate::control::webhooks::{self as control, Webhook};
use crate::model::error::ApiError;
use crate::store::webhooks;

pub(crate) fn routes(r: &mut Routes) {
    r.tag("Sandbox webhooks");
    r.control(control::LIST, list);
}

pub(crate) async fn list(call: ControlCall) -> Result<Vec<Webhook>, ApiError> {
    let read = call.data.read(|reader, organization| {
        let mut all = webhooks::list(reader, organization, Service::Email)?;
        all.extend(webhooks::list(reader, organization, Service::Extraction)?);
        Ok(all)
    });
    Ok(read.await?.into_iter().map(Webhook::from).collect())
}

impl From<webhooks::Webhook> for Webhook {
    fn from(webhook: webhooks::Webhook) -> Self {
        Self {
            id: webhook.id,
            service: webhook.service.to_string(),
            url: webhook.url,
            events: webhook.events.iter().map(|event| event.as_str().to_owned()).collect(),
            active: webhook.active,
            secret: webhook.secret,
            created_at: webhook.created_at.into(),
            updated_at: webhook.updated_at.into(),
        }
    }
}
