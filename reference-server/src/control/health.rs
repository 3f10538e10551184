//! `GET /_sandbox/health`

use std::net::SocketAddr;

use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Reply, json as reply};
use crate::openapi::schema;
use crate::time;
use crate::web::Input;

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

pub(super) async fn get(input: Input) -> Reply {
    let app = &input.app;
    let addresses = app.addresses.get();
    let health = Health {
        status: "ok",
        version: env!("CARGO_PKG_VERSION"),
        now: time::rfc3339(app.clock.now()),
        addresses: Addresses {
            http: addresses.map(|at| format!("http://{}", at.http)),
            smtp: addresses.and_then(|at| at.smtp),
            dns: addresses.map(|at| at.dns),
        },
    };
    reply(StatusCode::OK, &health)
}
