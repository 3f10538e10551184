//! Turns de-duplication results into axum responses.

use axum_core::response::{IntoResponse, Response};

use super::{DedupError, Outcome, STORE_RETRY_AFTER, retry_after_seconds};
use crate::receiver::axum::empty_response;

impl<T: IntoResponse> IntoResponse for Outcome<T> {
    fn into_response(self) -> Response {
        match self {
            Self::Handled(response) => response.into_response(),
            Self::Duplicate => empty_response(200, None),
            Self::InFlight { retry_after } => {
                empty_response(503, Some(retry_after_seconds(retry_after)))
            }
        }
    }
}

impl<E: IntoResponse> IntoResponse for DedupError<E> {
    fn into_response(self) -> Response {
        match self {
            Self::Handler(response) => response.into_response(),
            Self::Store(error) => {
                super::log_store_error(&error);
                empty_response(503, Some(STORE_RETRY_AFTER))
            }
        }
    }
}
