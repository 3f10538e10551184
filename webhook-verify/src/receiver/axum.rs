//! The axum extractor. It depends on `axum-core` only, which has fewer breaking releases.

use axum_core::RequestExt as _;
use axum_core::extract::{FromRef, FromRequest, Request};
use axum_core::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::RETRY_AFTER;

use super::Receiver;
use crate::delivery::Delivery;
use crate::rejection::Rejection;

/// Extracts the verified delivery of the request. The router's state must be a [`Receiver`], or
/// provide one through `FromRef`. axum's `DefaultBodyLimit` (2 MB unless set) applies too.
impl<State> FromRequest<State> for Delivery
where
    State: Send + Sync,
    Receiver: FromRef<State>,
{
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &State) -> Result<Self, Rejection> {
        Receiver::from_ref(state)
            .receive(request.with_limited_body())
            .await
    }
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        empty_response(self.status(), self.retry_after())
    }
}

pub(crate) fn empty_response(status: u16, retry_after: Option<u64>) -> Response {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}
