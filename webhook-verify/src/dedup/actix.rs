//! Turns de-duplication results into actix-web responses.

use actix_web::body::BoxBody;
use actix_web::error::InternalError;
use actix_web::http::StatusCode;
use actix_web::http::header::{HeaderValue, RETRY_AFTER};
use actix_web::{HttpRequest, HttpResponse, Responder};

use super::{DedupError, Outcome, STORE_RETRY_AFTER, retry_after_seconds};

/// Responds 204 to a handled delivery.
impl Responder for Outcome<()> {
    type Body = BoxBody;

    fn respond_to(self, request: &HttpRequest) -> HttpResponse<BoxBody> {
        let no_content = |()| StatusCode::NO_CONTENT;
        match self {
            Self::Handled(value) => Outcome::Handled(no_content(value)).respond_to(request),
            Self::Duplicate => Outcome::<StatusCode>::Duplicate.respond_to(request),
            Self::InFlight { retry_after } => {
                Outcome::<StatusCode>::InFlight { retry_after }.respond_to(request)
            }
        }
    }
}

/// Responds to a handled delivery with the handler's status and an empty body. A
/// handler cannot return an `HttpResponse`, which is not `Send`.
impl Responder for Outcome<StatusCode> {
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
