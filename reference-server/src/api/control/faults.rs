//! `/_sandbox/faults`: adds, lists and removes faults, which affect the next matching
//! requests (`docs/control-interface.md#faults`).

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svc_sdk::Operation;

use super::{named_organization, organization, organization_param};
use crate::api::framework::{Input, Json, JsonBody, NoContent, integer};
use crate::model::error::{ApiError, Problems};
use crate::model::id::{self, Prefix};
use crate::model::schema;
use crate::model::time;
use crate::model::timestamp::Timestamp;
use crate::store::Reader;
pub use crate::store::faults::DropPoint;
use crate::store::faults::{self, Effect, FaultResponse};

/// Maximum number of headers of a response.
const MAX_HEADERS: usize = 100;
/// Maximum latency, in milliseconds.
const MAX_LATENCY: i64 = 10 * 60_000;

/// What affects which requests. At least one of `status`, `latency` and `drop` is required.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewFault")]
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
    #[serde(skip_serializing)]
    organization: Option<String>,
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
#[schemars(rename = "Fault")]
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
#[schemars(rename = "FaultHit")]
#[non_exhaustive]
pub struct FaultHit {
    /// When it arrived, by the server's clock.
    pub at: Timestamp,
    /// The service and the operation, such as `email emails.send`.
    pub operation: String,
}

pub(crate) async fn create(
    mut input: Input,
    body: JsonBody<NewFault>,
) -> Result<Json<Fault, 201>, ApiError> {
    let new = body.read(&mut input).await?;
    let (operation, effect) = new.resolve()?;
    let organization =
        find_organization(&input, named_organization(&input, new.organization.clone())?).await?;
    let fault = faults::Fault {
        id: id::new(Prefix::Fault),
        organization,
        operation,
        effect,
        skip: new.skip.unwrap_or(0),
        times: new.times.unwrap_or(1),
        hits: Vec::new(),
        definition: serde_json::to_value(&new).map_err(ApiError::internal)?,
    };
    let (app, added) = (Arc::clone(&input.app), fault.clone());
    input.app.store.write(move |tx| app.faults.add(tx, &added)).await?;
    Json::of(&describe(&fault)?)
}

pub(crate) async fn list(input: Input) -> Result<Json<Vec<Fault>>, ApiError> {
    let organization = find_organization(&input, organization_param(&input)).await?;
    let faults = input.app.faults.list(organization);
    Json::of(&faults.iter().map(describe).collect::<Result<Vec<_>, _>>()?)
}

pub(crate) async fn get(input: Input) -> Result<Json<Fault>, ApiError> {
    let organization = find_organization(&input, organization_param(&input)).await?;
    let faults = input.app.faults.list(organization);
    let fault = faults.iter().find(|fault| fault.id == input.id());
    Json::of(&describe(fault.ok_or_else(|| ApiError::not_found("fault"))?)?)
}

/// Removes all faults of the organization.
pub(crate) async fn clear(input: Input) -> Result<NoContent, ApiError> {
    remove(&input, None).await?;
    Ok(NoContent)
}

pub(crate) async fn delete(input: Input) -> Result<NoContent, ApiError> {
    if remove(&input, Some(input.id().to_owned())).await? {
        return Ok(NoContent);
    }
    Err(ApiError::not_found("fault"))
}

async fn remove(input: &Input, id: Option<String>) -> Result<bool, ApiError> {
    let organization = find_organization(input, organization_param(input)).await?;
    let app = Arc::clone(&input.app);
    input.app.store.write(move |tx| app.faults.remove(tx, organization, id)).await
}

/// Parses the stored definition of a fault.
pub(crate) fn parse_definition(definition: &str) -> Result<(Option<Operation>, Effect), ApiError> {
    serde_json::from_str::<NewFault>(definition).map_err(ApiError::internal)?.resolve()
}

async fn find_organization(input: &Input, name: Option<String>) -> Result<i64, ApiError> {
    let app = Arc::clone(&input.app);
    let find = move |reader: Reader<'_>| organization(reader, &app.settings, name.as_deref());
    input.app.store.read(find).await
}

impl NewFault {
    fn resolve(&self) -> Result<(Option<Operation>, Effect), ApiError> {
        let mut problems = Problems::default();
        let operation = self.operation.as_deref().and_then(|name| {
            let found = operation(name);
            if found.is_none() {
                problems.add(
                    "operation",
                    "must be the name of a documented operation, such as emails.send",
                );
            }
            found
        });
        let status = self.status.and_then(|status| {
            let status =
                StatusCode::from_u16(status).ok().filter(|_| (200..=599).contains(&status));
            if status.is_none() {
                problems.add("status", "must be from 200 to 599");
            }
            status
        });
        if status.is_none()
            && (self.body.is_some() || self.headers.is_some())
            && self.status.is_none()
        {
            problems.add("status", "is required with body or headers");
        }
        let headers = self.header_map(&mut problems);
        let latency = self.latency.as_deref().and_then(|text| {
            let latency = time::parse_duration(text).filter(|ms| *ms <= MAX_LATENCY);
            if latency.is_none() {
                problems.add("latency", "must be a duration of at most 10m, such as 250ms");
            }
            latency
        });
        let drop = self.drop.as_deref().and_then(|word| match word {
            "before" => Some(DropPoint::Before),
            "after" => Some(DropPoint::After),
            "midway" => Some(DropPoint::Midway),
            _ => {
                problems.add("drop", "must be before, after or midway");
                None
            }
        });
        if self.times == Some(0) {
            problems.add("times", "must be at least 1");
        }
        if let (Some(_), Some("before" | "after")) = (self.status, self.drop.as_deref()) {
            problems.add(
                "drop",
                "must be midway with status: the connection is cut within that response",
            );
        }
        if self.status.is_none() && self.latency.is_none() && self.drop.is_none() {
            problems.add("", "must contain at least one of status, latency and drop");
        }
        problems.check()?;
        let body = match &self.body {
            None => Vec::new(),
            Some(Value::String(text)) => text.clone().into_bytes(),
            Some(json) => json.to_string().into_bytes(),
        };
        let response = status.map(|status| FaultResponse { status, headers, body });
        let latency = Duration::from_millis(latency.unwrap_or(0).unsigned_abs());
        Ok((operation, Effect { latency, response, drop }))
    }

    fn header_map(&self, problems: &mut Problems) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self.headers.as_ref().is_some_and(|headers| headers.len() > MAX_HEADERS) {
            problems.add("headers", format!("has more than {MAX_HEADERS} headers"));
            return headers;
        }
        if !matches!(self.body, None | Some(Value::String(_))) {
            let json = HeaderValue::from_static("application/json");
            headers.insert(http::header::CONTENT_TYPE, json);
        }
        for (name, value) in self.headers.iter().flatten() {
            let Ok(name) = HeaderName::try_from(name) else {
                problems.add("headers", "contains an invalid header name");
                continue;
            };
            if FRAMING.contains(&name.as_str()) {
                problems.add(format!("headers.{name}"), "cannot be set; the server manages it");
                continue;
            }
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                _ => {
                    problems.add(format!("headers.{name}"), "must be a string");
                    continue;
                }
            };
            if let Ok(value) = HeaderValue::try_from(text) {
                headers.insert(name, value);
            } else {
                problems.add(format!("headers.{name}"), "contains control characters");
            }
        }
        headers
    }
}

/// Headers that a fault cannot set, because they frame the message.
const FRAMING: [&str; 3] = ["content-length", "transfer-encoding", "connection"];

/// Finds an operation by its name, such as `emails.send`, or by its service and name,
/// such as `extraction webhooks.list`. A name that both services have refers to the email
/// service.
pub(super) fn operation(name: &str) -> Option<Operation> {
    let all = Operation::ALL.iter().copied();
    let email_first = all.rev();
    email_first
        .clone()
        .find(|operation| operation.to_string() == name)
        .or_else(|| email_first.into_iter().find(|operation| operation.name() == name))
}

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

fn describe(fault: &faults::Fault) -> Result<Fault, ApiError> {
    let hits = fault
        .hits
        .iter()
        .map(|hit| FaultHit { at: hit.at.into(), operation: hit.operation.to_string() });
    Ok(Fault {
        id: fault.id.clone(),
        definition: NewFault::deserialize(&fault.definition).map_err(ApiError::internal)?,
        remaining: fault.times,
        hits: hits.collect(),
    })
}
