//! Turns the results of de-duplication into responses of axum and actix-web.

use std::time::Duration;

use super::{DedupError, RunOnce};
use crate::log_text::LogText;
use crate::receiver::BoxError;

/// The duration in seconds for `Retry-After`, rounded up and at least 1.
fn retry_after_seconds(retry_after: Duration) -> u64 {
    let fraction = u64::from(retry_after.subsec_nanos() > 0);
    retry_after.as_secs().saturating_add(fraction).max(1)
}

/// Logs the error of a store, and returns `Retry-After` in seconds.
fn store_failed(error: &BoxError) -> u64 {
    const RETRY_AFTER: u64 = 5;
    tracing::error!(error = ?LogText(error), "the de-duplication store failed");
    RETRY_AFTER
}

#[cfg(feature = "axum")]
mod axum {
    use axum_core::response::{IntoResponse, Response};

    use super::{DedupError, RunOnce, retry_after_seconds, store_failed};
    use crate::receiver::axum::empty_response;

    impl<T: IntoResponse> IntoResponse for RunOnce<T> {
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
                Self::Store(error) => empty_response(503, Some(store_failed(&error))),
            }
        }
    }
}

#[cfg(feature = "actix")]
mod actix {
    use actix_web::body::BoxBody;
    use actix_web::error::InternalError;
    use actix_web::http::StatusCode;
    use actix_web::http::header::{HeaderValue, RETRY_AFTER};
    use actix_web::{HttpRequest, HttpResponse, Responder};

    use super::{DedupError, RunOnce, retry_after_seconds, store_failed};

    /// Responds to a handled delivery with the handler's status and an empty body. A handler
    /// cannot return an `HttpResponse`, which is not `Send`.
    impl Responder for RunOnce<StatusCode> {
        type Body = BoxBody;

        fn respond_to(self, _: &HttpRequest) -> HttpResponse<BoxBody> {
            match self {
                Self::Handled(status) => HttpResponse::new(status),
                Self::Duplicate => HttpResponse::new(StatusCode::OK),
                Self::InFlight { retry_after } => unavailable(retry_after_seconds(retry_after)),
            }
        }
    }

    impl<E: Into<actix_web::Error>> From<DedupError<E>> for actix_web::Error {
        fn from(error: DedupError<E>) -> Self {
            match error {
                DedupError::Handler(error) => error.into(),
                DedupError::Store(error) => {
                    let response = unavailable(store_failed(&error));
                    InternalError::from_response("the de-duplication store failed", response).into()
                }
            }
        }
    }

    fn unavailable(retry_after: u64) -> HttpResponse<BoxBody> {
        let mut response = HttpResponse::new(StatusCode::SERVICE_UNAVAILABLE);
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(retry_after));
        response
    }
}
