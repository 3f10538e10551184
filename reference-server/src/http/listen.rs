//! HTTP connections, over hyper: `axum::serve` limits neither the size and the duration of request
//! heads nor the number of connections.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse as _, Redirect};
use futures_util::FutureExt as _;
use http::header::{EXPECT, HOST, TRANSFER_ENCODING};
use http::{HeaderName, HeaderValue, Request, Response, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_io_timeout::TimeoutStream;
use tower_service::Service as _;

use crate::app::Shared;
use crate::http::error::ApiError;
use crate::http::lingering::Lingering;
use crate::http::request_log::RequestId;
use crate::http::response::write_error;
use crate::model::redact::redact;
use crate::model::{Code, Failure, Result, id};
use crate::net::accept;
use crate::settings::Below;

/// A request for a lease counts as a lease, not as a request in progress.
const LEASE_PATH: &str = "/_sandbox/lease";

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum number of headers of a request.
const MAX_HEADERS: usize = 100;
/// Maximum size of the request line and the headers, and of the read-ahead of a body.
const MAX_BUFFER: usize = 64 << 10;

/// Accepts connections until the server stops, then waits for those in progress.
pub(crate) async fn run(app: Shared, listener: TcpListener, router: Router) {
    let most = app.settings.limits.max_connections;
    let connection = |stream, _| serve(Arc::clone(&app), stream, router.clone());
    let mut connections = accept::serve(listener, most, &app.stop, connection).await;
    while connections.join_next().await.is_some() {}
}

/// Serves the requests of one connection. hyper itself responds to a head that it cannot read.
async fn serve(app: Shared, stream: TcpStream, router: Router) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let limits = app.settings.limits;
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limits.write_timeout));
    let service = service_fn(|request: Request<Incoming>| {
        let expects_continue = request.headers().contains_key(EXPECT);
        let request = request.map(|body| Lingering::new(body, expects_continue));
        respond(Arc::clone(&app), router.clone(), request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_BUFFER)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    let mut connection = pin!(connection);
    let result = tokio::select! {
        result = &mut connection => result,
        () = app.stop.requested() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection failed");
    }
}

/// Checks what hyper does not: HTTP/1.1 requires exactly one `Host` header (RFC 9112, section 3.2),
/// HTTP/1.0 none; and no transfer coding but `chunked` is decoded (section 6.1).
fn check_head(request: &Request<Lingering>) -> Result<()> {
    let hosts = request.headers().get_all(HOST).iter().count();
    if hosts != 1 && !(hosts == 0 && request.version() == Version::HTTP_10) {
        let message = "a request must have exactly one Host header";
        return Err(Failure::new(Code::InvalidRequest, message));
    }

    let mut codings = request.headers().get_all(TRANSFER_ENCODING).iter();
    if codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"chunked")) {
        let message = "the only supported transfer coding is `chunked`";
        return Err(Failure::new(Code::InvalidRequest, message));
    }

    Ok(())
}

async fn respond(
    app: Shared,
    mut router: Router,
    mut request: Request<Lingering>,
) -> Result<Response<Body>, Cut> {
    let id = id::new(id::REQUEST);
    let started = std::time::Instant::now();
    let method = request.method().clone();
    let uri = match app.settings.below(request.uri()) {
        Below::Same => request.uri().clone(),
        Below::Stripped(uri) => uri,
        Below::Redirect(target) => return Ok(Redirect::permanent(&target).into_response()),
    };
    request.uri_mut().clone_from(&uri);
    let path = uri.path();
    let _active = (path != LEASE_PATH).then(|| app.activity.request());
    request.extensions_mut().insert(RequestId(id.clone()));
    let response = match check_head(&request) {
        Ok(()) => match AssertUnwindSafe(router.call(request)).catch_unwind().await {
            Ok(Ok(response)) => response,
            Ok(Err(never)) => match never {},
            Err(_) => ApiError(Failure::internal("a handler panicked")).into_response(),
        },
        Err(failure) => ApiError(failure).into_response(),
    };
    let mut response = write_error(&app, path, response);
    if let Some(cut) = response.extensions_mut().remove::<Cut>() {
        return Err(cut);
    }

    let status = response.status().as_u16();
    let ms = started.elapsed().as_millis() as u64;
    if response.status().is_server_error() {
        tracing::warn!(%method, path = redact(path), status, ms, request_id = id, "request");
    } else {
        tracing::debug!(%method, path = redact(path), status, ms, request_id = id, "request");
    }

    if let Ok(value) = HeaderValue::try_from(id) {
        response.headers_mut().insert(&REQUEST_ID, value);
    }
    Ok(response)
}

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
