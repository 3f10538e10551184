//! Answers: a status and JSON, in the shapes that the switches chose.

use axum::body::Body;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{ApiError, Code};
use crate::switches::{CreatedStatus, ErrorShape, Switches, Wrapping};

/// The answer of a documented operation: small enough to keep for an
/// `Idempotency-Key`.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// JSON, or empty for no body.
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Result<Self, ApiError> {
        let body = serde_json::to_vec(value).map_err(ApiError::internal)?;
        Ok(Self { status, body })
    }

    /// 200 with a resource, wrapped where switch B14 says so.
    pub(crate) fn resource(switches: &Switches, value: &impl Serialize) -> Result<Self, ApiError> {
        Self::with_status(switches, StatusCode::OK, value)
    }

    /// A creation's answer: `status` unless switch B1 makes it 200.
    pub(crate) fn created(
        switches: &Switches,
        status: StatusCode,
        value: &impl Serialize,
    ) -> Result<Self, ApiError> {
        let status = match switches.created_status {
            CreatedStatus::Created => status,
            CreatedStatus::Ok => StatusCode::OK,
        };
        Self::with_status(switches, status, value)
    }

    /// 200 with a list, wrapped where switch B2 says so.
    pub(crate) fn list<T: Serialize>(switches: &Switches, items: &[T]) -> Result<Self, ApiError> {
        match switches.lists {
            Wrapping::Bare => Self::json(StatusCode::OK, &items),
            Wrapping::Wrapped => Self::json(StatusCode::OK, &Data { data: items }),
        }
    }

    /// 204 without a body.
    pub(crate) const fn no_content() -> Self {
        Self { status: StatusCode::NO_CONTENT, body: Vec::new() }
    }

    fn with_status(
        switches: &Switches,
        status: StatusCode,
        value: &impl Serialize,
    ) -> Result<Self, ApiError> {
        match switches.resources {
            Wrapping::Bare => Self::json(status, value),
            Wrapping::Wrapped => Self::json(status, &Data { data: value }),
        }
    }
}

#[derive(Serialize)]
struct Data<T> {
    data: T,
}

impl From<Answer> for Response<Body> {
    fn from(answer: Answer) -> Self {
        let mut response = Self::new(Body::empty());
        *response.status_mut() = answer.status;
        if !answer.body.is_empty() {
            response.headers_mut().insert(CONTENT_TYPE, JSON);
            *response.body_mut() = answer.body.into();
        }
        response
    }
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An error's answer in the given shape (`open-points.md` B4).
pub(crate) fn error(error: &ApiError, shape: ErrorShape) -> Response<Body> {
    let status = error.code().status();
    let (content_type, body) = match shape {
        ErrorShape::Nested => ("application/json", json!({"error": error.to_object()}).to_string()),
        ErrorShape::Flat => ("application/json", error.to_object().to_string()),
        ErrorShape::Problem => {
            let mut problem = json!({
                "type": "about:blank",
                "title": status.canonical_reason(),
                "status": status.as_u16(),
                "detail": error.message(),
                "code": error.code().as_str(),
            });
            if !error.details().is_empty() {
                problem["details"] = Value::Object(error.details().clone());
            }
            ("application/problem+json", problem.to_string())
        }
        ErrorShape::Text => ("text/plain; charset=utf-8", error.message().to_owned()),
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    if error.code() == Code::Unauthorized {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(seconds) = error.retry_after_seconds() {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    if let Some(methods) = error.allowed_methods()
        && let Ok(methods) = HeaderValue::try_from(methods)
    {
        headers.insert(ALLOW, methods);
    }
    response
}
