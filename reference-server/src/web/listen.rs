//! The accept loop. It is our own because it limits how slow and how large a
//! request's head may be, drops connections on demand, and stops gracefully.

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

use super::wire::{Answered, Answers, Wire};
use super::{answer, routes};
use crate::app::{Active, Shared};
use crate::error::{ApiError, Code};
use crate::id::{self, Prefix};
use crate::switches::ErrorShape;

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Header lines in one request.
const HEADERS: usize = 100;
/// Bytes of a request's head, and of what is read ahead of a body.
const BUFFER: usize = 64 << 10;

/// Listens with room for many who come at once; the usual 128 makes the others
/// wait a second for their next try.
pub(crate) fn bind(addr: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Connections of a server that has just ended do not keep its port; on
    // Windows this would let two servers share it.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(4096)
}

/// Takes connections until the server stops, then lets those under way end.
pub(crate) async fn run(app: Shared, listener: TcpListener, router: Router) {
    let stopped = app.stopped();
    tokio::pin!(stopped);
    let slots = Arc::new(Semaphore::new(app.settings.limits.connections));
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
                    // Out of file descriptors, most likely: some will be free soon.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                (Err(_), _) => break,
            },
        }
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(app.settings.limits.stop_time, all).await.is_err() {
        tracing::warn!("stopping although requests are still under way");
    }
}

/// Cuts the connection that a request came on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cut(Arc<Notify>);

impl Cut {
    pub(crate) fn now(&self) {
        self.0.notify_one();
    }
}

async fn serve(app: Shared, stream: TcpStream, router: Router, _slot: OwnedSemaphorePermit) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let (cut, answers) = (Cut::default(), Answers::default());
    let service = {
        let (app, cut, answers) = (Arc::clone(&app), cut.clone(), answers.clone());
        service_fn(move |request: Request<Incoming>| {
            let (app, router, cut) = (Arc::clone(&app), router.clone(), cut.clone());
            let answering = answers.begin();
            async move {
                let response = respond(app, router, cut, request).await;
                Ok::<Response<Answered>, std::convert::Infallible>(answering.with(response))
            }
        })
    };
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(app.settings.limits.head_time)
        .max_headers(HEADERS)
        .max_buf_size(BUFFER);
    let stream = TokioIo::new(Wire::new(stream, answers));
    let mut connection = builder.serve_connection(stream, service);
    let ended = tokio::select! {
        result = &mut connection => Some(result),
        () = cut.0.notified() => return,
        () = app.stopped() => None,
    };
    let result = match ended {
        Some(result) => result,
        None => {
            Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended early");
        let parts = connection.into_parts();
        // Who has sent nothing since the last answer is not told that it was slow.
        let timed_out = error.is_timeout() && !parts.read_buf.is_empty();
        // hyper has no words of its own for HTTP/2.
        let code = match timed_out {
            true => Some(Code::RequestTimeout),
            false => error.is_parse_version_h2().then_some(Code::InvalidRequest),
        };
        parts.io.into_inner().refuse(&app, code).await;
    }
}

/// HTTP/1.1 asks for one Host header (RFC 9112 §3.2), HTTP/1.0 for none.
fn is_for_one_host(request: &Request<Incoming>) -> bool {
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
    cut: Cut,
    mut request: Request<Incoming>,
) -> Response<Body> {
    let id = id::new(Prefix::Request);
    let started = std::time::Instant::now();
    // A lease waits for others to be done and must not be waited for itself.
    let active = (request.uri().path() != crate::control::LEASE).then(|| Active::request(&app));
    let line = tracing::enabled!(tracing::Level::WARN)
        .then(|| (request.method().clone(), request.uri().path().to_owned()));
    request.extensions_mut().insert(cut);
    let answered = if is_for_one_host(&request) {
        AssertUnwindSafe(router.call(request)).catch_unwind().await
    } else {
        let error = ApiError::new(Code::InvalidRequest, "a request has one Host header");
        Ok(Ok(answer::error(&error, routes::shape(&app, request.uri().path()))))
    };
    let mut response = match answered {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => answer::error(&ApiError::internal("a handler panicked"), ErrorShape::Nested),
    };
    if let Some((method, path)) = line {
        let (status, ms) = (response.status().as_u16(), started.elapsed().as_millis() as u64);
        if response.status().is_server_error() {
            tracing::warn!(%method, path, status, ms, request_id = id, "request");
        } else {
            tracing::debug!(%method, path, status, ms, request_id = id, "request");
        }
    }
    if let Ok(value) = HeaderValue::try_from(id) {
        response.headers_mut().insert(&REQUEST_ID, value);
    }
    drop(active);
    response
}
