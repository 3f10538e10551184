//! Answers for actix-web.

use std::error::Error;

use actix_web::body::BoxBody;
use actix_web::error::InternalError;
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderValue, RETRY_AFTER};
use actix_web::{HttpRequest, HttpResponse, Responder};

use super::{Once, OnceError, STORE_RETRY_AFTER, retry_after_seconds};

impl<T: Responder<Body = BoxBody>> Responder for Once<T> {
    type Body = BoxBody;

    fn respond_to(self, request: &HttpRequest) -> HttpResponse<BoxBody> {
        match self {
            Self::Handled(answer) => answer.respond_to(request),
            Self::Repeated => HttpResponse::new(StatusCode::OK),
            Self::InFlight { retry_after } => unavailable(retry_after_seconds(retry_after)),
        }
    }
}

impl<E: Into<actix_web::Error>, StoreError: Error> From<OnceError<E, StoreError>>
    for actix_web::Error
{
    fn from(error: OnceError<E, StoreError>) -> Self {
        match error {
            OnceError::Handler(error) => error.into(),
            OnceError::Store(error) => {
                super::log_store(&error);
                let answer = unavailable(STORE_RETRY_AFTER);
                InternalError::from_response("the store failed", answer).into()
            }
        }
    }
}

fn unavailable(retry_after: u64) -> HttpResponse<BoxBody> {
    let mut response = HttpResponse::new(StatusCode::SERVICE_UNAVAILABLE);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry_after));
    response
}
