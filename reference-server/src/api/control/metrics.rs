//! `GET /metrics` for Prometheus and `GET /readyz` for readiness probes, with the access
//! control of the control interface.

use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};

use crate::api::control::health::check_ready;
use crate::api::framework::ControlCall;
use crate::control::server::Ready;
use crate::model::error::ApiError;
use crate::store::{jobs, meta};

pub(crate) async fn get(call: ControlCall) -> Result<Response<Body>, ApiError> {
    let app = &call.data.app;
    let (pending, due) = app.store.read(jobs::count).await?;
    let mut response = Response::new(Body::from(app.metrics.text(pending, due)));
    let format = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, format);
    Ok(response)
}

/// The server is ready if it listens, can read the database and is not stopping.
pub(crate) async fn ready(call: ControlCall) -> Result<Ready, ApiError> {
    check_ready(&call.data.app)?;
    call.data.app.store.read(meta::check).await?;
    Ok(Ready { status: "ready".to_owned() })
}
