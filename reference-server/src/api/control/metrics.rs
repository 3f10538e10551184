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

pub(super) async fn get(input: Input) -> ControlResponse {
    let counts = input.app.store.read(|connection| {
        let count = |sql| connection.query_row(sql, [], |row| row.get(0));
        let pending: i64 = count("SELECT COUNT(*) FROM delivery WHERE due_at IS NOT NULL")?;
        let due: i64 = count("SELECT COUNT(*) FROM due")?;
        Ok((pending, due))
    });
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
pub(super) async fn ready(input: Input) -> ControlResponse {
    if *input.app.stopping.borrow() {
        return Err(ApiError::new(Code::Unavailable, "the server is stopping"));
    }
    input
        .app
        .store
        .read(|connection| Ok(connection.query_row("SELECT 1", [], |_| Ok(()))?))
        .await?;
    json_response(StatusCode::OK, &Ready { status: "ready" })
}
