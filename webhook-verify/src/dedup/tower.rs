//! A tower layer that handles each delivery once.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::RETRY_AFTER;
use http::{HeaderValue, Request, Response, StatusCode};
use tower_layer::Layer;
use tower_service::Service;

use super::{Dedup, DedupStore, Once, OnceError, STORE_RETRY_AFTER, retry_after_seconds};
use crate::DeliveryKey;

/// Calls the inner service once for each delivery. It goes inside of
/// [`VerifyLayer`](crate::VerifyLayer), which tells deliveries apart.
///
/// An answer of 2xx completes the delivery; any other answer, and an error,
/// releases it for the sender's next try. What was done before is answered
/// 200, what is in flight 503 with `Retry-After`.
///
/// Not for gRPC, which says 200 of what failed too: there call
/// [`Dedup::once_by_key`] in the handler.
pub struct DedupLayer<Store> {
    dedup: Dedup<Store>,
}

impl<Store: DedupStore> DedupLayer<Store> {
    /// A layer over this store.
    pub fn new(dedup: Dedup<Store>) -> Self {
        Self { dedup }
    }
}

impl<Store> Clone for DedupLayer<Store> {
    fn clone(&self) -> Self {
        Self { dedup: self.dedup.clone() }
    }
}

impl<Store> fmt::Debug for DedupLayer<Store> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DedupLayer").field("dedup", &self.dedup).finish()
    }
}

impl<Store, Inner> Layer<Inner> for DedupLayer<Store> {
    type Service = DedupService<Store, Inner>;

    fn layer(&self, inner: Inner) -> Self::Service {
        DedupService { dedup: self.dedup.clone(), inner }
    }
}

/// The service of [`DedupLayer`].
pub struct DedupService<Store, Inner> {
    dedup: Dedup<Store>,
    inner: Inner,
}

impl<Store, Inner: Clone> Clone for DedupService<Store, Inner> {
    fn clone(&self) -> Self {
        Self { dedup: self.dedup.clone(), inner: self.inner.clone() }
    }
}

impl<Store, Inner> fmt::Debug for DedupService<Store, Inner> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DedupService").field("dedup", &self.dedup).finish_non_exhaustive()
    }
}

impl<Store, Inner, B, R> Service<Request<B>> for DedupService<Store, Inner>
where
    Store: DedupStore,
    Inner: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    Inner::Future: Send,
    Inner::Error: Send,
    B: Send + 'static,
    R: Default + Send,
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
        let dedup = self.dedup.clone();
        Box::pin(async move {
            let Some(key) = request.extensions().get::<DeliveryKey>().cloned() else {
                tracing::error!("`DedupLayer` has to be inside of `VerifyLayer`");
                return Ok(answer(StatusCode::INTERNAL_SERVER_ERROR, None));
            };
            let handle = async {
                match inner.call(request).await {
                    Ok(response) if response.status().is_success() => Ok(response),
                    failed => Err(failed),
                }
            };
            match dedup.once_by_key(&key, handle).await {
                Ok(Once::Handled(response)) => Ok(response),
                Ok(Once::Repeated) => Ok(answer(StatusCode::OK, None)),
                Ok(Once::InFlight { retry_after }) => Ok(answer(
                    StatusCode::SERVICE_UNAVAILABLE,
                    Some(retry_after_seconds(retry_after)),
                )),
                Err(OnceError::Handler(failed)) => failed,
                Err(OnceError::Store(error)) => {
                    super::log_store(&error);
                    Ok(answer(StatusCode::SERVICE_UNAVAILABLE, Some(STORE_RETRY_AFTER)))
                }
            }
        })
    }
}

fn answer<R: Default>(status: StatusCode, retry_after: Option<u64>) -> Response<R> {
    let mut response = Response::new(R::default());
    *response.status_mut() = status;
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
