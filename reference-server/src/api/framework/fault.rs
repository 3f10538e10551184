//! Applies an injected fault to a request.

use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse as _;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt as _, Collected};

use super::response::write_error;
use crate::app::App;
use crate::control::faults::{DropPoint, NewFault};
use crate::model::error::{ApiError, Code};

/// A fault closes the connection of the request. hyper does so for an error of the service, and for
/// one of the response's body.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("a fault closes the connection")]
pub(crate) struct Cut;

impl Cut {
    /// Stands for no response.
    pub(crate) fn response() -> Response<Body> {
        let mut response = Response::default();
        response.extensions_mut().insert(Self);
        response
    }
}

/// Applies a fault to a request for this path. `process` handles the request normally.
pub(crate) async fn apply(
    app: &App,
    path: &str,
    fault: NewFault,
    process: impl Future<Output = Response<Body>>,
) -> Result<Response<Body>, Cut> {
    tokio::time::sleep(fault.delay().unwrap_or_default()).await;
    if fault.drop == Some(DropPoint::Before) {
        return Err(Cut);
    }
    let response = match fault
        .status
        .and_then(|status| StatusCode::from_u16(status).ok())
    {
        Some(status) => {
            // A client does not read a body after this status (RFC 9110 §15.3.6).
            let has_body = status != StatusCode::RESET_CONTENT;
            let mut response = match fault.content() {
                Some(body) if has_body => Response::new(Body::from(body)),
                None if status.as_u16() >= 400 => {
                    let code = Code::of(status);
                    let error = ApiError::new(code, code.meaning());
                    // Before the headers of the fault, which win.
                    write_error(app, path, error.into_response())
                }
                _ => Response::default(),
            };
            *response.status_mut() = status;
            // They were checked when the fault was added.
            response
                .headers_mut()
                .extend(fault.header_map().unwrap_or_default());
            response
        }
        None => process.await,
    };
    match fault.drop {
        Some(DropPoint::After) => Err(Cut),
        Some(DropPoint::Midway) => Ok(cut_midway(write_error(app, path, response)).await),
        Some(DropPoint::Before) | None => Ok(response),
    }
}

/// Announces the length of the whole body, sends half of it, then closes the connection.
async fn cut_midway(response: Response<Body>) -> Response<Body> {
    /// hyper writes what it has before it waits for more.
    const WRITE: Duration = Duration::from_millis(50);
    let (mut parts, body) = response.into_parts();
    let bytes = body
        .collect()
        .await
        .map_or_else(|_| Bytes::new(), Collected::to_bytes);
    // If the response has no body, announce one that never arrives.
    parts
        .headers
        .insert(CONTENT_LENGTH, HeaderValue::from(bytes.len().max(2)));
    let half = stream::iter([Ok(bytes.slice(..bytes.len() / 2))]);
    let end = stream::once(async {
        tokio::time::sleep(WRITE).await;
        Err(Cut)
    });
    Response::from_parts(parts, Body::from_stream(half.chain(end)))
}
