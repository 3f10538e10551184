//! axum extractors: `Delivery` and `Verified`.
//!
//! They depend on `axum-core` only, which has fewer breaking releases than `axum`.

use axum_core::extract::{FromRef, FromRequest, Request};
use axum_core::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode};

use crate::{Delivery, Receiver, Rejection, Scheme, Verified};

/// Extracts the verified delivery of the request. The router's state must be a
/// [`Receiver`], or provide one through `FromRef`.
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

/// Extracts the verified body of the request without parsing an envelope. The
/// maximum age is not checked.
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

/// Responds with the rejection's status and an empty body.
impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        empty_response(self.status(), None)
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
