//! `GET /metrics` for Prometheus and `GET /readyz` for readiness probes, with the access
//! control of the control interface.

use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::control::health::check_ready;
use crate::api::framework::{Input, Json};
use crate::model::error::ApiError;
use crate::store::{jobs, meta};

pub(crate) async fn get(input: Input) -> Result<Response<Body>, ApiError> {
    let (pending, due) = input.app.store.read(jobs::count).await?;
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

/// The server is ready if it listens, can read the database and is not stopping.
pub(crate) async fn ready(input: Input) -> Result<Json<Ready>, ApiError> {
    check_ready(&input.app)?;
    input.app.store.read(meta::check).await?;
    Json::of(&Ready { status: "ready" })
}
