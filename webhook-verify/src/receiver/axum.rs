//! Extractors for axum. They need axum's core only, which changes seldom.

use axum_core::extract::{FromRef, FromRequest, Request};
use axum_core::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode};

use crate::{Delivery, Receiver, Rejection, Scheme, Verified};

/// The verified delivery of the request, its envelope read. The router's state
/// is the [`Receiver`], or gives it with `FromRef`.
impl<S, State> FromRequest<State> for Delivery<S, Bytes>
where
    S: Scheme,
    State: Send + Sync,
    Receiver<S>: FromRef<State>,
{
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &State) -> Result<Self, Rejection> {
        let (parts, body) = request.into_parts();
        Receiver::from_ref(state).receive_body(&parts.headers, body).await
    }
}

/// The verified body of the request, for what is no JSON envelope. The maximum
/// age does not apply to it.
impl<S, State> FromRequest<State> for Verified<S, Bytes>
where
    S: Scheme,
    State: Send + Sync,
    Receiver<S>: FromRef<State>,
{
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &State) -> Result<Self, Rejection> {
        let (parts, body) = request.into_parts();
        let receiver = Receiver::from_ref(state);
        let verified = receiver.verify_body(&parts.headers, body).await;
        receiver.log(verified)
    }
}

/// The status and an empty body.
impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        empty(self.status(), None)
    }
}

pub(crate) fn empty(status: u16, retry_after: Option<u64>) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = status.into_response();
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(http::header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
