//! The newest requests to the documented operations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::control::{Client, Cursor, Endpoint, GET, Page, Request, requests};
use crate::faults::fault_wire::OperationName;
use crate::model::{Timestamp, schema};

pub(crate) const LIST: Endpoint<(), Page<LoggedRequest>, RequestFilter> = Endpoint::list(
    "sandboxRequestsList",
    "/_sandbox/requests",
    "List the newest requests to the documented operations",
    Cursor::Id,
);

requests! {
    /// Returns the request with this ID, the `X-Request-Id` of its response.
    REQUEST: fn request(id) -> LoggedRequest = Endpoint::new(
        GET,
        "sandboxRequestsGet",
        "/_sandbox/requests/{id}",
        "Get a request",
    );
}

/// Which requests to list.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestFilter {
    /// The operation.
    #[schemars(with = "OperationName")]
    pub operation: Option<String>,
    /// The status of the response, such as `202`, or a class, such as `4xx`.
    #[schemars(regex(pattern = r"^([1-5]xx|[1-5][0-9][0-9])$"))]
    pub status: Option<String>,
    /// The ID of the key.
    pub key: Option<String>,
    /// Words, each of which is part of the operation, the path, the status, the ID or the beginning of
    /// a body. The newest 5 000 requests are searched.
    pub search: Option<String>,
    /// Only requests after this time, or after the request with this ID.
    #[schemars(with = "schema::Position")]
    pub after: Option<String>,
}

/// A request to a documented operation, without its bodies.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
#[non_exhaustive]
pub struct RequestHandled {
    /// The ID, `req_…`, which is the `X-Request-Id` of the response.
    pub id: String,
    /// `email` or `extraction`.
    #[schemars(extend("enum" = ["email", "extraction"]))]
    pub service: String,
    /// The operation, such as `emails.send`.
    pub operation: String,
    /// The method.
    pub method: String,
    /// The path with the query.
    pub path: String,
    /// The ID of the key; null if the request had no valid one.
    pub key: Option<String>,
    /// The status of the response; null if none was sent, because the client was gone or a fault
    /// cut the connection.
    pub status: Option<u16>,
    /// How long it took, in milliseconds of real time.
    pub duration_ms: f64,
    /// When it began, by the server's clock.
    pub started_at: Timestamp,
    /// The ID of the fault that affected it.
    pub fault: Option<String>,
    /// The `Idempotency-Key`.
    pub idempotency_key: Option<String>,
    /// The `User-Agent`.
    pub user_agent: Option<String>,
}

/// A request to a documented operation.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LoggedRequest {
    /// The request in short.
    #[serde(flatten)]
    pub summary: RequestHandled,
    /// The beginning of the body of the request; null if it has none, or nothing read it.
    pub request_body: Option<RecordedBody>,
    /// The beginning of the body of the response; null if it has none.
    pub response_body: Option<RecordedBody>,
}

/// The beginning of a body. Secrets in it are replaced by `[redacted]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RecordedBody {
    /// The first 4 KiB, as text.
    pub text: String,
    /// The size of the whole body, in bytes.
    pub size: usize,
    /// Whether the text is shorter than the body.
    pub truncated: bool,
}

impl Client {
    /// Lists the newest requests to the documented operations, which the server has in memory, with
    /// the beginning of their bodies, newest first.
    pub fn requests(&self, filter: &RequestFilter) -> Request<Page<LoggedRequest>> {
        self.select(&LIST, &[], filter)
    }
}
