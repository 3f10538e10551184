//! `GET /_sandbox/health`: the status, version, time and addresses of the server; and `GET /readyz`,
//! with the same access control.

use std::sync::atomic::Ordering;

use svc_sdk::Service;

use crate::api::framework::ControlCall;
use crate::app::App;
use crate::control::server::{Health, HealthAddresses, Ready, RetryDelays};
use crate::delivery::webhook;
use crate::model::error::{ApiError, Code};
use crate::store::meta;

/// Returns an error if the server is stopping. It listens on all of its addresses before it serves.
fn check_ready(app: &App) -> Result<(), ApiError> {
    match app.stop.is_requested() {
        true => Err(ApiError::new(Code::Unavailable, "the server is stopping")),
        false => Ok(()),
    }
}

pub(crate) async fn get(call: ControlCall) -> Result<Health, ApiError> {
    let app = &call.data.app;
    check_ready(app)?;
    Ok(Health {
        status: "ok".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        now: app.clock.now().into(),
        addresses: HealthAddresses {
            http: Some(app.settings.base_url(app.addresses.http)),
            smtp: app.addresses.smtp,
            dns: Some(app.addresses.dns),
        },
        dialect: app.settings.dialect.clone(),
        retry_delays_ms: RetryDelays {
            email: webhook::schedule(Service::Email).to_vec(),
            extraction: webhook::schedule(Service::Extraction).to_vec(),
        },
        set_aside: app.set_aside.load(Ordering::Relaxed),
    })
}

/// The server is ready if it listens, can read the database and is not stopping.
pub(crate) async fn ready(call: ControlCall) -> Result<Ready, ApiError> {
    check_ready(&call.data.app)?;
    call.data.app.store.read(meta::check).await?;
    Ok(Ready {
        status: "ready".to_owned(),
    })
}
