//! `/_sandbox/faults`: adds and clears faults, and applies them to requests
//! (`docs/control-interface.md#faults`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse as _;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt as _, Collected};
use svc_sdk::Operation;

use crate::app::{App, Shared};
use crate::faults::fault_rows;
use crate::faults::fault_wire::{DropPoint, Fault, NewFault};
use crate::http::error::code_of;
use crate::http::listen::Cut;
use crate::http::response::write_error;
use crate::http::{ApiError, ControlCall};
use crate::model::{Failure, Result};

pub(crate) async fn add(call: ControlCall<NewFault>) -> Result<Fault> {
    let new = NewFault {
        organization: None,
        ..call.body
    };
    new.check()?;
    let added = call.input.write(move |tx, app, organization| {
        let app = Arc::clone(app);
        tx.after_commit(move || app.has_faults.store(true, Ordering::SeqCst));
        fault_rows::add(tx, organization, new)
    });
    added.await
}

/// Removes all faults of the organization.
pub(crate) async fn clear(call: ControlCall) -> Result<()> {
    call.write(|tx, _, organization| fault_rows::clear(tx, organization))
        .await
}

/// The fault that affects a request. While the disk is full, there is none.
pub(crate) async fn trigger(
    app: &Shared,
    organization: i64,
    operation: Operation,
) -> Option<(String, NewFault)> {
    if !app.has_faults.load(Ordering::SeqCst) {
        return None;
    }

    let shared = Arc::clone(app);
    let fault = app.store.write_relaxed(move |tx| {
        let found = fault_rows::trigger(tx, organization, operation)?;
        if found.is_none() && !fault_rows::exist(tx.reader())? {
            let shared = Arc::clone(&shared);
            tx.after_commit(move || shared.has_faults.store(false, Ordering::SeqCst));
        }
        Ok(found)
    });
    fault.await.unwrap_or_else(|error| {
        tracing::warn!(message = error.message(), "cannot count the hit of a fault");
        None
    })
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
                    let code = code_of(status);
                    let error = ApiError(Failure::new(code, code.meaning()));
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
