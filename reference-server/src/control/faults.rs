//! Faults, which affect the next matching requests (`docs/control-interface.md#faults`).

use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svc_sdk::Operation;
#[cfg(feature = "server")]
use {
    crate::model::error::ApiError,
    crate::model::nearest::did_you_mean,
    crate::model::time,
    http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    std::time::Duration,
};

use super::client::{Client, Request};
use super::endpoint::{CREATED, DELETE, Endpoint, GET, POST};
use crate::model::integer::integer;
use crate::model::schema;
use crate::model::timestamp::Timestamp;

pub(crate) const LIST: Endpoint<(), Vec<Fault>> =
    Endpoint::new(GET, "/_sandbox/faults", "List the faults");
pub(crate) const ADD: Endpoint<NewFault, Fault> = Endpoint::new(
    POST,
    "/_sandbox/faults",
    "Add a fault that affects the next matching requests",
)
.responds(CREATED);
pub(crate) const CLEAR: Endpoint<(), ()> =
    Endpoint::new(DELETE, "/_sandbox/faults", "Clear the faults");
pub(crate) const FAULT: Endpoint<(), Fault> =
    Endpoint::new(GET, "/_sandbox/faults/{id}", "Get a fault");
pub(crate) const REMOVE: Endpoint<(), ()> =
    Endpoint::new(DELETE, "/_sandbox/faults/{id}", "Remove a fault");

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
    /// It logs in.
    Auth,
    /// It names the sender.
    Mail,
    /// It names a recipient.
    Rcpt,
    /// It has sent the message.
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

/// Maximum number of headers of a response.
#[cfg(feature = "server")]
const MAX_HEADERS: usize = 100;
/// Maximum size of the text of an SMTP reply, in bytes (RFC 5321 §4.5.3.1.5).
#[cfg(feature = "server")]
const MAX_REPLY: usize = 400;
/// Maximum latency, in milliseconds.
#[cfg(feature = "server")]
const MAX_LATENCY: i64 = 10 * 60_000;

#[cfg(feature = "server")]
impl NewFault {
    /// Returns an error if the fault cannot affect a request as it says.
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        let refuse = |field: &str, message: &str| Err(ApiError::field(field, message));
        if let Some(name) = &self.operation {
            find_operation(name)?;
        }
        if self.times == Some(0) {
            return refuse("times", "must be at least 1");
        }
        if self
            .share
            .is_some_and(|share| !(share > 0.0 && share <= 1.0))
        {
            return refuse("share", "must be above 0, and at most 1");
        }
        match self.smtp {
            Some(step) => self.check_smtp(step)?,
            None => self.check_http()?,
        }
        if self
            .status
            .is_some_and(|status| !(200..=599).contains(&status))
        {
            return refuse("status", "must be from 200 to 599");
        }
        if self.status.is_none() && (self.body.is_some() || self.headers.is_some()) {
            return refuse("status", "is required with body or headers");
        }
        if self.latency.is_some() && self.delay().is_none() {
            return refuse(
                "latency",
                "must be a duration of at most 10m, such as 250ms",
            );
        }
        match (self.status, self.drop) {
            (Some(_), Some(DropPoint::Before | DropPoint::After)) => refuse(
                "drop",
                "must be midway with status: the connection is cut within that response",
            ),
            (None, None) if self.latency.is_none() && self.greylist != Some(true) => {
                refuse("", "must contain at least one of status, latency and drop")
            }
            _ => self.header_map().map(drop),
        }
    }

    fn check_http(&self) -> Result<(), ApiError> {
        for (field, is_given) in [
            ("to", self.to.is_some()),
            ("from", self.from.is_some()),
            ("greylist", self.greylist.is_some()),
            ("slow", self.slow.is_some()),
        ] {
            if is_given {
                return Err(ApiError::field(
                    field,
                    "requires smtp, the step of the session",
                ));
            }
        }
        Ok(())
    }

    fn check_smtp(&self, step: SmtpStep) -> Result<(), ApiError> {
        let is_recipient = matches!(step, SmtpStep::Rcpt | SmtpStep::Data);
        let is_sender = is_recipient || step == SmtpStep::Mail;
        let text = self.body.as_ref().map(Value::as_str);
        let is_line = |text: &str| {
            !text.is_empty() && text.len() <= MAX_REPLY && !text.chars().any(char::is_control)
        };
        let is_greylist = self.greylist == Some(true);
        for (field, is_wrong, message) in [
            (
                "operation",
                self.operation.is_some(),
                "cannot be combined with smtp",
            ),
            (
                "headers",
                self.headers.is_some(),
                "cannot be combined with smtp",
            ),
            (
                "drop",
                self.drop == Some(DropPoint::Midway),
                "must be before or after with smtp",
            ),
            (
                "to",
                self.to.is_some() && !is_recipient,
                "goes with the steps rcpt and data",
            ),
            (
                "from",
                self.from.is_some() && !is_sender,
                "goes with the steps mail, rcpt and data",
            ),
            (
                "greylist",
                is_greylist && step != SmtpStep::Rcpt,
                "goes with the step rcpt",
            ),
            (
                "status",
                self.status
                    .is_some_and(|code| code < 400 || is_greylist && code > 499),
                "must be from 400 to 599 with smtp, and below 500 with greylist",
            ),
            (
                "body",
                text.is_some_and(|text| !text.is_some_and(is_line)),
                "must be one line of at most 400 bytes with smtp",
            ),
            (
                "slow",
                self.slow == Some(true) && self.latency.is_none(),
                "requires latency",
            ),
        ] {
            if is_wrong {
                return Err(ApiError::field(field, message));
            }
        }
        Ok(())
    }

    /// The reply to an SMTP client, if it is refused.
    pub(crate) fn reply(&self) -> Option<String> {
        let is_greylist = self.greylist == Some(true);
        let code = self.status.or(is_greylist.then_some(451))?;
        let text = match self.content() {
            Some(text) => text,
            None if is_greylist => "4.7.1 greylisted, try again later".to_owned(),
            None => format!("{}.3.0 refused by a fault of the sandbox", code / 100),
        };
        Some(format!("{code} {text}"))
    }

    /// Whether it affects the next one that it matches, after so many of them.
    pub(crate) fn is_turn(&self, before: i64) -> bool {
        let share = self.share.unwrap_or(1.0);
        // So that three tenths are 3 of 10.
        let affected = |count: i64| (count as f64 * share + 1e-9).floor();
        affected(before + 1) > affected(before)
    }

    /// How many it affects.
    pub(crate) fn limit(&self) -> u32 {
        let is_unlimited = self.share.is_some() || self.greylist == Some(true);
        self.times
            .unwrap_or(if is_unlimited { u32::MAX } else { 1 })
    }

    /// How long a request waits before anything else.
    pub(crate) fn delay(&self) -> Option<Duration> {
        let delay = time::parse_duration(self.latency.as_deref()?)?;
        (delay <= MAX_LATENCY).then(|| Duration::from_millis(delay.unsigned_abs()))
    }

    /// The body of the response, unless it is the service's own.
    pub(crate) fn content(&self) -> Option<String> {
        match self.body.as_ref()? {
            Value::String(text) => Some(text.clone()),
            json => Some(json.to_string()),
        }
    }

    /// The headers of the response.
    pub(crate) fn header_map(&self) -> Result<HeaderMap, ApiError> {
        let mut headers = HeaderMap::new();
        if self
            .headers
            .as_ref()
            .is_some_and(|headers| headers.len() > MAX_HEADERS)
        {
            return Err(ApiError::field(
                "headers",
                format!("has more than {MAX_HEADERS} headers"),
            ));
        }
        if !matches!(self.body, None | Some(Value::String(_))) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        for (name, value) in self.headers.iter().flatten() {
            let name = HeaderName::try_from(name)
                .map_err(|_| ApiError::field("headers", "contains an invalid header name"))?;
            let refuse = |message| ApiError::field(format!("headers.{name}"), message);
            if FRAMING.contains(&name.as_str()) {
                return Err(refuse("cannot be set; the server manages it"));
            }
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                _ => return Err(refuse("must be a string")),
            };
            let value = HeaderValue::try_from(text);
            headers.insert(
                &name,
                value.map_err(|_| refuse("contains control characters"))?,
            );
        }
        Ok(headers)
    }
}

/// Finds an operation by its name, such as `emails.send`, or by its service and name,
/// such as `extraction webhooks.list`. A name that both services have refers to the email
/// service.
pub(crate) fn operation(name: &str) -> Option<Operation> {
    let mut email_first = Operation::ALL.iter().copied().rev();
    email_first.find(|operation| operation.to_string() == name || operation.name() == name)
}

/// As [`operation`]. The error for an unknown name suggests a known one.
#[cfg(feature = "server")]
pub(crate) fn find_operation(name: &str) -> Result<Operation, ApiError> {
    operation(name).ok_or_else(|| {
        let known = did_you_mean(
            name,
            Operation::ALL.iter().map(|operation| operation.name()),
        );
        let message = "must be the name of a documented operation, such as emails.send";
        ApiError::field("operation", format!("{message}{known}"))
    })
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

    /// Lists the faults with the requests that they affected.
    pub fn faults(&self) -> Request<Vec<Fault>> {
        self.call(&LIST, &[])
    }

    /// Returns a fault with the requests that it affected.
    pub fn fault(&self, id: &str) -> Request<Fault> {
        self.call(&FAULT, &[id])
    }

    /// Removes a fault.
    pub fn remove_fault(&self, id: &str) -> Request<()> {
        self.call(&REMOVE, &[id])
    }

    /// Removes all faults.
    pub fn clear_faults(&self) -> Request<()> {
        self.call(&CLEAR, &[])
    }
}
