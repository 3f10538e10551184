//! `/_sandbox/faults`: what the next matching requests meet.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svc_sdk::Operation;

use super::{Reply, json as reply, no_content, organization, organization_of_query};
use crate::error::{ApiError, Problems};
use crate::faults::{Drop, Effect, Fault, FaultAnswer, Faults};
use crate::id::{self, Prefix};
use crate::openapi::schema;
use crate::time;
use crate::web::{Input, whole};

/// The longest wait that a fault can make.
const LONGEST: i64 = 10 * 60_000;

#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "NewFault")]
#[schemars(extend("anyOf" = [
    {"properties": {"status": {"type": "integer"}}, "required": ["status"]},
    {
        "properties": {
            "latency": {"type": "string"},
            "body": {"type": "null"},
            "headers": {"type": "null"},
        },
        "required": ["latency"],
    },
    {
        "properties": {
            "drop": {"type": "string"},
            "body": {"type": "null"},
            "headers": {"type": "null"},
        },
        "required": ["drop"],
    },
]))]
pub(crate) struct New {
    #[serde(skip_serializing)]
    organization: Option<String>,
    /// Such as `emails.send`; every documented operation where none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OperationName>")]
    operation: Option<String>,
    /// How many requests meet it: 1 where it is not given.
    #[serde(default, deserialize_with = "whole", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maximum" = u32::MAX))]
    times: Option<u32>,
    /// How many matching requests pass before.
    #[serde(default, deserialize_with = "whole", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maximum" = u32::MAX))]
    skip: Option<u32>,
    #[serde(default, deserialize_with = "whole", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 200, max = 599))]
    status: Option<u16>,
    /// A text as it is, anything else as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AnswerHeaders>")]
    headers: Option<Map<String, Value>>,
    /// A duration such as `250ms`, in real time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Duration>")]
    latency: Option<String>,
    /// Cuts the connection before the request is processed, after it, or
    /// midway through the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["before", "after", "midway", null]))]
    drop: Option<String>,
}

/// A fault as it was asked for, and what met it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Fault")]
pub(crate) struct View<'a> {
    id: &'a str,
    #[serde(flatten)]
    #[schemars(with = "New")]
    asked: &'a Value,
    /// Requests that still meet it.
    remaining: u32,
    met: Vec<Met>,
}

/// A request that met a fault.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FaultMet")]
struct Met {
    #[schemars(with = "schema::Time")]
    at: String,
    operation: String,
}

pub(super) async fn create(mut input: Input) -> Reply {
    let new: New = input.object().await?;
    let (operation, effect) = new.resolve()?;
    let organization =
        named(&input, new.organization.clone().or_else(|| organization_of_query(&input))).await?;
    let fault = Fault {
        id: id::new(Prefix::Fault),
        organization,
        operation,
        effect,
        skip: new.skip.unwrap_or(0),
        times: new.times.unwrap_or(1),
        met: Vec::new(),
        shown: serde_json::to_value(&new).map_err(ApiError::internal)?,
    };
    let (app, added) = (Arc::clone(&input.app), fault.clone());
    input.app.store.write(move |tx| Faults::add(tx, &app, &added)).await?;
    reply(StatusCode::CREATED, &describe(&fault))
}

pub(super) async fn list(input: Input) -> Reply {
    let organization = named(&input, organization_of_query(&input)).await?;
    let faults = input.app.faults.list(organization);
    reply(StatusCode::OK, &faults.iter().map(describe).collect::<Vec<_>>())
}

pub(super) async fn get(input: Input) -> Reply {
    let organization = named(&input, organization_of_query(&input)).await?;
    let faults = input.app.faults.list(organization);
    let fault = faults.iter().find(|fault| fault.id == input.id());
    reply(StatusCode::OK, &describe(fault.ok_or_else(|| ApiError::not_found("fault"))?))
}

/// All of them.
pub(super) async fn clear(input: Input) -> Reply {
    remove(&input, None).await?;
    no_content()
}

pub(super) async fn delete(input: Input) -> Reply {
    if remove(&input, Some(input.id().to_owned())).await? {
        return no_content();
    }
    Err(ApiError::not_found("fault"))
}

async fn remove(input: &Input, id: Option<String>) -> Result<bool, ApiError> {
    let organization = named(input, organization_of_query(input)).await?;
    let app = Arc::clone(&input.app);
    input.app.store.write(move |tx| Faults::remove(tx, &app, organization, id)).await
}

/// What a fault that was kept does.
pub(crate) fn read_effect(asked: &str) -> Result<(Option<Operation>, Effect), ApiError> {
    serde_json::from_str::<New>(asked).map_err(ApiError::internal)?.resolve()
}

async fn named(input: &Input, name: Option<String>) -> Result<i64, ApiError> {
    let app = Arc::clone(&input.app);
    let find = move |connection: &rusqlite::Connection| {
        organization(connection, &app.settings, name.as_deref())
    };
    input.app.store.read(find).await
}

impl New {
    fn resolve(&self) -> Result<(Option<Operation>, Effect), ApiError> {
        let mut problems = Problems::default();
        let operation = self.operation.as_deref().and_then(|name| {
            let found = operation(name);
            if found.is_none() {
                problems.add("operation", "is no documented operation, such as emails.send");
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
            let latency = time::parse_duration(text).filter(|ms| *ms <= LONGEST);
            if latency.is_none() {
                problems.add("latency", "must be a duration of at most 10m, such as 250ms");
            }
            latency
        });
        let drop = self.drop.as_deref().and_then(|word| match word {
            "before" => Some(Drop::Before),
            "after" => Some(Drop::After),
            "midway" => Some(Drop::Midway),
            _ => {
                problems.add("drop", "must be before, after or midway");
                None
            }
        });
        if self.status.is_none() && self.latency.is_none() && self.drop.is_none() {
            problems.add("", "must have a status, a latency or a drop");
        }
        problems.check()?;
        let body = match &self.body {
            None => Vec::new(),
            Some(Value::String(text)) => text.clone().into_bytes(),
            Some(json) => json.to_string().into_bytes(),
        };
        let answer = status.map(|status| FaultAnswer { status, headers, body });
        let latency = Duration::from_millis(latency.unwrap_or(0).unsigned_abs());
        Ok((operation, Effect { latency, answer, drop }))
    }

    fn header_map(&self, problems: &mut Problems) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !matches!(self.body, None | Some(Value::String(_))) {
            let json = HeaderValue::from_static("application/json");
            headers.insert(http::header::CONTENT_TYPE, json);
        }
        for (name, value) in self.headers.iter().flatten() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            match (HeaderName::try_from(name), HeaderValue::try_from(text)) {
                (Ok(name), _) if FRAMING.contains(&name.as_str()) => {
                    problems.add(format!("headers.{name}"), "is the connection's own");
                }
                (Ok(name), Ok(value)) => {
                    headers.insert(name, value);
                }
                _ => problems.add("headers", "holds a name or a value that is none"),
            }
        }
        headers
    }
}

/// What frames an answer is not for the choosing.
const FRAMING: [&str; 3] = ["content-length", "transfer-encoding", "connection"];

/// By its name within its service, or with the service before it where both
/// services have the name: `extraction webhooks.list`.
fn operation(name: &str) -> Option<Operation> {
    let all = Operation::ALL.into_iter();
    let email_first = all.rev();
    email_first
        .clone()
        .find(|operation| operation.to_string() == name)
        .or_else(|| email_first.into_iter().find(|operation| operation.name() == name))
}

schema::texts! {
    /// What `operation` finds.
    OperationName => {
        let all = Operation::ALL.iter();
        let names = all.flat_map(|operation| [operation.name().to_owned(), operation.to_string()]);
        let names: std::collections::BTreeSet<String> = names.collect();
        json_schema!({"type": "string", "enum": names})
    }
    /// What `header_map` takes.
    AnswerHeaders => json_schema!({
        "type": "object",
        "propertyNames": {"pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", "not": {"enum": FRAMING}},
        "additionalProperties": {"pattern": "^[^\\u0000-\\u0008\\u000a-\\u001f\\u007f]*$"},
    }),
}

fn describe(fault: &Fault) -> View<'_> {
    let met = fault
        .met
        .iter()
        .map(|met| Met { at: time::rfc3339(met.at), operation: met.operation.to_string() });
    View { id: &fault.id, asked: &fault.shown, remaining: fault.times, met: met.collect() }
}
