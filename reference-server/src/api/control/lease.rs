//! `GET /_sandbox/lease`: a response that never ends. While a client keeps it open, a
//! server that runs inside a command does not stop.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::Response;

use crate::api::framework::ControlCall;
use crate::api::framework::response::content;
use crate::model::error::{ApiError, Code};

/// The interval of the line feeds, which detect a client that is gone.
const HEARTBEAT: Duration = Duration::from_secs(1);

pub(crate) async fn get(call: ControlCall) -> Result<Response<Body>, ApiError> {
    let app = &call.data.app;
    let lease = app
        .activity
        .lease(&app.stop)
        .ok_or_else(|| ApiError::new(Code::Unavailable, "the server is stopping"))?;
    let stop = Arc::clone(&app.stop);
    let heartbeats = stream::unfold((lease, stop, true), |(lease, stop, first)| async move {
        if !first {
            tokio::select! {
                () = tokio::time::sleep(HEARTBEAT) => {}
                () = stop.requested() => return None,
            }
        }
        Some((
            Ok::<_, Infallible>(Bytes::from_static(b"\n")),
            (lease, stop, false),
        ))
    });
    Ok(content("text/plain", Body::from_stream(heartbeats)))
}
