//! A tower layer that passes each delivery to the inner service once.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::RETRY_AFTER;
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
use tower_layer::Layer;
use tower_service::Service;

use super::{Dedup, DedupError, Outcome, STORE_RETRY_AFTER, retry_after_seconds};
use crate::DeliveryKey;

/// A tower layer that calls the inner service once for each delivery.
///
/// It must be inside [`VerifyLayer`](crate::VerifyLayer), which identifies the
/// delivery:
///
/// ```
/// use tower::ServiceBuilder;
/// use webhook_verify::dedup::{Dedup, DedupLayer, MemoryStore};
/// use webhook_verify::{Mail, Receiver, VerifyLayer};
///
/// # fn layers(receiver: Receiver<Mail>) {
/// let layers = ServiceBuilder::new()
///     .layer(VerifyLayer::new(receiver))
///     .layer(DedupLayer::new(Dedup::new(MemoryStore::new())));
/// # }
/// ```
///
/// A 2xx response completes the delivery. Any other response, or an error of the
/// inner service, releases it for the sender's next attempt. The layer responds
/// 200 to a duplicate, and 503 with `Retry-After` to a delivery that is in flight
/// or if the store fails.
///
/// The inner service runs in a task of its own: it finishes even if the sender
/// disconnects ([`Dedup::run_once`]).
///
/// Do not use it for gRPC, where failures have the HTTP status 200 too. Call
/// [`Dedup::run_once`] in the handler instead.
#[derive(Clone)]
pub struct DedupLayer {
    dedup: Dedup,
    scope: Option<ScopeOf>,
}

type ScopeOf = Arc<dyn Fn(&Parts) -> String + Send + Sync>;

impl DedupLayer {
    /// Creates a layer that de-duplicates with `dedup`.
    pub fn new(dedup: Dedup) -> Self {
        Self { dedup, scope: None }
    }

    /// Sets a function that returns the [scope](Dedup::scope) of each request, such as
    /// its tenant. Default: the scope of the `Dedup`.
    #[must_use]
    pub fn scope_by(mut self, scope: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        self.scope = Some(Arc::new(scope));
        self
    }
}

impl fmt::Debug for DedupLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DedupLayer").field("dedup", &self.dedup).finish_non_exhaustive()
    }
}

impl<Inner> Layer<Inner> for DedupLayer {
    type Service = DedupService<Inner>;

    fn layer(&self, inner: Inner) -> Self::Service {
        DedupService { layer: self.clone(), inner }
    }
}

/// The service that [`DedupLayer`] creates.
#[derive(Clone)]
pub struct DedupService<Inner> {
    layer: DedupLayer,
    inner: Inner,
}

impl<Inner> fmt::Debug for DedupService<Inner> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DedupService").field("layer", &self.layer).finish_non_exhaustive()
    }
}

impl<Inner, B, R> Service<Request<B>> for DedupService<Inner>
where
    Inner: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    Inner::Future: Send,
    Inner::Error: Send + 'static,
    B: Send + 'static,
    R: Default + Send + 'static,
{
    type Response = Response<R>;
    type Error = Inner::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let layer = self.layer.clone();
        Box::pin(async move {
            let Some(key) = request.extensions().get::<DeliveryKey>().cloned() else {
                tracing::error!("`DedupLayer` must be inside `VerifyLayer`");
                return Ok(empty_response(StatusCode::INTERNAL_SERVER_ERROR, None));
            };
            let (parts, body) = request.into_parts();
            let dedup = match layer.scope {
                Some(scope) => layer.dedup.scope(scope(&parts)),
                None => layer.dedup,
            };
            let request = Request::from_parts(parts, body);
            let handle = move |_| async move {
                match inner.call(request).await {
                    Ok(response) if response.status().is_success() => Ok(response),
                    failed => Err(failed),
                }
            };
            match dedup.run_once(key, handle).await {
                Ok(Outcome::Handled(response)) => Ok(response),
                Ok(Outcome::Duplicate) => Ok(empty_response(StatusCode::OK, None)),
                Ok(Outcome::InFlight { retry_after }) => Ok(empty_response(
                    StatusCode::SERVICE_UNAVAILABLE,
                    Some(retry_after_seconds(retry_after)),
                )),
                Err(DedupError::Handler(failed)) => failed,
                Err(DedupError::Store(error)) => {
                    super::log_store_error(&error);
                    Ok(empty_response(StatusCode::SERVICE_UNAVAILABLE, Some(STORE_RETRY_AFTER)))
                }
            }
        })
    }
}

fn empty_response<R: Default>(status: StatusCode, retry_after: Option<u64>) -> Response<R> {
    let mut response = Response::new(R::default());
    *response.status_mut() = status;
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
