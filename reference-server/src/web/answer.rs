//! Answers: a status and JSON, in the shapes that the switches chose.

use axum::body::Body;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{ApiError, Code, Details, ErrorObject};
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

    /// 200 with a resource, wrapped where `docs/undocumented/both-services.md#resource-shape` says so.
    pub(crate) fn resource(switches: &Switches, value: &impl Serialize) -> Result<Self, ApiError> {
        Self::with_status(switches, StatusCode::OK, value)
    }

    /// A creation's answer: `status` unless `docs/undocumented/both-services.md#create-status` makes it 200.
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

    /// 200 with a list, wrapped where `docs/undocumented/both-services.md#list-shape` says so.
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

/// `{error: {code, message, details}}`
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub(crate) struct Nested<'a> {
    error: ErrorObject<'a>,
}

/// Problem details (RFC 9457).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(crate) struct Problem<'a> {
    r#type: &'static str,
    title: Option<&'static str>,
    status: u16,
    detail: &'a str,
    code: Code,
    #[serde(skip_serializing_if = "Details::is_empty")]
    details: &'a Details,
}

/// An error's content type and body in the given shape (`docs/undocumented/both-services.md#error-format`).
pub(crate) fn error_body(error: &ApiError, shape: ErrorShape) -> (&'static str, String) {
    let object = error.object();
    let (content_type, body) = match shape {
        ErrorShape::Text => return ("text/plain; charset=utf-8", object.message.to_owned()),
        ErrorShape::Nested => ("application/json", to_text(&Nested { error: object })),
        ErrorShape::Flat => ("application/json", to_text(&object)),
        ErrorShape::Problem => {
            let status = object.code.status();
            let problem = Problem {
                r#type: "about:blank",
                title: status.canonical_reason(),
                status: status.as_u16(),
                detail: object.message,
                code: object.code,
                details: object.details,
            };
            ("application/problem+json", to_text(&problem))
        }
    };
    (content_type, body)
}

/// An error's answer in the given shape.
pub(crate) fn error(error: &ApiError, shape: ErrorShape) -> Response<Body> {
    let status = error.code().status();
    let (content_type, body) = error_body(error, shape);
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
    response
}

/// Of texts, numbers and maps with texts as keys, which always can be written.
fn to_text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
