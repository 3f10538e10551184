//! `GET /_sandbox/health`: the status, version, time and addresses of the server.

use svc_sdk::Service;

use crate::api::framework::{ControlCall, Json};
use crate::control::server::{Health, HealthAddresses, RetryDelays};
use crate::delivery::webhook_worker;
use crate::model::error::ApiError;
use crate::store::crashes;

pub(crate) async fn get(call: ControlCall) -> Result<Json<Health>, ApiError> {
    let app = call.app();
    let addresses = app.addresses.get();
    let set_aside = app.store.read(crashes::count_set_aside).await?;
    let health = Health {
        status: "ok".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        now: app.clock.now().into(),
        addresses: HealthAddresses {
            http: addresses.map(|addresses| format!("http://{}", addresses.http)),
            smtp: addresses.and_then(|addresses| addresses.smtp),
            dns: addresses.map(|addresses| addresses.dns),
        },
        retry_delays_ms: RetryDelays {
            email: webhook_worker::schedule(Service::Email).to_vec(),
            extraction: webhook_worker::schedule(Service::Extraction).to_vec(),
        },
        set_aside,
    };
    Json::of(&health)
}
