//! A tower layer, for hyper, axum, tonic and everything else that speaks
//! tower's `Service`.

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

/// Lets through only requests whose body is a verified delivery.
///
/// The inner service gets the same request with the body as
/// [`Full<Bytes>`](Full), and in its extensions the
/// [`Delivery`](crate::Delivery) and its [`DeliveryKey`](crate::DeliveryKey). Everything else is
/// answered here, with an empty body. Trailers of the request, which nobody
/// signed, are left out; the answer passes as it is.
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
///         assert!(delivery.is_some(), "nothing else comes through");
///         Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default()))
///     });
/// # let _: webhook_verify::Verify<webhook_verify::Extraction, _> = service;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct VerifyLayer<S: Scheme> {
    receiver: Receiver<S>,
    envelope: bool,
}

impl<S: Scheme> VerifyLayer<S> {
    /// A layer for deliveries that this receiver accepts.
    pub fn new(receiver: impl Into<Receiver<S>>) -> Self {
        Self { receiver: receiver.into(), envelope: true }
    }

    /// Lets every body through that verified, for what is no JSON envelope,
    /// such as the messages of gRPC. The extensions hold the
    /// [`Verified`](crate::Verified) body in place of the delivery. The maximum
    /// age does not apply to it.
    #[must_use]
    pub fn without_envelope(mut self) -> Self {
        self.envelope = false;
        self
    }
}

impl<S: Scheme, Inner> Layer<Inner> for VerifyLayer<S> {
    type Service = Verify<S, Inner>;

    fn layer(&self, inner: Inner) -> Self::Service {
        Verify { receiver: self.receiver.clone(), envelope: self.envelope, inner }
    }
}

/// The service of [`VerifyLayer`].
#[derive(Clone)]
pub struct Verify<S: Scheme, Inner> {
    receiver: Receiver<S>,
    envelope: bool,
    inner: Inner,
}

impl<S, Inner, B, R> Service<Request<B>> for Verify<S, Inner>
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
        // The clone is not known to be ready; the one that was asked is.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let receiver = self.receiver.clone();
        let envelope = self.envelope;
        Box::pin(async move {
            match receiver.take(request, envelope).await {
                Ok(request) => inner.call(request).await,
                Err(refused) => {
                    let mut response = Response::new(R::default());
                    *response.status_mut() =
                        StatusCode::from_u16(refused.status()).unwrap_or(StatusCode::UNAUTHORIZED);
                    Ok(response)
                }
            }
        })
    }
}

impl<S: Scheme> Receiver<S> {
    async fn take<B>(
        &self,
        request: Request<B>,
        envelope: bool,
    ) -> Result<Request<Full<Bytes>>, Rejection>
    where
        B: Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let (mut parts, body) = request.into_parts();
        let body = if envelope {
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

impl<S: Scheme, Inner> fmt::Debug for Verify<S, Inner> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verify").field("receiver", &self.receiver).finish_non_exhaustive()
    }
}
