//! `GET /_sandbox/lease`: while somebody holds this answer open, a server that
//! runs inside a command keeps running for them.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};

use super::Reply;
use crate::app::Active;
use crate::error::{ApiError, Code};
use crate::web::Input;

pub(crate) const PATH: &str = "/_sandbox/lease";

/// A dead holder is noticed by this much later.
const BEAT: Duration = Duration::from_secs(1);

pub(super) async fn get(input: Input) -> Reply {
    let lease = Active::lease(&input.app)
        .ok_or_else(|| ApiError::new(Code::Unavailable, "the server is stopping"))?;
    let app = std::sync::Arc::clone(&input.app);
    let beats = stream::unfold((lease, app, true), |(lease, app, first)| async move {
        if !first {
            tokio::select! {
                () = tokio::time::sleep(BEAT) => {}
                () = app.stopped() => return None,
            }
        }
        Some((Ok::<_, Infallible>(Bytes::from_static(b"\n")), (lease, app, false)))
    });
    let mut response = Response::new(Body::from_stream(beats));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}
