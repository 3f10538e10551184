//! Applies an injected fault to a request.

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::BodyExt as _;

use super::listen::ConnectionAborter;
use crate::store::faults::{DropPoint, Effect};

/// Applies the effect. `process` handles the request normally.
pub(crate) async fn apply(
    effect: Effect,
    aborter: ConnectionAborter,
    process: impl Future<Output = Response<Body>>,
) -> Response<Body> {
    if !effect.latency.is_zero() {
        tokio::time::sleep(effect.latency).await;
    }
    if effect.drop == Some(DropPoint::Before) {
        return abort(&aborter).await;
    }
    let response = match effect.response {
        Some(injected) => {
            // A client does not read a body after this status (RFC 9110 §15.3.6).
            let has_body = injected.status != StatusCode::RESET_CONTENT;
            let body = if has_body { injected.body } else { Vec::new() };
            let mut response = Response::new(Body::from(body));
            *response.status_mut() = injected.status;
            *response.headers_mut() = injected.headers;
            response
        }
        None => process.await,
    };
    match effect.drop {
        Some(DropPoint::After) => abort(&aborter).await,
        Some(DropPoint::Midway) => abort_midway(response, aborter).await,
        Some(DropPoint::Before) | None => response,
    }
}

/// Closes the connection and never returns a response.
async fn abort(aborter: &ConnectionAborter) -> Response<Body> {
    aborter.abort();
    std::future::pending().await
}

/// Announces the length of the whole body, sends half of it, then closes the connection.
async fn abort_midway(response: Response<Body>, aborter: ConnectionAborter) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    let bytes = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::new(),
    };
    // If the response has no body, announce one that never arrives.
    let announced = bytes.len().max(2);
    parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(announced));
    let half = bytes.slice(..bytes.len() / 2);
    let chunks = stream::unfold((Some(half), aborter), |(half, aborter)| async move {
        match half {
            Some(half) => Some((Ok::<_, std::convert::Infallible>(half), (None, aborter))),
            None => {
                // hyper writes the first chunk before the connection task sees the abort.
                aborter.abort();
                std::future::pending().await
            }
        }
    });
    Response::from_parts(parts, Body::from_stream(chunks))
}
