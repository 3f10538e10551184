//! Answers for axum.

use std::error::Error;

use axum_core::response::{IntoResponse, Response};

use super::{Once, OnceError, STORE_RETRY_AFTER, retry_after_seconds};
use crate::receiver::axum::empty;

impl<T: IntoResponse> IntoResponse for Once<T> {
    fn into_response(self) -> Response {
        match self {
            Self::Handled(answer) => answer.into_response(),
            Self::Repeated => empty(200, None),
            Self::InFlight { retry_after } => empty(503, Some(retry_after_seconds(retry_after))),
        }
    }
}

impl<E: IntoResponse, StoreError: Error> IntoResponse for OnceError<E, StoreError> {
    fn into_response(self) -> Response {
        match self {
            Self::Handler(answer) => answer.into_response(),
            Self::Store(error) => {
                super::log_store(&error);
                empty(503, Some(STORE_RETRY_AFTER))
            }
        }
    }
}
