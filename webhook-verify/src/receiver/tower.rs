//! A tower layer that verifies requests, for hyper, axum, tonic and other
//! frameworks built on `tower::Service`.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::Full;
use tower_layer::Layer;
use tower_service::Service;

use super::any::AnyOf;
use crate::{AnyDelivery, AnyReceiver, Keyed, Receiver, Rejection, Scheme, Verified};

/// A tower layer that passes only verified deliveries to the inner service.
///
/// The inner service gets the request with the body as [`Full<Bytes>`](Full). The
/// request's extensions contain the [`Delivery`](crate::Delivery), or the
/// [`AnyDelivery`] of an [`AnyReceiver`], and its [`DeliveryKey`](crate::DeliveryKey). The
/// layer responds to every other request with [`Rejection::status`] and an empty body. Trailers of the request are
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
/// # let _: webhook_verify::VerifyService<Receiver<webhook_verify::Extraction>, _> = service;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct VerifyLayer<R> {
    receiver: R,
    parse_envelope: bool,
}

impl<R: Endpoint> VerifyLayer<R> {
    /// Creates a layer that passes the deliveries that `receiver` accepts: a [`Receiver`]
    /// or an [`AnyReceiver`].
    pub fn new(receiver: R) -> Self {
        Self { receiver, parse_envelope: true }
    }

    /// Passes every verified body without parsing an envelope, for bodies that
    /// are not JSON, such as gRPC messages.
    ///
    /// The request's extensions contain the [`Verified`] body
    /// instead of the delivery. The maximum age is not checked.
    #[must_use]
    pub fn without_envelope(mut self) -> Self {
        self.parse_envelope = false;
        self
    }
}

impl<R: Endpoint, Inner> Layer<Inner> for VerifyLayer<R> {
    type Service = VerifyService<R, Inner>;

    fn layer(&self, inner: Inner) -> Self::Service {
        VerifyService { layer: self.clone(), inner }
    }
}

/// The service that [`VerifyLayer`] creates.
#[derive(Clone)]
pub struct VerifyService<R, Inner> {
    layer: VerifyLayer<R>,
    inner: Inner,
}

impl<E, Inner, B, R> Service<Request<B>> for VerifyService<E, Inner>
where
    E: Endpoint,
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
        let layer = self.layer.clone();
        Box::pin(async move {
            match layer.receiver.accept(request, layer.parse_envelope).await {
                Ok(request) => inner.call(request).await,
                Err(rejection) => Ok(response_to(&rejection)),
            }
        })
    }
}

fn response_to<R: Default>(rejection: &Rejection) -> Response<R> {
    let mut response = Response::new(R::default());
    *response.status_mut() =
        StatusCode::from_u16(rejection.status()).unwrap_or(StatusCode::UNAUTHORIZED);
    if let Some(seconds) = rejection.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A receiver that a [`VerifyLayer`] accepts: [`Receiver`] or [`AnyReceiver`].
///
/// This trait is sealed and cannot be implemented outside this crate.
pub trait Endpoint: sealed::Endpoint {}

impl<T: sealed::Endpoint> Endpoint for T {}

mod sealed {
    use super::{Body, Bytes, Error, Full, Rejection, Request};

    pub trait Endpoint: Clone + Send + Sync + 'static {
        /// Verifies a request and adds the result to its extensions.
        fn accept<B>(
            &self,
            request: Request<B>,
            parse_envelope: bool,
        ) -> impl Future<Output = Result<Request<Full<Bytes>>, Rejection>> + Send
        where
            B: Body + Send,
            B::Data: Send,
            B::Error: Into<Box<dyn Error + Send + Sync>>;
    }
}

impl<S: Scheme> sealed::Endpoint for Receiver<S> {
    async fn accept<B>(
        &self,
        request: Request<B>,
        parse_envelope: bool,
    ) -> Result<Request<Full<Bytes>>, Rejection>
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let verified = self.verify_body(&parts, body, usize::MAX).await;
        self.log(verified.and_then(|verified| {
            if !parse_envelope {
                return Ok(with_verified(parts, verified));
            }
            let body = verified.body_ref().clone();
            Ok(with_extension(parts, self.parse(verified)?, body))
        }))
    }
}

impl sealed::Endpoint for AnyReceiver {
    async fn accept<B>(
        &self,
        request: Request<B>,
        parse_envelope: bool,
    ) -> Result<Request<Full<Bytes>>, Rejection>
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let accepted = async {
            match self.receiver_for(&parts).await? {
                AnyOf::Extraction(receiver) => {
                    let verified = receiver.verify_body(&parts, body, usize::MAX).await?;
                    if !parse_envelope {
                        return Ok(with_verified(parts, verified));
                    }
                    let delivery = AnyDelivery::Extraction(receiver.parse(verified)?);
                    let body = delivery.body().clone();
                    Ok(with_extension(parts, delivery, body))
                }
                AnyOf::Mail(receiver) => {
                    let verified = receiver.verify_body(&parts, body, usize::MAX).await?;
                    if !parse_envelope {
                        return Ok(with_verified(parts, verified));
                    }
                    let delivery = AnyDelivery::Mail(receiver.parse(verified)?);
                    let body = delivery.body().clone();
                    Ok(with_extension(parts, delivery, body))
                }
            }
        };
        self.log(accepted.await)
    }
}

fn with_verified<S: Scheme>(parts: Parts, verified: Verified<S, Bytes>) -> Request<Full<Bytes>> {
    let body = verified.body_ref().clone();
    with_extension(parts, verified, body)
}

fn with_extension<T>(mut parts: Parts, verified: T, body: Bytes) -> Request<Full<Bytes>>
where
    T: Keyed + Clone + Send + Sync + 'static,
{
    parts.extensions.insert(verified.key());
    parts.extensions.insert(verified);
    Request::from_parts(parts, Full::new(body))
}

impl<R: fmt::Debug, Inner> fmt::Debug for VerifyService<R, Inner> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyService")
            .field("receiver", &self.layer.receiver)
            .finish_non_exhaustive()
    }
}
