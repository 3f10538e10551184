//! A tower layer that verifies requests, for hyper, axum, tonic and other
//! frameworks built on `tower::Service`.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::Full;
use tower_layer::Layer;
use tower_service::Service;

use crate::{Receiver, Rejection, Scheme};

/// A tower layer that passes only verified deliveries to the inner service.
///
/// The inner service gets the request with the body as [`Full<Bytes>`](Full). The
/// request's extensions contain the [`Delivery`](crate::Delivery) and its
/// [`DeliveryKey`](crate::DeliveryKey). The layer responds to every other request
/// with [`Rejection::status`] and an empty body. Trailers of the request are
/// dropped, because they are not signed. The response is not changed.
///
/// ```
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use tower::ServiceBuilder;
/// use webhook_verify::{ExtractionDelivery, ExtractionVerifier, Receiver, Secret, VerifyLayer};
///
/// # fn main() -> Result<(), webhook_verify::SecretError> {
/// let receiver = Receiver::new(ExtractionVerifier::new(Secret::new("whsec_3f1c")?));
/// let service = ServiceBuilder::new()
///     .layer(VerifyLayer::new(receiver))
///     .service_fn(|request: Request<Full<Bytes>>| async move {
///         let delivery = request.extensions().get::<ExtractionDelivery>();
///         assert!(delivery.is_some(), "the layer adds the delivery");
///         Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default()))
///     });
/// # let _: webhook_verify::VerifyService<webhook_verify::Extraction, _> = service;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct VerifyLayer<S: Scheme> {
    receiver: Receiver<S>,
    parse_envelope: bool,
}

impl<S: Scheme> VerifyLayer<S> {
    /// Creates a layer that passes the deliveries that `receiver` accepts.
    pub fn new(receiver: impl Into<Receiver<S>>) -> Self {
        Self { receiver: receiver.into(), parse_envelope: true }
    }

    /// Passes every verified body without parsing an envelope, for bodies that
    /// are not JSON, such as gRPC messages.
    ///
    /// The request's extensions contain the [`Verified`](crate::Verified) body
    /// instead of the delivery. The maximum age is not checked.
    #[must_use]
    pub fn without_envelope(mut self) -> Self {
        self.parse_envelope = false;
        self
    }
}

impl<S: Scheme, Inner> Layer<Inner> for VerifyLayer<S> {
    type Service = VerifyService<S, Inner>;

    fn layer(&self, inner: Inner) -> Self::Service {
        VerifyService {
            receiver: self.receiver.clone(),
            parse_envelope: self.parse_envelope,
            inner,
        }
    }
}

/// The service that [`VerifyLayer`] creates.
#[derive(Clone)]
pub struct VerifyService<S: Scheme, Inner> {
    receiver: Receiver<S>,
    parse_envelope: bool,
    inner: Inner,
}

impl<S, Inner, B, R> Service<Request<B>> for VerifyService<S, Inner>
where
    S: Scheme,
    Inner: Service<Request<Full<Bytes>>, Response = Response<R>> + Clone + Send + 'static,
    Inner::Future: Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
    R: Default,
{
    type Response = Response<R>;
    type Error = Inner::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // `poll_ready` was called on the original, so that one must be called.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let receiver = self.receiver.clone();
        let parse_envelope = self.parse_envelope;
        Box::pin(async move {
            match receiver.verify_request(request, parse_envelope).await {
                Ok(request) => inner.call(request).await,
                Err(rejection) => {
                    let mut response = Response::new(R::default());
                    *response.status_mut() = StatusCode::from_u16(rejection.status())
                        .unwrap_or(StatusCode::UNAUTHORIZED);
                    Ok(response)
                }
            }
        })
    }
}

impl<S: Scheme> Receiver<S> {
    async fn verify_request<B>(
        &self,
        request: Request<B>,
        parse_envelope: bool,
    ) -> Result<Request<Full<Bytes>>, Rejection>
    where
        B: Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (mut parts, body) = request.into_parts();
        let body = if parse_envelope {
            let delivery = self.receive_body(&parts.headers, body).await?;
            let body = delivery.verified().body_ref().clone();
            parts.extensions.insert(delivery.key());
            parts.extensions.insert(delivery);
            body
        } else {
            let verified = self.verify_body(&parts.headers, body).await;
            let verified = self.log(verified)?;
            let body = verified.body_ref().clone();
            parts.extensions.insert(verified.key());
            parts.extensions.insert(verified);
            body
        };
        Ok(Request::from_parts(parts, Full::new(body)))
    }
}

impl<S: Scheme, Inner> fmt::Debug for VerifyService<S, Inner> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyService").field("receiver", &self.receiver).finish_non_exhaustive()
    }
}
