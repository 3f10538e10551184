//! Turns de-duplication results into actix-web responses.

use std::error::Error;

use actix_web::body::BoxBody;
use actix_web::error::InternalError;
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderValue, RETRY_AFTER};
use actix_web::{HttpRequest, HttpResponse, Responder};

use super::{DedupError, Outcome, STORE_RETRY_AFTER, retry_after_seconds};

impl<T: Responder<Body = BoxBody>> Responder for Outcome<T> {
    type Body = BoxBody;

    fn respond_to(self, request: &HttpRequest) -> HttpResponse<BoxBody> {
        match self {
            Self::Handled(response) => response.respond_to(request),
            Self::Duplicate => HttpResponse::new(StatusCode::OK),
            Self::InFlight { retry_after } => unavailable(retry_after_seconds(retry_after)),
        }
    }
}

impl<E: Into<actix_web::Error>, StoreError: Error> From<DedupError<E, StoreError>>
    for actix_web::Error
{
    fn from(error: DedupError<E, StoreError>) -> Self {
        match error {
            DedupError::Handler(error) => error.into(),
            DedupError::Store(error) => {
                super::log_store_error(&error);
                let response = unavailable(STORE_RETRY_AFTER);
                InternalError::from_response("the de-duplication store failed", response).into()
            }
        }
    }
}

fn unavailable(retry_after: u64) -> HttpResponse<BoxBody> {
    let mut response = HttpResponse::new(StatusCode::SERVICE_UNAVAILABLE);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry_after));
    response
}
