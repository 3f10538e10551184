//! `/_sandbox/faults`: adds, lists and removes faults, which affect the next matching
//! requests (`docs/control-interface.md#faults`).

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use svc_sdk::Operation;

use crate::api::framework::route::{ID, Routes};
use crate::api::framework::{ControlCall, Json, NoContent};
use crate::control::faults::{
    self as control, DropPoint, FRAMING, Fault, FaultHit, NewFault, operation,
};
use crate::model::error::{ApiError, Code, Problems};
use crate::model::id::{self, Prefix};
use crate::model::time;
use crate::store::faults::{self, Effect, FaultResponse};

pub(crate) fn routes(r: &mut Routes) {
    r.tag("Sandbox faults");
    r.control(control::LIST, list);
    r.control(control::ADD, add).errors(&[Code::Conflict]).links(ID, "/_sandbox/faults/{");
    r.control(control::CLEAR, clear);
    r.control(control::FAULT, get);
    r.control(control::REMOVE, remove);
}

/// Maximum number of headers of a response.
const MAX_HEADERS: usize = 100;
/// Maximum latency, in milliseconds.
const MAX_LATENCY: i64 = 10 * 60_000;

pub(crate) async fn add(call: ControlCall<NewFault>) -> Result<Json<Fault, 201>, ApiError> {
    let new = NewFault { organization: None, ..call.body.clone() };
    let (operation, effect) = new.resolve()?;
    let fault = faults::Fault {
        id: id::new(Prefix::Fault),
        organization: call.organization,
        operation,
        effect,
        skip: new.skip.unwrap_or(0),
        times: new.times.unwrap_or(1),
        hits: Vec::new(),
        definition: serde_json::to_value(&new).map_err(ApiError::internal)?,
    };
    let (app, added) = (Arc::clone(call.app()), fault.clone());
    call.app().store.write(move |tx| app.faults.add(tx, &added)).await?;
    Json::of(&describe(&fault)?)
}

pub(crate) async fn list(call: ControlCall) -> Result<Json<Vec<Fault>>, ApiError> {
    let faults = call.app().faults.list(call.organization);
    Json::of(&faults.iter().map(describe).collect::<Result<Vec<_>, _>>()?)
}

pub(crate) async fn get(call: ControlCall) -> Result<Json<Fault>, ApiError> {
    let faults = call.app().faults.list(call.organization);
    let fault = faults.iter().find(|fault| fault.id == call.id());
    Json::of(&describe(fault.ok_or_else(|| ApiError::not_found("fault"))?)?)
}

/// Removes all faults of the organization.
pub(crate) async fn clear(call: ControlCall) -> Result<NoContent, ApiError> {
    remove_from(&call, None).await?;
    Ok(NoContent)
}

pub(crate) async fn remove(call: ControlCall) -> Result<NoContent, ApiError> {
    if remove_from(&call, Some(call.id())).await? {
        return Ok(NoContent);
    }
    Err(ApiError::not_found("fault"))
}

async fn remove_from(call: &ControlCall, id: Option<String>) -> Result<bool, ApiError> {
    let (organization, app) = (call.organization, Arc::clone(call.app()));
    call.app().store.write(move |tx| app.faults.remove(tx, organization, id)).await
}

/// Parses the stored definition of a fault.
pub(crate) fn parse_definition(definition: &str) -> Result<(Option<Operation>, Effect), ApiError> {
    serde_json::from_str::<NewFault>(definition).map_err(ApiError::internal)?.resolve()
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
