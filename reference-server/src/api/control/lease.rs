//! `GET /_sandbox/lease`: a response that never ends. While a client keeps it open, a
//! server that runs inside a command does not stop.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};

use super::ControlResponse;
use crate::api::app::ActivityGuard;
use crate::api::framework::Input;
use crate::model::error::{ApiError, Code};

pub(crate) const PATH: &str = "/_sandbox/lease";

/// The interval of the line feeds, which detect a client that is gone.
const HEARTBEAT: Duration = Duration::from_secs(1);

pub(super) async fn get(input: Input) -> ControlResponse {
    let lease = ActivityGuard::lease(&input.app)
        .ok_or_else(|| ApiError::new(Code::Unavailable, "the server is stopping"))?;
    let app = std::sync::Arc::clone(&input.app);
    let heartbeats = stream::unfold((lease, app, true), |(lease, app, first)| async move {
        if !first {
            tokio::select! {
                () = tokio::time::sleep(HEARTBEAT) => {}
                () = app.stopped() => return None,
            }
        }
        Some((Ok::<_, Infallible>(Bytes::from_static(b"\n")), (lease, app, false)))
    });
    let mut response = Response::new(Body::from_stream(heartbeats));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}
