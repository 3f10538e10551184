//! `GET /_sandbox/health`

use http::StatusCode;
use serde_json::json;

use super::{Reply, json as reply};
use crate::time;
use crate::web::Input;

pub(super) async fn get(input: Input) -> Reply {
    let app = &input.app;
    let addresses = app.addresses.get();
    let body = json!({
        "status": "ok",
        "version": env!("CARGO_PKG_VERSION"),
        "now": time::rfc3339(app.clock.now()),
        "addresses": {
            "http": addresses.map(|at| format!("http://{}", at.http)),
            "smtp": addresses.and_then(|at| at.smtp),
            "dns": addresses.map(|at| at.dns),
        },
    });
    reply(StatusCode::OK, &body)
}
