//! The accept loop. The server has its own, instead of `axum::serve`, to limit the size
//! and the duration of request headers, to close connections for injected faults, and to
//! stop gracefully.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures_util::FutureExt as _;
use http::header::HOST;
use http::{HeaderName, HeaderValue, Request, Response, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tower_service::Service as _;

use super::connection::{Connection, ResponseState, TrackedBody};
use super::response;
use crate::api::app::Shared;
use crate::model::compatibility::ErrorFormat;
use crate::model::error::{ApiError, Code};
use crate::model::id::{self, Prefix};
use crate::model::redact::redact;
use crate::store::request_log::RequestId;

/// A request for a lease counts as a lease, not as a request in progress.
pub(crate) const LEASE_PATH: &str = "/_sandbox/lease";

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum number of headers of a request.
const MAX_HEADERS: usize = 100;
/// Maximum size of the request line and the headers, and of the read-ahead of a body.
const MAX_BUFFER: usize = 64 << 10;

/// Listens with a long backlog. With the usual 128, a burst of clients would have to
/// wait a second for their next connection attempt.
pub(crate) fn bind(addr: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Lets a new server use the port of one that has just stopped. On Windows, the option
    // would let two servers share the port.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(4096)
}

/// Accepts connections until the server stops, then waits for those in progress.
pub(crate) async fn run(app: Shared, listener: TcpListener, router: Router) {
    let stopped = app.stop.requested();
    tokio::pin!(stopped);
    let slots = Arc::new(Semaphore::new(app.settings.limits.max_connections));
    let mut connections = JoinSet::new();
    loop {
        let accepted = async {
            let slot = Arc::clone(&slots).acquire_owned().await;
            (slot, listener.accept().await)
        };
        tokio::select! {
            () = &mut stopped => break,
            Some(_) = connections.join_next() => {}
            (slot, accepted) = accepted => match (slot, accepted) {
                (Ok(slot), Ok((stream, _))) => {
                    connections.spawn(serve(Arc::clone(&app), stream, router.clone(), slot));
                }
                (_, Err(error)) => {
                    // Most likely out of file descriptors; some will be free soon.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                (Err(_), _) => break,
            },
        }
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(app.settings.limits.stop_timeout, all).await.is_err() {
        tracing::warn!("stopping while requests are still in progress");
    }
}

/// Closes the connection of a request without a (complete) response.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionAborter(Arc<Notify>);

impl ConnectionAborter {
    pub(crate) fn abort(&self) {
        self.0.notify_one();
    }
}

async fn serve(app: Shared, stream: TcpStream, router: Router, _slot: OwnedSemaphorePermit) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let (aborter, state) = (ConnectionAborter::default(), ResponseState::default());
    let service = {
        let (app, aborter, state) = (Arc::clone(&app), aborter.clone(), state.clone());
        service_fn(move |request: Request<Incoming>| {
            let (app, router, aborter) = (Arc::clone(&app), router.clone(), aborter.clone());
            let guard = state.begin();
            async move {
                let response = respond(app, router, aborter, request).await;
                Ok::<Response<TrackedBody>, std::convert::Infallible>(guard.attach(response))
            }
        })
    };
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(app.settings.limits.header_timeout)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_BUFFER);
    let stream = TokioIo::new(Connection::new(stream, state, app.settings.limits.write_timeout));
    let mut connection = builder.serve_connection(stream, service);
    let ended = tokio::select! {
        result = &mut connection => Some(result),
        () = aborter.0.notified() => return,
        () = app.stop.requested() => None,
    };
    let result = match ended {
        Some(result) => result,
        None => {
            Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection failed");
        let parts = connection.into_parts();
        // An idle client gets no timeout response: it could take it for the response to its
        // next request.
        let timed_out = error.is_timeout() && !parts.read_buf.is_empty();
        parts.io.into_inner().reject(&app, &error, timed_out).await;
    }
}

/// The size of the request line and the headers. The parser limits what it reads ahead, and
/// may let a somewhat larger head pass.
fn head_size(request: &Request<Incoming>) -> usize {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    let headers = request.headers().iter();
    target + headers.map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>()
}

/// HTTP/1.1 requires exactly one `Host` header (RFC 9112, section 3.2), HTTP/1.0 none.
fn has_valid_host(request: &Request<Incoming>) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(_), None) => true,
        (None, _) => request.version() == Version::HTTP_10,
        (Some(_), Some(_)) => false,
    }
}

async fn respond(
    app: Shared,
    mut router: Router,
    aborter: ConnectionAborter,
    mut request: Request<Incoming>,
) -> Response<Body> {
    let id = id::new(Prefix::Request);
    let started = std::time::Instant::now();
    let active = (request.uri().path() != LEASE_PATH).then(|| app.activity.request());
    let line = tracing::enabled!(tracing::Level::WARN)
        .then(|| (request.method().clone(), request.uri().path().to_owned()));
    request.extensions_mut().insert(aborter);
    request.extensions_mut().insert(RequestId(id.clone()));
    let result = if head_size(&request) > MAX_BUFFER {
        let message = "the request line and the headers are larger than 64 KiB";
        let error = ApiError::new(Code::HeadersTooLarge, message);
        Ok(Ok(response::error(&error, app.error_format(request.uri().path()))))
    } else if has_valid_host(&request) {
        AssertUnwindSafe(router.call(request)).catch_unwind().await
    } else {
        let error =
            ApiError::new(Code::InvalidRequest, "a request must have exactly one Host header");
        Ok(Ok(response::error(&error, app.error_format(request.uri().path()))))
    };
    let mut response = match result {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => response::error(&ApiError::internal("a handler panicked"), ErrorFormat::Nested),
    };
    if let Some((method, path)) = line {
        let (status, ms) = (response.status().as_u16(), started.elapsed().as_millis() as u64);
        if response.status().is_server_error() {
            tracing::warn!(%method, path = redact(&path), status, ms, request_id = id, "request");
        } else {
            tracing::debug!(%method, path = redact(&path), status, ms, request_id = id, "request");
        }
    }
    if let Ok(value) = HeaderValue::try_from(id) {
        response.headers_mut().insert(&REQUEST_ID, value);
    }
    drop(active);
    response
}
