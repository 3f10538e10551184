//! The responses of documented operations: a [`Reply`] with its status, and the bodies of errors. A
//! handler that fails returns a `Failure`, which is an extension of the response (`ApiError`) until
//! `write_error` writes it: only there the path is known, and with it the format that the dialect
//! has for errors. What else the dialect changes in a response is changed in `speak.rs`.

use std::marker::PhantomData;

use axum::body::Body;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use svc_sdk::{Dialect, Operation, Point};

use crate::app::App;
use crate::http::auth;
use crate::http::error::{ApiError, status};
use crate::model::error::Details;
use crate::model::{Code, ErrorObject, Failure, Result};
use crate::runtime::memory::Reserved;

/// The response of a documented operation, with the JSON of a `T`, or nothing if that is `()`. It
/// is small enough to be stored for an `Idempotency-Key`.
pub(crate) struct Reply<T> {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
    of: PhantomData<fn() -> T>,
}

impl<T> Reply<T> {
    pub(crate) fn new(status: StatusCode, body: Bytes) -> Self {
        Self {
            status,
            body,
            of: PhantomData,
        }
    }

    pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Result<Self> {
        let body = match status {
            StatusCode::NO_CONTENT => Vec::new(),
            _ => serde_json::to_vec(value).map_err(Failure::internal)?,
        };
        Ok(Self::new(status, body.into()))
    }

    /// Keeps the memory that is reserved for a large body until it is sent.
    pub(crate) fn with(mut self, memory: Reserved) -> Self {
        let bytes = self.body;
        let _memory = memory;
        self.body = Bytes::from_owner(Kept { bytes, _memory });
        self
    }

    /// The response to an operation.
    pub(crate) fn of(
        operation: Operation,
        dialect: &Dialect,
        value: &impl Serialize,
    ) -> Result<Self> {
        Self::json(success(operation, dialect), value)
    }
}

struct Kept {
    bytes: Bytes,
    _memory: Reserved,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The status of the response to an operation.
pub(crate) fn success(operation: Operation, dialect: &Dialect) -> StatusCode {
    use Operation as O;
    match operation {
        O::AudiencesDelete
        | O::ContactsDelete
        | O::WebhooksDelete
        | O::ExtractionWebhooksDelete => StatusCode::NO_CONTENT,
        _ if dialect.is(Point::CreateStatus, "200") => StatusCode::OK,
        O::EmailsSend => StatusCode::ACCEPTED,
        O::AudiencesCreate
        | O::ContactsCreate
        | O::DomainsCreate
        | O::WebhooksCreate
        | O::ExtractionWebhooksCreate => StatusCode::CREATED,
        _ => StatusCode::OK,
    }
}

impl<T> IntoResponse for Reply<T> {
    fn into_response(self) -> Response<Body> {
        let mut response = if self.body.is_empty() {
            Response::default()
        } else {
            content("application/json", self.body)
        };
        *response.status_mut() = self.status;
        response
    }
}

/// A response with a body that is not JSON.
pub(crate) fn content(content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

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

/// `{statusCode, name, message, details}`
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "NamedError")]
pub(crate) struct Named<'a> {
    status_code: u16,
    name: Code,
    message: &'a str,
    #[serde(skip_serializing_if = "Details::is_empty")]
    details: &'a Details,
}

/// The format of the errors for a path. That of the control interface is fixed, and so is that of
/// the 401 of the extraction service, which is documented
/// (`docs/extraction-service/README.md#authentication-and-scopes`).
pub(crate) fn error_format<'a>(dialect: &'a Dialect, path: &str, code: Code) -> &'a str {
    let is_extraction = path.starts_with("/v1/") && code != Code::Unauthorized;
    if is_extraction || path.starts_with("/api/") {
        dialect.choice(Point::ErrorFormat)
    } else {
        "nested"
    }
}

/// The content type and the body of an error response
/// (`docs/undocumented/README.md#error-format`).
pub(crate) fn error_body(error: &Failure, format: &str) -> (&'static str, String) {
    let object = error.object();
    let (content_type, body) = match format {
        "text" => return ("text/plain; charset=utf-8", object.message.to_owned()),
        "named" => {
            let named = Named {
                status_code: status(object.code).as_u16(),
                name: object.code,
                message: object.message,
                details: object.details,
            };
            ("application/json", to_json(&named))
        }
        "flat" => ("application/json", to_json(&object)),
        "problem" => {
            let status = status(object.code);
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
        _ => ("application/json", to_json(&Nested { error: object })),
    };
    (content_type, body)
}

/// Writes the error of a response, if it is one, in the format of this path.
pub(crate) fn write_error(app: &App, path: &str, mut response: Response<Body>) -> Response<Body> {
    let Some(ApiError(error)) = response.extensions_mut().remove::<ApiError>() else {
        return response;
    };

    let (content_type, body) = error_body(
        &error,
        error_format(&app.settings.dialect, path, error.code()),
    );
    *response.body_mut() = body.into();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    // The router has announced the empty body.
    headers.remove(CONTENT_LENGTH);
    if error.code() == Code::Unauthorized {
        let scheme = if path.starts_with("/api/") {
            auth::scheme(&app.settings.dialect)
        } else {
            "Bearer"
        };
        if let Ok(scheme) = HeaderValue::try_from(scheme) {
            headers.insert(WWW_AUTHENTICATE, scheme);
        }
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
