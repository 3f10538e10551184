//! Faults in the control interface (`docs/control-interface.md#faults`): the endpoints of
//! `/_sandbox/faults`, their types, and the methods of `Client`. A `NewFault` affects the next
//! matching requests or steps of SMTP sessions; a `Fault` adds how many are left, and which it has
//! hit. `fault_rules.rs` checks what a fault may be, and `fault_api.rs` handles the requests.

use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svc_sdk::Operation;

use crate::control::{CREATED, Client, DELETE, Endpoint, GET, POST, Request, requests};
use crate::model::integer::integer;
use crate::model::{Timestamp, schema};

requests! {
    /// Lists the faults with the requests that they affected.
    LIST: fn faults() -> Vec<Fault> = Endpoint::new(
        GET,
        "sandboxFaultsList",
        "/_sandbox/faults",
        "List the faults",
    );

    /// Returns a fault with the requests that it affected.
    FAULT: fn fault(id) -> Fault = Endpoint::new(
        GET,
        "sandboxFaultsGet",
        "/_sandbox/faults/{id}",
        "Get a fault",
    );

    /// Removes a fault.
    REMOVE: fn remove_fault(id) -> () = Endpoint::new(
        DELETE,
        "sandboxFaultsRemove",
        "/_sandbox/faults/{id}",
        "Remove a fault",
    );

    /// Removes all faults.
    CLEAR: fn clear_faults() -> () = Endpoint::new(
        DELETE,
        "sandboxFaultsClear",
        "/_sandbox/faults",
        "Clear the faults",
    );
}

pub(crate) const ADD: Endpoint<NewFault, Fault> = Endpoint::new(
    POST,
    "sandboxFaultsAdd",
    "/_sandbox/faults",
    "Add a fault that affects the next matching requests",
)
.responds(CREATED);

/// What affects which requests, or with `smtp` which SMTP sessions. At least one of `status`, `latency`,
/// `drop` and `greylist` is required; `body` and `headers` go only with `status`, and of the values of
/// `drop`, only `midway` does.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("examples" = [{"operation": "emails.send", "status": 503, "times": 2}]))]
#[schemars(rename = "CreateFault")]
pub struct NewFault {
    /// The organization, by ID or name. Default: that of the client; set it only on a client of none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// The affected operation, such as `emails.send`. Default: all documented operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OperationName>")]
    pub operation: Option<String>,
    /// The step of an SMTP session that is affected, in place of requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smtp: Option<SmtpStep>,
    /// Only a recipient that this pattern matches, such as `*@slow.test`; for the steps `rcpt` and
    /// `data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Only an envelope sender that this pattern matches; for the steps `mail`, `rcpt` and `data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Refuses each pair of sender and recipient once, with 451 unless `status` is another code from
    /// 400 to 499, and then accepts it; for the step `rcpt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub greylist: Option<bool>,
    /// The share of the matching requests or steps that is affected, above 0 and at most 1, evenly
    /// spread. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 1))]
    pub share: Option<f64>,
    /// How many requests are affected, at least 1. Default: 1; without limit with `greylist` or `share`.
    #[serde(
        default,
        deserialize_with = "integer",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("minimum" = 1, "maximum" = u32::MAX))]
    pub times: Option<u32>,
    /// How many matching requests are unaffected before that. Default: 0.
    #[serde(
        default,
        deserialize_with = "integer",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("maximum" = u32::MAX))]
    pub skip: Option<u32>,
    /// The status of the response, which takes the place of processing the request; of SMTP the code of
    /// the reply, from 400. After 421, and after a code at `connect`, the connection is closed.
    #[serde(
        default,
        deserialize_with = "integer",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 200, max = 599))]
    pub status: Option<u16>,
    /// The response body: a string is sent as it is, any other value as JSON. Default: the error
    /// that the service has for the status, and nothing for a status below 400. Of SMTP the text of
    /// the reply, in one line.
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
    /// Writes the SMTP reply slowly, byte by byte, during the latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow: Option<bool>,
    /// Closes the connection before the request is processed, after it is processed, or
    /// midway through the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop: Option<DropPoint>,
}

/// A fault and the requests that it affected.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
#[schemars(extend("examples" = [{
    "id": "flt_0193b2c4-5d6e-7f80-9a1b-2c3d4e5f6071",
    "operation": "emails.send",
    "status": 503,
    "times": 2,
    "remaining": 1,
    "hits": [{"at": "2026-12-01T09:00:00.000Z", "operation": "email emails.send"}],
}]))]
pub struct Fault {
    /// The ID, `flt_…`.
    pub id: String,
    /// The requests that it affects, and how.
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
    /// The service and the operation, such as `email emails.send`, or the step, such as `smtp rcpt`.
    pub operation: String,
    /// The envelope sender, of a step after it was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The recipients of the step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
}

/// A step of an SMTP session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[non_exhaustive]
pub enum SmtpStep {
    /// The client connects.
    Connect,
    /// The client logs in.
    Auth,
    /// The client names the sender.
    Mail,
    /// The client names a recipient.
    Rcpt,
    /// The client has sent the message.
    Data,
}

/// When a fault closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[non_exhaustive]
pub enum DropPoint {
    /// Before the request is processed.
    Before,
    /// After the request is processed, before the response is sent.
    After,
    /// After the request is processed, within the response body.
    Midway,
}

names!(DropPoint, SmtpStep);

/// Finds an operation by its name, such as `emails.send`, or by its service and name,
/// such as `extraction webhooks.list`. A name that both services have refers to the email
/// service.
pub(crate) fn operation(name: &str) -> Option<Operation> {
    let mut email_first = Operation::ALL.iter().copied().rev();
    email_first.find(|operation| operation.to_string() == name || operation.name() == name)
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
    /// Adds a fault, which affects the next matching requests.
    pub fn add_fault(&self, fault: &NewFault) -> Request<Fault> {
        self.send(&ADD, &[], fault)
    }
}
