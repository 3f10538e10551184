//! `GET /_sandbox/health`: the status, version, time and addresses of the server.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::framework::{Input, Json};
use crate::model::error::ApiError;
use crate::model::schema;
use crate::model::time;
use crate::store::crashes;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Health {
    #[schemars(extend("const" = "ok"))]
    status: &'static str,
    version: &'static str,
    #[schemars(with = "schema::Time")]
    now: String,
    addresses: Addresses,
    /// The number of jobs that were set aside, because the server failed or ended several times
    /// while it processed them. The log names them.
    set_aside: i64,
}

#[derive(Serialize, JsonSchema)]
struct Addresses {
    http: Option<String>,
    #[schemars(with = "Option<String>")]
    smtp: Option<SocketAddr>,
    #[schemars(with = "Option<String>")]
    dns: Option<SocketAddr>,
}

pub(crate) async fn get(input: Input) -> Result<Json<Health>, ApiError> {
    let app = &input.app;
    let addresses = app.addresses.get();
    let set_aside = app.store.read(crashes::count_set_aside).await?;
    let health = Health {
        status: "ok",
        version: env!("CARGO_PKG_VERSION"),
        now: time::rfc3339(app.clock.now()),
        addresses: Addresses {
            http: addresses.map(|addresses| format!("http://{}", addresses.http)),
            smtp: addresses.and_then(|addresses| addresses.smtp),
            dns: addresses.map(|addresses| addresses.dns),
        },
        set_aside,
    };
    Json::of(&health)
}
