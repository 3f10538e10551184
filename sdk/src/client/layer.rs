//! Tower layers around every attempt.
//!
//! Layers see an `http` request; reqwest sends it. As long as no layer changes the URL, it
//! is not parsed again, and the body of the response is passed on as it is.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Uri;
use http_body::{Frame, SizeHint};
use tower::util::{BoxCloneSyncService, ServiceExt};
use tower_layer::Layer;
use tower_service::Service;
use url::Url;

use super::BoxFuture;
use super::body::{Foreign, Outgoing, Progress};
use super::connections::Connections;
use super::exchange::BoxError;

/// The body of a request or response, as seen by tower layers.
pub struct Body(Inner);

enum Inner {
    /// A request body created by this crate for this URL.
    Outgoing(Outgoing, Arc<RequestUrl>),
    Response(reqwest::Response),
    /// A body created by a layer.
    Other(reqwest::Body),
}

impl Body {
    /// Creates a body from bytes in memory.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self(Inner::Other(reqwest::Body::from(bytes.into())))
    }

    /// Creates a body from any other type of body, such as one that wraps this.
    pub fn wrap<B>(body: B) -> Self
    where
        B: http_body::Body + Send + Sync + 'static,
        B::Data: Into<Bytes>,
        B::Error: Into<BoxError>,
    {
        Self(Inner::Other(reqwest::Body::wrap(body)))
    }

    pub(super) fn outgoing(body: Outgoing, request_url: Arc<RequestUrl>) -> Self {
        Self(Inner::Outgoing(body, request_url))
    }
}

impl From<Body> for reqwest::Body {
    fn from(body: Body) -> Self {
        match body.0 {
            Inner::Outgoing(body, _) => Self::wrap(body),
            Inner::Response(response) => Self::from(response),
            Inner::Other(body) => body,
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Inner::Outgoing(body, _) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Inner::Response(response) => {
                // The future has no state between polls, so a new one can be polled each
                // time.
                let chunk = ready!(pin!(response.chunk()).poll(cx));
                let frame = chunk.map(|chunk| chunk.map(Frame::data)).transpose();
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Inner::Other(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Outgoing(body, _) => body.is_end_stream(),
            Inner::Response(response) => response.content_length() == Some(0),
            Inner::Other(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Outgoing(body, _) => body.size_hint(),
            Inner::Response(response) => {
                response.content_length().map_or_else(SizeHint::default, SizeHint::with_exact)
            }
            Inner::Other(body) => body.size_hint(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Body")
    }
}

/// The URL of a request, in both representations.
pub(crate) struct RequestUrl {
    url: Url,
    pub(super) uri: Uri,
}

impl RequestUrl {
    pub(super) fn new(url: Url) -> Result<Self, http::uri::InvalidUri> {
        Ok(Self { uri: url.as_str().parse()?, url })
    }
}

/// The service that a layer wraps: one HTTP attempt, including the inner layers.
#[derive(Clone)]
pub struct AttemptService(ServiceKind);

#[derive(Clone)]
enum ServiceKind {
    Http {
        connections: Arc<Connections>,
        /// Requests of unknown calls.
        strays: Arc<AtomicU64>,
    },
    Layers(BoxCloneSyncService<http::Request<Body>, http::Response<Body>, BoxError>),
}

impl Service<http::Request<Body>> for AttemptService {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = AttemptFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match &mut self.0 {
            ServiceKind::Http { .. } => Poll::Ready(Ok(())),
            ServiceKind::Layers(layers) => layers.poll_ready(cx),
        }
    }

    fn call(&mut self, request: http::Request<Body>) -> AttemptFuture {
        AttemptFuture(match &mut self.0 {
            ServiceKind::Http { connections, strays } => match connections.current() {
                Ok(mut client) => match to_reqwest(request, strays) {
                    Ok(request) => AttemptState::Http(client.call(request)),
                    Err(error) => AttemptState::Failed(Some(error.into())),
                },
                Err(error) => AttemptState::Failed(Some(error.into())),
            },
            ServiceKind::Layers(layers) => AttemptState::Layers(layers.call(request)),
        })
    }
}

impl fmt::Debug for AttemptService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AttemptService")
    }
}

/// The future returned by [`AttemptService`].
#[must_use = "futures do nothing unless polled"]
pub struct AttemptFuture(AttemptState);

enum AttemptState {
    Http(<reqwest::Client as Service<reqwest::Request>>::Future),
    Layers(BoxFuture<Result<http::Response<Body>, BoxError>>),
    Failed(Option<BoxError>),
}

impl Future for AttemptFuture {
    type Output = Result<http::Response<Body>, BoxError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            AttemptState::Http(response) => {
                let response = ready!(Pin::new(response).poll(cx))?;
                Poll::Ready(Ok(to_http(response)))
            }
            AttemptState::Layers(layers) => layers.as_mut().poll(cx),
            AttemptState::Failed(error) => match error.take() {
                Some(error) => Poll::Ready(Err(error)),
                None => Poll::Pending,
            },
        }
    }
}

impl fmt::Debug for AttemptFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AttemptFuture")
    }
}

/// Converts the request as the innermost layer passed it on. Its body, whoever created it,
/// reports to the progress of the attempt: what is handed to reqwest decides whether the
/// request may have been processed.
fn to_reqwest(
    request: http::Request<Body>,
    strays: &AtomicU64,
) -> Result<reqwest::Request, reqwest::Error> {
    let (mut parts, body) = request.into_parts();
    let progress = match parts.extensions.remove::<Tracker>() {
        Some(Tracker(progress)) => progress,
        None => {
            // A layer created a request of its own.
            strays.fetch_add(1, Ordering::AcqRel);
            Arc::default()
        }
    };
    let (body, request_url) = match body.0 {
        Inner::Outgoing(mut body, request_url) => {
            body.report_to(progress);
            (reqwest::Body::wrap(body), Some(request_url))
        }
        other => {
            let body = Body(other).into();
            (reqwest::Body::wrap(Foreign { body, progress }), None)
        }
    };
    let url = match request_url {
        Some(request_url) if request_url.uri == parts.uri => request_url.url.clone(),
        // A layer changed the URL or the body.
        _ => return http::Request::from_parts(parts, body).try_into(),
    };
    let mut request = reqwest::Request::new(parts.method, url);
    *request.headers_mut() = parts.headers;
    *request.version_mut() = parts.version;
    *request.body_mut() = Some(body);
    Ok(request)
}

fn to_http(mut response: reqwest::Response) -> http::Response<Body> {
    let status = response.status();
    let version = response.version();
    let headers = std::mem::take(response.headers_mut());
    let extensions = std::mem::take(response.extensions_mut());
    let mut converted = http::Response::new(Body(Inner::Response(response)));
    *converted.status_mut() = status;
    *converted.version_mut() = version;
    *converted.headers_mut() = headers;
    *converted.extensions_mut() = extensions;
    converted
}

/// The layers around the client's connections.
#[derive(Clone)]
pub(crate) struct Layered {
    pub(super) service: AttemptService,
    strays: Arc<AtomicU64>,
}

impl Layered {
    /// The number of requests so far that cannot be attributed to a call, because a layer
    /// created them. If it grows during an attempt, they may be that attempt's.
    pub(super) fn strays(&self) -> u64 {
        self.strays.load(Ordering::Acquire)
    }
}

/// A request's extension: the progress of its attempt.
#[derive(Clone)]
pub(super) struct Tracker(pub(super) Arc<Progress>);

/// The layers, innermost first.
#[derive(Clone, Default)]
pub(crate) struct Layers(Vec<AddLayer>);

type AddLayer = Arc<dyn Fn(AttemptService) -> AttemptService + Send + Sync>;

impl Layers {
    pub(crate) fn push<L, S>(&mut self, layer: L)
    where
        L: Layer<AttemptService, Service = S> + Send + Sync + 'static,
        S: Service<http::Request<Body>, Response = http::Response<Body>>,
        S: Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
    {
        self.0.push(Arc::new(move |inner| {
            let service = layer.layer(inner).map_err(Into::into);
            AttemptService(ServiceKind::Layers(BoxCloneSyncService::new(service)))
        }));
    }

    /// Wraps all layers around these connections; `None` if there are no layers.
    pub(crate) fn around(&self, connections: &Arc<Connections>) -> Option<Layered> {
        if self.0.is_empty() {
            return None;
        }
        let strays = Arc::new(AtomicU64::new(0));
        let connections = Arc::clone(connections);
        let innermost = ServiceKind::Http { connections, strays: Arc::clone(&strays) };
        let service = self.0.iter().fold(AttemptService(innermost), |inner, layer| layer(inner));
        Some(Layered { service, strays })
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Layers").field(&self.0.len()).finish()
    }
}
