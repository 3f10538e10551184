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
use crate::store::Reader;
use crate::store::faults::{DropPoint, Effect, Fault, FaultResponse};

/// Maximum number of headers of a response.
const MAX_HEADERS: usize = 100;
/// Maximum latency, in milliseconds.
const MAX_LATENCY: i64 = 10 * 60_000;

#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewFault")]
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
pub(crate) struct New {
    #[serde(skip_serializing)]
    organization: Option<String>,
    /// The affected operation, such as `emails.send`. Default: all documented operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OperationName>")]
    operation: Option<String>,
    /// How many requests are affected, at least 1. Default: 1.
    #[serde(default, deserialize_with = "integer", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = u32::MAX))]
    times: Option<u32>,
    /// How many matching requests are unaffected before that. Default: 0.
    #[serde(default, deserialize_with = "integer", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maximum" = u32::MAX))]
    skip: Option<u32>,
    #[serde(default, deserialize_with = "integer", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 200, max = 599))]
    status: Option<u16>,
    /// The response body: a string is sent as it is, any other value as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ResponseHeaders>")]
    headers: Option<Map<String, Value>>,
    /// A delay such as `250ms`, in real time, of at most ten minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Duration>")]
    latency: Option<String>,
    /// Closes the connection before the request is processed, after it is processed, or
    /// midway through the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["before", "after", "midway", null]))]
    drop: Option<String>,
}

/// A fault and the requests that it affected.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Fault")]
pub(crate) struct View<'a> {
    id: &'a str,
    #[serde(flatten)]
    #[schemars(with = "New")]
    definition: &'a Value,
    /// How many more requests the fault affects.
    remaining: u32,
    hits: Vec<Hit>,
}

/// A request that a fault affected.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FaultHit")]
struct Hit {
    #[schemars(with = "schema::Time")]
    at: String,
    operation: String,
}

pub(crate) async fn create(
    mut input: Input,
    body: JsonBody<New>,
) -> Result<Json<View<'static>, 201>, ApiError> {
    let new = body.read(&mut input).await?;
    let (operation, effect) = new.resolve()?;
    let organization =
        find_organization(&input, named_organization(&input, new.organization.clone())?).await?;
    let fault = Fault {
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
    Json::of(&describe(&fault))
}

pub(crate) async fn list(input: Input) -> Result<Json<Vec<View<'static>>>, ApiError> {
    let organization = find_organization(&input, organization_param(&input)).await?;
    let faults = input.app.faults.list(organization);
    Json::of(&faults.iter().map(describe).collect::<Vec<_>>())
}

pub(crate) async fn get(input: Input) -> Result<Json<View<'static>>, ApiError> {
    let organization = find_organization(&input, organization_param(&input)).await?;
    let faults = input.app.faults.list(organization);
    let fault = faults.iter().find(|fault| fault.id == input.id());
    Json::of(&describe(fault.ok_or_else(|| ApiError::not_found("fault"))?))
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
    serde_json::from_str::<New>(definition).map_err(ApiError::internal)?.resolve()
}

async fn find_organization(input: &Input, name: Option<String>) -> Result<i64, ApiError> {
    let app = Arc::clone(&input.app);
    let find = move |reader: Reader<'_>| organization(reader, &app.settings, name.as_deref());
    input.app.store.read(find).await
}

impl New {
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
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            match (HeaderName::try_from(name), HeaderValue::try_from(text)) {
                (Ok(name), _) if FRAMING.contains(&name.as_str()) => {
                    problems.add(format!("headers.{name}"), "cannot be set; the server manages it");
                }
                (Ok(name), Ok(value)) => {
                    headers.insert(name, value);
                }
                _ => problems.add("headers", "contains an invalid header name or value"),
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
fn operation(name: &str) -> Option<Operation> {
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
        "additionalProperties": {"pattern": "^[^\\u0000-\\u0008\\u000a-\\u001f\\u007f]*$"},
    }),
}

fn describe(fault: &Fault) -> View<'_> {
    let hits = fault
        .hits
        .iter()
        .map(|hit| Hit { at: time::rfc3339(hit.at), operation: hit.operation.to_string() });
    View {
        id: &fault.id,
        definition: &fault.definition,
        remaining: fault.times,
        hits: hits.collect(),
    }
}
