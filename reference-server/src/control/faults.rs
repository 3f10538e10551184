//! Faults, which affect the next matching requests (`docs/control-interface.md#faults`).

use std::time::Duration;

use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svc_sdk::Operation;

use super::client::{Client, Request};
use super::endpoint::{DELETE, Endpoint, GET, POST};
use crate::model::integer::integer;
use crate::model::schema;
use crate::model::time;
use crate::model::timestamp::Timestamp;

pub(crate) const LIST: Endpoint<(), Vec<Fault>> =
    Endpoint::new(GET, "/_sandbox/faults", "List the faults");
pub(crate) const ADD: Endpoint<NewFault, Fault> =
    Endpoint::new(POST, "/_sandbox/faults", "Add a fault that affects the next matching requests");
pub(crate) const CLEAR: Endpoint<(), ()> =
    Endpoint::new(DELETE, "/_sandbox/faults", "Remove all faults");
pub(crate) const FAULT: Endpoint<(), Fault> =
    Endpoint::new(GET, "/_sandbox/faults/{id}", "Get a fault");
pub(crate) const REMOVE: Endpoint<(), ()> =
    Endpoint::new(DELETE, "/_sandbox/faults/{id}", "Remove a fault");

/// What affects which requests. At least one of `status`, `latency` and `drop` is required.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
#[schemars(extend("anyOf" = [
    {
        "properties": {
            "status": {"type": "integer"},
            "drop": {"enum": ["midway", null]},
        },
        "required": ["status"],
    },
    {
        "properties": {
            "latency": {"type": "string"},
            "status": {"type": "null"},
            "body": {"type": "null"},
            "headers": {"type": "null"},
        },
        "required": ["latency"],
    },
    {
        "properties": {
            "drop": {"type": "string"},
            "status": {"type": "null"},
            "body": {"type": "null"},
            "headers": {"type": "null"},
        },
        "required": ["drop"],
    },
]))]
pub struct NewFault {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) organization: Option<String>,
    /// The affected operation, such as `emails.send`. Default: all documented operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OperationName>")]
    pub operation: Option<String>,
    /// How many requests are affected, at least 1. Default: 1.
    #[serde(default, deserialize_with = "integer", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = u32::MAX))]
    pub times: Option<u32>,
    /// How many matching requests are unaffected before that. Default: 0.
    #[serde(default, deserialize_with = "integer", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maximum" = u32::MAX))]
    pub skip: Option<u32>,
    /// The status of the response, which takes the place of processing the request.
    #[serde(default, deserialize_with = "integer", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 200, max = 599))]
    pub status: Option<u16>,
    /// The response body: a string is sent as it is, any other value as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// The headers of that response.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ResponseHeaders>")]
    pub headers: Option<Map<String, Value>>,
    /// A delay such as `250ms`, in real time, of at most ten minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Duration>")]
    pub latency: Option<String>,
    /// Closes the connection before the request is processed, after it is processed, or
    /// midway through the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["before", "after", "midway", null]))]
    pub drop: Option<String>,
}

impl NewFault {
    /// A fault of the next request to any documented operation, without an effect so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// Affects only this operation, such as `emails.send`.
    #[expect(clippy::needless_pass_by_value, reason = "operations and strings are passed alike")]
    #[must_use]
    pub fn operation(mut self, operation: impl ToString) -> Self {
        self.operation = Some(operation.to_string());
        self
    }

    /// Affects this many requests, at least 1. Default: 1.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Lets this many matching requests pass first. Default: 0.
    #[must_use]
    pub fn skip(mut self, skip: u32) -> Self {
        self.skip = Some(skip);
        self
    }

    /// Responds with this status, 200 to 599, instead of processing the request.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// The body of that response: a string is sent as it is, any other value as JSON.
    #[must_use]
    pub fn body(mut self, body: impl Into<Value>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Adds a header to that response.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let headers = self.headers.get_or_insert_default();
        headers.insert(name.into(), Value::String(value.into()));
        self
    }

    /// Waits before anything else, in real time, at most ten minutes.
    #[must_use]
    pub fn latency(mut self, latency: Duration) -> Self {
        self.latency = Some(time::duration_text(latency));
        self
    }

    /// Closes the connection at this point.
    #[must_use]
    pub fn drop_connection(mut self, point: DropPoint) -> Self {
        self.drop = Some(point.as_str().to_owned());
        self
    }
}

/// A fault and the requests that it affected.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Fault {
    /// The ID, `flt_…`.
    pub id: String,
    /// What it affects, and how.
    #[serde(flatten)]
    pub definition: NewFault,
    /// How many more requests the fault affects.
    pub remaining: u32,
    /// The requests that it affected.
    pub hits: Vec<FaultHit>,
}

/// A request that a fault affected.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct FaultHit {
    /// When it arrived, by the server's clock.
    pub at: Timestamp,
    /// The service and the operation, such as `email emails.send`.
    pub operation: String,
}

/// When a fault closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropPoint {
    /// Before the request is processed.
    Before,
    /// After the request is processed, before the response is sent.
    After,
    /// After the request is processed, within the response body.
    Midway,
}

impl DropPoint {
    /// `before`, `after` or `midway`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
            Self::Midway => "midway",
        }
    }
}

/// Finds an operation by its name, such as `emails.send`, or by its service and name,
/// such as `extraction webhooks.list`. A name that both services have refers to the email
/// service.
pub(crate) fn operation(name: &str) -> Option<Operation> {
    let all = Operation::ALL.iter().copied();
    let email_first = all.rev();
    email_first
        .clone()
        .find(|operation| operation.to_string() == name)
        .or_else(|| email_first.into_iter().find(|operation| operation.name() == name))
}

/// Headers that a fault cannot set, because they frame the message.
pub(crate) const FRAMING: [&str; 3] = ["content-length", "transfer-encoding", "connection"];

schema::formats! {
    /// The names that `operation` accepts.
    OperationName => {
        let all = Operation::ALL.iter();
        let names = all.flat_map(|operation| [operation.name().to_owned(), operation.to_string()]);
        let names: std::collections::BTreeSet<String> = names.collect();
        json_schema!({"type": "string", "enum": names})
    }
    /// The headers that `header_map` accepts.
    ResponseHeaders => json_schema!({
        "type": "object",
        "propertyNames": {"pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", "not": {"enum": FRAMING}},
        "additionalProperties": {
            "type": ["string", "number", "boolean"],
            "pattern": "^[^\\u0000-\\u0008\\u000a-\\u001f\\u007f]*$",
        },
    }),
}

impl Client {
    /// The faults of the next requests.
    pub fn faults(&self) -> Faults<'_> {
        Faults(self)
    }
}

/// Requests for faults; see [`Client::faults`].
#[derive(Clone, Copy, Debug)]
pub struct Faults<'a>(&'a Client);

impl Faults<'_> {
    /// Adds a fault, which affects the next matching requests.
    pub fn add(&self, fault: &NewFault) -> Request<Fault> {
        self.0.send(&ADD, &[], fault)
    }

    /// Lists the faults with the requests that they affected.
    pub fn list(&self) -> Request<Vec<Fault>> {
        self.0.call(&LIST, &[])
    }

    /// Returns a fault with the requests that it affected.
    pub fn get(&self, id: &str) -> Request<Fault> {
        self.0.call(&FAULT, &[id])
    }

    /// Removes a fault.
    pub fn remove(&self, id: &str) -> Request<()> {
        self.0.call(&REMOVE, &[id])
    }

    /// Removes all faults.
    pub fn clear(&self) -> Request<()> {
        self.0.call(&CLEAR, &[])
    }
}
