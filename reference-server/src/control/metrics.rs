//! `GET /metrics` for Prometheus and `GET /readyz` for whoever waits for the
//! server; guarded like the control interface.

use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Reply, json as reply};
use crate::error::{ApiError, Code};
use crate::web::Input;

pub(super) async fn get(input: Input) -> Reply {
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

/// Ready while the database answers and the server is not stopping.
pub(super) async fn ready(input: Input) -> Reply {
    if *input.app.stopping.borrow() {
        return Err(ApiError::new(Code::Unavailable, "the server is stopping"));
    }
    input
        .app
        .store
        .read(|connection| Ok(connection.query_row("SELECT 1", [], |_| Ok(()))?))
        .await?;
    reply(StatusCode::OK, &Ready { status: "ready" })
}
