//! A tower layer around every attempt.
//!
//! What goes through the layers is an `http` request; what sends it is reqwest.
//! As long as no layer changes the address, nothing is parsed again on the way,
//! and an answer's body is handed on as it is.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Uri;
use http_body::{Frame, SizeHint};
use tower::util::{BoxCloneSyncService, ServiceExt};
use tower_layer::Layer;
use tower_service::Service;
use url::Url;

use super::BoxFuture;
use super::body::Outgoing;
use super::wire::BoxError;

/// The body of a request or an answer as layers see it.
pub struct Body(Inner);

enum Inner {
    /// A request's, made by this crate for this address.
    Outgoing(Outgoing, Arc<Address>),
    Answer(reqwest::Response),
    /// A layer's.
    Other(reqwest::Body),
}

impl Body {
    /// A body in memory.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self(Inner::Other(reqwest::Body::from(bytes.into())))
    }

    /// Another body wrapped around this or any other.
    pub fn wrap<B>(body: B) -> Self
    where
        B: http_body::Body + Send + Sync + 'static,
        B::Data: Into<Bytes>,
        B::Error: Into<BoxError>,
    {
        Self(Inner::Other(reqwest::Body::wrap(body)))
    }

    pub(super) fn outgoing(body: Outgoing, address: Arc<Address>) -> Self {
        Self(Inner::Outgoing(body, address))
    }
}

impl From<Body> for reqwest::Body {
    fn from(body: Body) -> Self {
        match body.0 {
            Inner::Outgoing(body, _) => Self::wrap(body),
            Inner::Answer(answer) => Self::from(answer),
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
            Inner::Answer(answer) => {
                // It keeps nothing between two polls, so each can be the first.
                let chunk = ready!(pin!(answer.chunk()).poll(cx));
                let frame = chunk.map(|chunk| chunk.map(Frame::data)).transpose();
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Inner::Other(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Outgoing(body, _) => body.is_end_stream(),
            Inner::Answer(answer) => answer.content_length() == Some(0),
            Inner::Other(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Outgoing(body, _) => body.size_hint(),
            Inner::Answer(answer) => {
                answer.content_length().map_or_else(SizeHint::default, SizeHint::with_exact)
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

/// Where a request goes, in both forms that are needed.
pub(crate) struct Address {
    url: Url,
    pub(super) uri: Uri,
}

impl Address {
    pub(super) fn new(url: Url) -> Result<Self, http::uri::InvalidUri> {
        Ok(Self { uri: url.as_str().parse()?, url })
    }
}

/// What a layer wraps: one attempt over HTTP, and the layers further in.
#[derive(Clone)]
pub struct AttemptService(Wrapped);

#[derive(Clone)]
enum Wrapped {
    Http {
        client: reqwest::Client,
        /// It may follow redirects.
        follows_redirects: bool,
    },
    Layers(BoxCloneSyncService<http::Request<Body>, http::Response<Body>, BoxError>),
}

impl Service<http::Request<Body>> for AttemptService {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = AttemptFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match &mut self.0 {
            Wrapped::Http { .. } => Poll::Ready(Ok(())),
            Wrapped::Layers(layers) => layers.poll_ready(cx),
        }
    }

    fn call(&mut self, request: http::Request<Body>) -> AttemptFuture {
        AttemptFuture(match &mut self.0 {
            Wrapped::Http { client, follows_redirects } => match to_reqwest(request) {
                Ok(request) => {
                    let asked = follows_redirects.then(|| Box::new(request.url().clone()));
                    Running::Http { answer: client.call(request), asked }
                }
                Err(error) => Running::Failed(Some(error.into())),
            },
            Wrapped::Layers(layers) => Running::Layers(layers.call(request)),
        })
    }
}

impl fmt::Debug for AttemptService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AttemptService")
    }
}

/// An attempt under way.
#[must_use = "futures do nothing unless polled"]
pub struct AttemptFuture(Running);

enum Running {
    Http { answer: <reqwest::Client as Service<reqwest::Request>>::Future, asked: Option<Box<Url>> },
    Layers(BoxFuture<Result<http::Response<Body>, BoxError>>),
    Failed(Option<BoxError>),
}

impl Future for AttemptFuture {
    type Output = Result<http::Response<Body>, BoxError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Running::Http { answer, asked } => {
                let answer = ready!(Pin::new(answer).poll(cx))?;
                Poll::Ready(Ok(to_http(answer, asked.as_deref())))
            }
            Running::Layers(layers) => layers.as_mut().poll(cx),
            Running::Failed(error) => match error.take() {
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

fn to_reqwest(request: http::Request<Body>) -> Result<reqwest::Request, reqwest::Error> {
    let (parts, body) = request.into_parts();
    let url = match &body.0 {
        Inner::Outgoing(_, address) if address.uri == parts.uri => address.url.clone(),
        // A layer sends it elsewhere, or has its own body.
        _ => return http::Request::from_parts(parts, body).try_into(),
    };
    let mut request = reqwest::Request::new(parts.method, url);
    *request.headers_mut() = parts.headers;
    *request.version_mut() = parts.version;
    *request.body_mut() = Some(body.into());
    Ok(request)
}

fn to_http(mut answer: reqwest::Response, asked: Option<&Url>) -> http::Response<Body> {
    let status = answer.status();
    let version = answer.version();
    let headers = std::mem::take(answer.headers_mut());
    let mut extensions = std::mem::take(answer.extensions_mut());
    if asked.is_some_and(|asked| asked != answer.url()) {
        extensions.insert(Redirected);
    }
    let mut response = http::Response::new(Body(Inner::Answer(answer)));
    *response.status_mut() = status;
    *response.version_mut() = version;
    *response.headers_mut() = headers;
    *response.extensions_mut() = extensions;
    response
}

/// Another address than the one asked answered.
#[derive(Clone, Copy)]
pub(super) struct Redirected;

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
            AttemptService(Wrapped::Layers(BoxCloneSyncService::new(service)))
        }));
    }

    /// All of them around this client; `None` where there is none.
    pub(crate) fn around(&self, client: &reqwest::Client, own: bool) -> Option<AttemptService> {
        if self.0.is_empty() {
            return None;
        }
        let innermost = Wrapped::Http { client: client.clone(), follows_redirects: !own };
        Some(self.0.iter().fold(AttemptService(innermost), |inner, layer| layer(inner)))
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Layers").field(&self.0.len()).finish()
    }
}
