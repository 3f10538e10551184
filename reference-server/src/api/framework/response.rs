//! Responses: a status and JSON, in the shape that the compatibility settings select.

use std::marker::PhantomData;

use axum::body::Body;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use crate::app::App;
use crate::model::compatibility::{Compatibility, ErrorFormat};
use crate::model::error::{ApiError, Code, Details, ErrorObject};

/// The response of a documented operation. It is small enough to be stored for an
/// `Idempotency-Key`.
#[derive(Clone, Debug)]
pub(crate) struct ApiResponse {
    pub(crate) status: StatusCode,
    /// JSON, or empty if the response has no body.
    pub(crate) body: Bytes,
}

impl ApiResponse {
    pub(crate) fn json(status: u16, value: &impl Serialize) -> Result<Self, ApiError> {
        let body = serde_json::to_vec(value).map_err(ApiError::internal)?;
        let status = StatusCode::from_u16(status).map_err(ApiError::internal)?;
        Ok(Self { status, body: body.into() })
    }

    /// Stored for an `Idempotency-Key` while its request is in progress; never sent.
    pub(crate) fn in_progress() -> Self {
        Self { status: StatusCode::PROCESSING, body: Bytes::new() }
    }
}

/// What a handler returns: a response, and its description.
pub(crate) trait Reply: Into<Response<Body>> + Send + 'static {
    /// The status, and the schema of the body if there is one.
    fn describe(
        compatibility: &Compatibility,
        generator: &mut SchemaGenerator,
    ) -> (StatusCode, Option<Schema>);
}

/// JSON of the type `T` in the shape `S`.
///
/// Contravariant in `T`, so that a handler can return what it serialized from a view that
/// borrows: a `JsonReply<_, View<'a>>` is a `JsonReply<_, View<'static>>`.
pub(crate) struct JsonReply<S, T> {
    response: ApiResponse,
    of: PhantomData<fn(S, T)>,
}

/// JSON that no compatibility setting changes.
pub(crate) type Json<T, const STATUS: u16 = 200> = JsonReply<Fixed<STATUS>, T>;
/// A resource.
pub(crate) type Resource<T> = JsonReply<OneResource, T>;
/// The resource that the operation created.
pub(crate) type Created<T, const STATUS: u16 = 201> = JsonReply<NewResource<STATUS>, T>;
/// All resources of a kind.
pub(crate) type List<T> = JsonReply<AllResources, Vec<T>>;

pub(crate) struct Fixed<const STATUS: u16>;
pub(crate) struct OneResource;
pub(crate) struct NewResource<const STATUS: u16>;
pub(crate) struct AllResources;

/// The status of a response, and whether its body is wrapped in `{"data": …}`.
pub(crate) trait Shape: 'static {
    fn select(compatibility: &Compatibility) -> (u16, bool);
}

impl<const STATUS: u16> Shape for Fixed<STATUS> {
    fn select(_: &Compatibility) -> (u16, bool) {
        (STATUS, false)
    }
}

/// `docs/undocumented/README.md#resource-shape`
impl Shape for OneResource {
    fn select(compatibility: &Compatibility) -> (u16, bool) {
        (200, compatibility.wraps_resources)
    }
}

/// `docs/undocumented/README.md#create-status`
impl<const STATUS: u16> Shape for NewResource<STATUS> {
    fn select(compatibility: &Compatibility) -> (u16, bool) {
        let status = if compatibility.creates_with_200 { 200 } else { STATUS };
        (status, compatibility.wraps_resources)
    }
}

/// `docs/undocumented/README.md#list-shape`
impl Shape for AllResources {
    fn select(compatibility: &Compatibility) -> (u16, bool) {
        (200, compatibility.wraps_lists)
    }
}

impl<S: Shape, T: Serialize> JsonReply<S, T> {
    pub(crate) fn new(app: &App, value: &T) -> Result<Self, ApiError> {
        let (status, is_wrapped) = S::select(&app.settings.compatibility);
        let response = match is_wrapped {
            false => ApiResponse::json(status, value),
            true => ApiResponse::json(status, &Data { data: value }),
        };
        response.map(Self::from)
    }
}

impl<T: Serialize, const STATUS: u16> Json<T, STATUS> {
    pub(crate) fn of(value: &T) -> Result<Self, ApiError> {
        ApiResponse::json(STATUS, value).map(Self::from)
    }
}

impl<S: Shape, T: JsonSchema + 'static> Reply for JsonReply<S, T> {
    fn describe(
        compatibility: &Compatibility,
        generator: &mut SchemaGenerator,
    ) -> (StatusCode, Option<Schema>) {
        let (status, is_wrapped) = S::select(compatibility);
        let schema = generator.subschema_for::<T>();
        let schema = match is_wrapped {
            false => schema,
            true => schemars::json_schema!({
                "type": "object",
                "properties": {"data": schema},
                "required": ["data"],
            }),
        };
        (StatusCode::from_u16(status).expect("a status"), Some(schema))
    }
}

impl<S, T> From<ApiResponse> for JsonReply<S, T> {
    fn from(response: ApiResponse) -> Self {
        Self { response, of: PhantomData }
    }
}

impl<S, T> AsRef<ApiResponse> for JsonReply<S, T> {
    fn as_ref(&self) -> &ApiResponse {
        &self.response
    }
}

impl<S, T> From<JsonReply<S, T>> for Response<Body> {
    fn from(reply: JsonReply<S, T>) -> Self {
        reply.response.into()
    }
}

/// 204 without a body.
pub(crate) struct NoContent;

impl Reply for NoContent {
    fn describe(_: &Compatibility, _: &mut SchemaGenerator) -> (StatusCode, Option<Schema>) {
        (StatusCode::NO_CONTENT, None)
    }
}

impl From<NoContent> for Response<Body> {
    fn from(_: NoContent) -> Self {
        ApiResponse { status: StatusCode::NO_CONTENT, body: Bytes::new() }.into()
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

/// A response with a body that is not JSON.
pub(crate) fn content(content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
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
/// (`docs/undocumented/README.md#error-format`).
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
