//! Responses: a status and JSON, in the shape that the compatibility settings select.

use axum::body::Body;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;

use crate::model::compatibility::{Compatibility, CreateStatus, ErrorFormat, Wrapping};
use crate::model::error::{ApiError, Code, Details, ErrorObject};

/// The response of a documented operation. It is small enough to be stored for an
/// `Idempotency-Key`.
#[derive(Clone, Debug)]
pub(crate) struct ApiResponse {
    pub(crate) status: StatusCode,
    /// JSON, or empty if the response has no body.
    pub(crate) body: Vec<u8>,
}

impl ApiResponse {
    pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Result<Self, ApiError> {
        let body = serde_json::to_vec(value).map_err(ApiError::internal)?;
        Ok(Self { status, body })
    }

    /// 200 with a resource (`docs/undocumented/both-services.md#resource-shape`).
    pub(crate) fn resource(
        compatibility: &Compatibility,
        value: &impl Serialize,
    ) -> Result<Self, ApiError> {
        Self::with_status(compatibility, StatusCode::OK, value)
    }

    /// The response of a create operation: `status`, or 200 if the compatibility settings
    /// select it (`docs/undocumented/both-services.md#create-status`).
    pub(crate) fn created(
        compatibility: &Compatibility,
        status: StatusCode,
        value: &impl Serialize,
    ) -> Result<Self, ApiError> {
        let status = match compatibility.create_status {
            CreateStatus::Created => status,
            CreateStatus::Ok => StatusCode::OK,
        };
        Self::with_status(compatibility, status, value)
    }

    /// 200 with a list (`docs/undocumented/both-services.md#list-shape`).
    pub(crate) fn list<T: Serialize>(
        compatibility: &Compatibility,
        items: &[T],
    ) -> Result<Self, ApiError> {
        match compatibility.list_shape {
            Wrapping::Bare => Self::json(StatusCode::OK, &items),
            Wrapping::Wrapped => Self::json(StatusCode::OK, &Data { data: items }),
        }
    }

    /// 204 without a body.
    pub(crate) const fn no_content() -> Self {
        Self { status: StatusCode::NO_CONTENT, body: Vec::new() }
    }

    /// Stored for an `Idempotency-Key` while its request is in progress; never sent.
    pub(crate) fn in_progress() -> Self {
        Self { status: StatusCode::PROCESSING, body: Vec::new() }
    }

    fn with_status(
        compatibility: &Compatibility,
        status: StatusCode,
        value: &impl Serialize,
    ) -> Result<Self, ApiError> {
        match compatibility.resource_shape {
            Wrapping::Bare => Self::json(status, value),
            Wrapping::Wrapped => Self::json(status, &Data { data: value }),
        }
    }
}

#[derive(Serialize)]
struct Data<T> {
    data: T,
}

impl From<ApiResponse> for Response<Body> {
    fn from(api_response: ApiResponse) -> Self {
        let mut response = Self::new(Body::empty());
        *response.status_mut() = api_response.status;
        if !api_response.body.is_empty() {
            response.headers_mut().insert(CONTENT_TYPE, JSON);
            *response.body_mut() = api_response.body.into();
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

/// The content type and the body of an error response
/// (`docs/undocumented/both-services.md#error-format`).
pub(crate) fn error_body(error: &ApiError, format: ErrorFormat) -> (&'static str, String) {
    let object = error.object();
    let (content_type, body) = match format {
        ErrorFormat::Text => return ("text/plain; charset=utf-8", object.message.to_owned()),
        ErrorFormat::Nested => ("application/json", to_json(&Nested { error: object })),
        ErrorFormat::Flat => ("application/json", to_json(&object)),
        ErrorFormat::Problem => {
            let status = object.code.status();
            let problem = Problem {
                r#type: "about:blank",
                title: status.canonical_reason(),
                status: status.as_u16(),
                detail: object.message,
                code: object.code,
                details: object.details,
            };
            ("application/problem+json", to_json(&problem))
        }
    };
    (content_type, body)
}

/// An error response.
pub(crate) fn error(error: &ApiError, format: ErrorFormat) -> Response<Body> {
    let status = error.code().status();
    let (content_type, body) = error_body(error, format);
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

/// Cannot fail: the error types consist of strings, numbers and maps with string keys.
fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
