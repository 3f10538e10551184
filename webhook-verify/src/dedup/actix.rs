//! Answers for actix-web.

use std::error::Error;
use std::fmt;

use actix_web::body::BoxBody;
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderValue, RETRY_AFTER};
use actix_web::{HttpRequest, HttpResponse, Responder, ResponseError};

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

impl<E, StoreError> ResponseError for OnceError<E, StoreError>
where
    E: ResponseError + fmt::Debug,
    StoreError: Error,
{
    fn status_code(&self) -> StatusCode {
        match self {
            Self::Handler(error) => error.status_code(),
            Self::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn error_response(&self) -> HttpResponse<BoxBody> {
        match self {
            Self::Handler(error) => error.error_response(),
            Self::Store(error) => {
                super::log_store(error);
                unavailable(STORE_RETRY_AFTER)
            }
        }
    }
}

fn unavailable(retry_after: u64) -> HttpResponse<BoxBody> {
    let mut response = HttpResponse::new(StatusCode::SERVICE_UNAVAILABLE);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry_after));
    response
}
