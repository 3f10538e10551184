//! axum extractors: `Delivery`, `Verified` and `AnyDelivery`.
//!
//! They depend on `axum-core` only, which has fewer breaking releases than `axum`.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum_core::RequestExt as _;
use axum_core::body::Body;
use axum_core::extract::{FromRef, FromRequest, Request};
use axum_core::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::any::AnyOf;
use crate::{AnyDelivery, AnyReceiver, Delivery, Receiver, Rejection, Scheme, Verified};

/// Extracts the verified delivery of the request. The router's state must be a
/// [`Receiver`], or provide one through `FromRef`.
///
/// axum's `DefaultBodyLimit` (2 MB unless set) applies too.
impl<S, State> FromRequest<State> for Delivery<S, Bytes>
where
    S: Scheme,
    State: Send + Sync,
    Receiver<S>: FromRef<State>,
{
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &State) -> Result<Self, Rejection> {
        let receiver = Receiver::from_ref(state);
        let verified = receiver.verify_axum(request).await;
        receiver.log(verified.and_then(|verified| receiver.parse(verified)))
    }
}

/// Extracts the verified body of the request without parsing an envelope. The
/// maximum age is not checked.
///
/// axum's `DefaultBodyLimit` (2 MB unless set) applies too.
impl<S, State> FromRequest<State> for Verified<S, Bytes>
where
    S: Scheme,
    State: Send + Sync,
    Receiver<S>: FromRef<State>,
{
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &State) -> Result<Self, Rejection> {
        let receiver = Receiver::from_ref(state);
        let verified = receiver.verify_axum(request).await;
        receiver.log(verified)
    }
}

/// Extracts the verified delivery of either service. The router's state must be an
/// [`AnyReceiver`], or provide one through `FromRef`.
impl<State> FromRequest<State> for AnyDelivery
where
    State: Send + Sync,
    AnyReceiver: FromRef<State>,
{
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &State) -> Result<Self, Rejection> {
        let receiver = AnyReceiver::from_ref(state);
        let result = receiver.receive_axum(request).await;
        receiver.log(result)
    }
}

impl AnyReceiver {
    async fn receive_axum(&self, request: Request) -> Result<AnyDelivery, Rejection> {
        let (parts, body) = request.into_parts();
        let receiver = self.receiver_for(&parts).await?;
        let request = Request::from_parts(parts, body);
        match receiver {
            AnyOf::Extraction(receiver) => {
                receiver.parse(receiver.verify_axum(request).await?).map(AnyDelivery::Extraction)
            }
            AnyOf::Mail(receiver) => {
                receiver.parse(receiver.verify_axum(request).await?).map(AnyDelivery::Mail)
            }
        }
    }
}

impl<S: Scheme> Receiver<S> {
    async fn verify_axum(&self, request: Request) -> Result<Verified<S, Bytes>, Rejection> {
        let (parts, body) = request.into_parts();
        let probe = Request::from_parts(parts, Body::new(EndlessBody)).with_limited_body();
        let (parts, probe) = probe.into_parts();
        let limit = usize::try_from(HttpBody::size_hint(&probe).lower()).unwrap_or(usize::MAX);
        self.verify_body(&parts, body, limit).await
    }
}

/// A body that announces more bytes than any limit allows. axum has no accessor for
/// `DefaultBodyLimit`, but it reduces the announced size of a body to the limit.
struct EndlessBody;

impl HttpBody for EndlessBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(None)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::MAX)
    }
}

/// Responds with the rejection's status and an empty body.
impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        empty_response(self.status(), self.retry_after())
    }
}

pub(crate) fn empty_response(status: u16, retry_after: Option<u64>) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = status.into_response();
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(http::header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
