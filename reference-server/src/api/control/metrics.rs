//! `GET /metrics` for Prometheus and `GET /readyz` for readiness probes, with the access
//! control of the control interface.

use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;

use super::{ControlResponse, json_response};
use crate::api::framework::Input;
use crate::model::error::{ApiError, Code};
use crate::store::{deliveries, due, meta};

pub(crate) async fn get(input: Input) -> ControlResponse {
    let counts = input
        .app
        .store
        .read(|connection| Ok((deliveries::count_pending(connection)?, due::count(connection)?)));
    let (pending, due) = counts.await?;
    let mut response = Response::new(Body::from(input.app.metrics.text(pending, due)));
    let format = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, format);
    Ok(response)
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Ready {
    #[schemars(extend("const" = "ready"))]
    status: &'static str,
}

/// The server is ready if it can read the database and is not stopping.
pub(crate) async fn ready(input: Input) -> ControlResponse {
    if input.app.stop.is_requested() {
        return Err(ApiError::new(Code::Unavailable, "the server is stopping"));
    }
    input.app.store.read(meta::check).await?;
    json_response(StatusCode::OK, &Ready { status: "ready" })
}
