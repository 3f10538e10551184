//! The newest requests to the documented operations.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_sdk::Operation;

use super::client::{Client, Request};
use super::endpoint::{Endpoint, GET, Page};
use super::faults::OperationName;
use super::query::{Id, Limit, Position};
use crate::model::timestamp::Timestamp;

pub(crate) const LIST: Endpoint<(), Page<LoggedRequest>, RequestQuery> = Endpoint::new(
    GET,
    "/_sandbox/requests",
    "List the newest requests to the documented operations",
);
pub(crate) const REQUEST: Endpoint<(), LoggedRequest> =
    Endpoint::new(GET, "/_sandbox/requests/{id}", "Get a request");

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequestQuery {
    /// The operation.
    #[schemars(with = "Option<OperationName>")]
    pub(crate) operation: Option<String>,
    /// The status of the response, such as `202`, or a class, such as `4xx`.
    #[schemars(regex(pattern = r"^([1-5]xx|[1-5][0-9][0-9])$"))]
    pub(crate) status: Option<String>,
    /// The ID of the key.
    pub(crate) key: Option<String>,
    /// Words, each of which is part of the operation, the path, the status, the ID or a body.
    pub(crate) search: Option<String>,
    /// Only requests after this time, or after the request with this ID.
    pub(crate) after: Option<Position>,
    /// Maximum number of results.
    #[serde(default)]
    pub(crate) limit: Limit,
    /// The `next` value of the previous page.
    pub(crate) cursor: Option<Id>,
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
    /// What happened.
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
    /// The newest requests to the documented operations, which the server has in memory.
    pub fn requests(&self) -> Requests<'_> {
        Requests(self)
    }
}

/// Requests for the request log; see [`Client::requests`].
#[derive(Clone, Copy, Debug)]
pub struct Requests<'a>(&'a Client);

impl Requests<'_> {
    /// Lists the requests with the beginning of their bodies, newest first.
    pub fn list(&self) -> Request<Page<LoggedRequest>> {
        self.0.call(&LIST, &[])
    }

    /// Returns the request with this ID, the `X-Request-Id` of its response.
    pub fn get(&self, id: &str) -> Request<LoggedRequest> {
        self.0.call(&REQUEST, &[id])
    }
}

impl Request<Page<LoggedRequest>> {
    /// Selects the requests of this operation.
    pub fn operation(self, operation: Operation) -> Self {
        self.query("operation", operation.to_string())
    }

    /// Selects the requests with this status, such as `202`, or a class, such as `4xx`.
    pub fn status(self, status: impl fmt::Display) -> Self {
        self.query("status", status.to_string())
    }

    /// Selects the requests with the key that has this ID.
    pub fn key(self, id: impl AsRef<str>) -> Self {
        self.query("key", id)
    }

    /// Selects the requests that contain each of these words, in the operation, the path, the status,
    /// the ID or the beginning of a body, among the newest 5 000.
    pub fn search(self, words: impl AsRef<str>) -> Self {
        self.query("search", words)
    }

    /// Selects the requests after this time, or after the request with this ID.
    pub fn after(self, time_or_id: impl fmt::Display) -> Self {
        self.query("after", time_or_id.to_string())
    }
}
