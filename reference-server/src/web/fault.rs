//! A request meets a fault.

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Response};
use http_body_util::BodyExt as _;

use super::listen::Cut;
use crate::faults::{Drop, Effect};

/// Does what the fault says; `process` is what would happen without it.
pub(super) async fn meet(
    effect: Effect,
    cut: Cut,
    process: impl Future<Output = Response<Body>>,
) -> Response<Body> {
    if !effect.latency.is_zero() {
        tokio::time::sleep(effect.latency).await;
    }
    if effect.drop == Some(Drop::Before) {
        return gone(&cut).await;
    }
    let response = match effect.answer {
        Some(answer) => {
            let mut response = Response::new(Body::from(answer.body));
            *response.status_mut() = answer.status;
            *response.headers_mut() = answer.headers;
            response
        }
        None => process.await,
    };
    match effect.drop {
        Some(Drop::After) => gone(&cut).await,
        Some(Drop::Midway) => half(response, cut).await,
        Some(Drop::Before) | None => response,
    }
}

/// Cuts the connection; nothing comes after that.
async fn gone(cut: &Cut) -> Response<Body> {
    cut.now();
    std::future::pending().await
}

/// The answer announces all of its body and ends in the middle of it.
async fn half(response: Response<Body>, cut: Cut) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    let whole = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::new(),
    };
    // An answer without a body has nothing to be cut in: it gets one.
    let announced = whole.len().max(2);
    parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(announced));
    let first = whole.slice(..whole.len() / 2);
    let pieces = stream::unfold((Some(first), cut), |(first, cut)| async move {
        match first {
            Some(first) => Some((Ok::<_, std::convert::Infallible>(first), (None, cut))),
            None => {
                // What was given so far is written out before the cut is seen.
                cut.now();
                std::future::pending().await
            }
        }
    });
    Response::from_parts(parts, Body::from_stream(pieces))
}
