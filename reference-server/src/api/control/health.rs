//! `GET /_sandbox/health`: the status, version, time and addresses of the server.

use std::net::SocketAddr;

use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::{ControlResponse, json_response};
use crate::api::framework::Input;
use crate::model::schema;
use crate::model::time;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Health {
    #[schemars(extend("const" = "ok"))]
    status: &'static str,
    version: &'static str,
    #[schemars(with = "schema::Time")]
    now: String,
    addresses: Addresses,
}

#[derive(Serialize, JsonSchema)]
struct Addresses {
    http: Option<String>,
    #[schemars(with = "Option<String>")]
    smtp: Option<SocketAddr>,
    #[schemars(with = "Option<String>")]
    dns: Option<SocketAddr>,
}

pub(crate) async fn get(input: Input) -> ControlResponse {
    let app = &input.app;
    let addresses = app.addresses.get();
    let health = Health {
        status: "ok",
        version: env!("CARGO_PKG_VERSION"),
        now: time::rfc3339(app.clock.now()),
        addresses: Addresses {
            http: addresses.map(|addresses| format!("http://{}", addresses.http)),
            smtp: addresses.and_then(|addresses| addresses.smtp),
            dns: addresses.map(|addresses| addresses.dns),
        },
    };
    json_response(StatusCode::OK, &health)
}
