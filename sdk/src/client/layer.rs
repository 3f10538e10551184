//! A tower layer around every attempt.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tower::util::{BoxCloneSyncService, ServiceExt, service_fn};
use tower_layer::Layer;
use tower_service::Service;

use super::BoxFuture;

pub(super) type BoxError = Box<dyn StdError + Send + Sync>;

/// The body of a request or an answer as layers see it.
pub struct Body(reqwest::Body);

impl Body {
    /// A body in memory.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self(reqwest::Body::from(bytes.into()))
    }

    /// Another body wrapped around this or any other.
    pub fn wrap<B>(body: B) -> Self
    where
        B: http_body::Body + Send + Sync + 'static,
        B::Data: Into<Bytes>,
        B::Error: Into<BoxError>,
    {
        Self(reqwest::Body::wrap(body))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.0).poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Body")
    }
}

/// What a layer wraps: one attempt over HTTP, and the layers further in.
#[derive(Clone)]
pub struct AttemptService(BoxCloneSyncService<http::Request<Body>, http::Response<Body>, BoxError>);

impl Service<http::Request<Body>> for AttemptService {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        self.0.call(request)
    }
}

impl fmt::Debug for AttemptService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AttemptService")
    }
}

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
            AttemptService(BoxCloneSyncService::new(service))
        }));
    }

    /// All of them around this client; `None` where there is none.
    pub(crate) fn around(&self, client: &reqwest::Client) -> Option<AttemptService> {
        if self.0.is_empty() {
            return None;
        }
        let client = client.clone();
        let innermost = service_fn(move |request: http::Request<Body>| {
            let client = client.clone();
            async move {
                let request = reqwest::Request::try_from(request.map(|body| body.0))?;
                let answer: http::Response<reqwest::Body> = client.execute(request).await?.into();
                Ok(answer.map(Body))
            }
        });
        let innermost = AttemptService(BoxCloneSyncService::new(innermost));
        Some(self.0.iter().fold(innermost, |inner, layer| layer(inner)))
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Layers").field(&self.0.len()).finish()
    }
}

/// Sends through the layers.
pub(super) async fn execute(
    service: AttemptService,
    request: reqwest::Request,
) -> Result<reqwest::Response, BoxError> {
    let request = http::Request::try_from(request)?.map(Body);
    let answer = service.oneshot(request).await?;
    Ok(answer.map(|body| body.0).into())
}
