//! [`ApiError`]: a failure as a response (`docs/undocumented/README.md#error-statuses`).

use axum::body::Body;
use axum::response::IntoResponse;
use http::{Response, StatusCode};

use crate::model::{Code, Failure};

#[derive(Clone, Debug)]
pub(crate) struct ApiError(pub(crate) Failure);

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

impl IntoResponse for ApiError {
    /// The error is an extension of the response until `write_error` writes it.
    fn into_response(self) -> Response<Body> {
        let mut response = status(self.0.code()).into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// The status of each code.
pub(crate) const fn status(code: Code) -> StatusCode {
    match code {
        Code::InvalidJson | Code::InvalidRequest => StatusCode::BAD_REQUEST,
        Code::Unauthorized => StatusCode::UNAUTHORIZED,
        Code::InsufficientScope | Code::DomainNotVerified | Code::Forbidden => {
            StatusCode::FORBIDDEN
        }
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Code::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
        Code::Conflict | Code::IdempotencyMismatch | Code::NotCancellable => StatusCode::CONFLICT,
        Code::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Code::WrongHost => StatusCode::MISDIRECTED_REQUEST,
        Code::ValidationFailed => StatusCode::UNPROCESSABLE_ENTITY,
        Code::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::StorageFull => StatusCode::INSUFFICIENT_STORAGE,
    }
}

/// The code of an error with this status; that of its class if none has it.
pub(crate) fn code_of(wanted: StatusCode) -> Code {
    let class = if wanted.is_server_error() {
        Code::Unavailable
    } else {
        Code::InvalidRequest
    };
    let has_status = |code: &Code| status(*code) == wanted;
    let specific = Code::ALL.iter().copied().find(has_status);
    if status(class) == wanted {
        class
    } else {
        specific.unwrap_or(class)
    }
}
