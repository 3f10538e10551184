//! `GET /_sandbox/health`: the status, version, time and addresses of the server.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::app::App;
use crate::api::framework::{Input, Json};
use crate::model::error::{ApiError, Code};
use crate::model::timestamp::Timestamp;

/// The state of a server.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Health {
    /// `ok`
    #[schemars(extend("const" = "ok"))]
    pub status: String,
    /// The version of the server.
    pub version: String,
    /// The time of the server's clock.
    pub now: Timestamp,
    /// The addresses that the server listens on.
    pub addresses: HealthAddresses,
    /// The number of jobs that were set aside since the start, because the server failed while it
    /// processed them. The log names them.
    pub set_aside: u64,
}

/// The addresses that a server listens on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Addresses")]
#[non_exhaustive]
pub struct HealthAddresses {
    /// The base URL of both services.
    pub http: Option<String>,
    /// The SMTP listener, if there is one.
    #[schemars(with = "Option<String>")]
    pub smtp: Option<SocketAddr>,
    /// The DNS server.
    #[schemars(with = "Option<String>")]
    pub dns: Option<SocketAddr>,
}

/// Returns an error unless the server listens on all of its addresses and is not stopping.
pub(crate) fn check_ready(app: &App) -> Result<(), ApiError> {
    let unavailable = |message: &str| Err(ApiError::new(Code::Unavailable, message));
    match (app.addresses.get(), app.stop.is_requested()) {
        (None, _) => unavailable("the server is starting"),
        (_, true) => unavailable("the server is stopping"),
        (Some(_), false) => Ok(()),
    }
}

pub(crate) async fn get(input: Input) -> Result<Json<Health>, ApiError> {
    let app = &input.app;
    check_ready(app)?;
    let addresses = app.addresses.get();
    let health = Health {
        status: "ok".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        now: app.clock.now().into(),
        addresses: HealthAddresses {
            http: addresses.map(|addresses| app.settings.base_url(addresses.http)),
            smtp: addresses.and_then(|addresses| addresses.smtp),
            dns: addresses.map(|addresses| addresses.dns),
        },
        set_aside: app.metrics.count_set_aside(),
    };
    Json::of(&health)
}
