//! Requests and responses as they were sent and received, and how a response is searched for what
//! the reference documents, whatever is around it.

use std::sync::{Arc, Mutex};

use reqwest::header::{HeaderMap, HeaderValue};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use svc_sdk::{Attempt, Operation};

use crate::context::{beginning, masked_message};

/// A request and its response, under the name of the step that it belongs to.
#[derive(Clone)]
pub(super) struct Exchange {
    pub(super) step: &'static str,
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) operation: Option<Operation>,
    pub(super) method: String,
    pub(super) url: String,
    pub(super) request_headers: Vec<(String, String)>,
    pub(super) request_body: Vec<u8>,
}

impl Exchange {
    fn of(attempt: &Attempt<'_>) -> Option<Self> {
        let request = attempt.request();
        Some(Self {
            step: "",
            operation: attempt.operation,
            status: attempt.status?.as_u16(),
            headers: attempt.response_headers()?.clone(),
            body: attempt.response_body().to_vec(),
            method: attempt.method.to_owned(),
            url: attempt.url.to_owned(),
            request_body: request.body().unwrap_or_default(),
            request_headers: request.headers,
        })
    }

    /// A delivery to our own endpoint, which gave this response.
    pub(super) fn delivery(url: String, headers: &HeaderMap, body: &[u8], status: u16) -> Self {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = headers
            .iter()
            .map(|(name, value)| (name.to_string(), text(value)));
        Self {
            step: "",
            operation: None,
            status,
            headers: HeaderMap::new(),
            body: Vec::new(),
            method: "POST".to_owned(),
            url,
            request_headers: headers.collect(),
            request_body: body.to_vec(),
        }
    }

    pub(super) fn request_header(&self, name: &str) -> Option<&str> {
        let headers = &mut self.request_headers.iter();
        let found = headers.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(&found.1)
    }

    pub(super) fn sent(&self) -> Value {
        serde_json::from_slice(&self.request_body).unwrap_or_default()
    }

    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body. `Null` if it is not JSON.
    pub(super) fn json(&self) -> Value {
        let body = self
            .body
            .strip_prefix(b"\xef\xbb\xbf")
            .unwrap_or(&self.body);
        serde_json::from_str(&String::from_utf8_lossy(body)).unwrap_or_default()
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim().to_owned()
    }

    /// What the report shows of it, without these secrets.
    pub(super) fn shown(&self, secrets: &[String]) -> Shown {
        let without = |text: String| {
            let hide = |text: String, secret: &String| text.replace(secret.as_str(), "***");
            secrets.iter().fold(text, hide)
        };
        let received = self.headers.iter().map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.to_string(), value)
        });
        let (request_headers, request) =
            masked_message(self.request_headers.iter().cloned(), &self.request_body);
        let (headers, response) = masked_message(received, &self.body);
        Shown {
            request: without(format!("{} {}", self.method, self.url)),
            request_headers: hidden(request_headers, &without),
            request_body: beginning(&without(request)).to_owned(),
            status: self.status,
            headers: hidden(headers, &without),
            body: beginning(&without(response)).to_owned(),
        }
    }
}

fn hidden(
    headers: Vec<(String, String)>,
    without: &impl Fn(String) -> String,
) -> Map<String, Value> {
    let hide = |(name, value): (String, String)| (name, without(value).into());
    headers.into_iter().map(hide).collect()
}

/// An exchange in the report.
#[derive(Clone, Serialize, JsonSchema)]
pub struct Shown {
    request: String,
    request_headers: Map<String, Value>,
    request_body: String,
    pub(super) status: u16,
    headers: Map<String, Value>,
    body: String,
}

/// Collects the exchanges of all clients.
#[derive(Clone, Default)]
pub(super) struct Recorder(Arc<Mutex<Vec<Exchange>>>);

impl Recorder {
    pub(super) fn record(&self, attempt: &Attempt<'_>) {
        if let (Some(exchange), Ok(mut all)) = (Exchange::of(attempt), self.0.lock()) {
            all.push(exchange);
        }
    }

    /// The last exchange of the operation that was called since the last time. The client may have
    /// called others to find out what became of it.
    pub(super) fn take(&self) -> Option<Exchange> {
        let mut all = std::mem::take(&mut *self.0.lock().ok()?);
        let operation = all.first()?.operation;
        all.retain(|exchange| exchange.operation == operation);
        all.pop()
    }
}

/// A name without case, separators and namespace: `signingSecret`, `SigningSecret` and `signing_secret` are one.
pub(super) fn plain(name: &str) -> String {
    let own = name.rsplit(':').next().unwrap_or(name);
    let letters = own.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Every object in a value, the outer ones first.
pub(super) fn objects(value: &Value) -> Vec<&Map<String, Value>> {
    let mut found = Vec::new();
    let mut level = vec![value];
    while !level.is_empty() {
        let mut next = Vec::new();
        for value in level {
            match value {
                Value::Object(fields) => {
                    found.push(fields);
                    next.extend(fields.values());
                }
                Value::Array(items) => next.extend(items),
                _ => {}
            }
        }
        level = next;
    }
    found
}

/// The field of an object with this name, in any case.
pub(super) fn own<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<(&'a str, &'a Value)> {
    let is_named = |(known, _): &(&String, &Value)| plain(known) == plain(name);
    let exact = fields.get_key_value(name);
    let (name, value) = exact.or_else(|| fields.iter().find(is_named))?;
    Some((name, value))
}

/// What is at a path of names, such as `error.message`.
pub(super) fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.')
        .try_fold(value, |value, name| Some(own(value.as_object()?, name)?.1))
}

/// The outermost field with this name.
pub(super) fn field<'a>(value: &'a Value, name: &str) -> Option<(&'a str, &'a Value)> {
    objects(value)
        .into_iter()
        .find_map(|fields| own(fields, name))
}

/// The object that has this value in a field of this name: a resource that we have made.
pub(super) fn with<'a>(value: &'a Value, name: &str, text: &str) -> Option<&'a Map<String, Value>> {
    let has_it = |fields: &&Map<String, Value>| {
        own(fields, name).is_some_and(|(_, value)| value.as_str() == Some(text))
    };
    objects(value).into_iter().find(has_it)
}

/// Every object that directly has a field with this name: the resources of a list.
pub(super) fn each<'a>(value: &'a Value, name: &str) -> Vec<&'a Map<String, Value>> {
    let mut found = objects(value);
    found.retain(|fields| own(fields, name).is_some());
    found
}

/// A true or false, also as a text.
pub(super) fn flag(value: &Value) -> Option<bool> {
    let text = match value {
        Value::Bool(flag) => return Some(*flag),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.to_lowercase(),
        _ => return None,
    };
    match text.as_str() {
        "true" | "yes" | "y" | "1" => Some(true),
        "false" | "no" | "n" | "0" => Some(false),
        _ => None,
    }
}

/// A list of a response: its items, and the names of the fields that lead to it.
pub(super) struct Items<'a> {
    pub(super) items: Vec<&'a Value>,
    pub(super) path: Vec<&'a str>,
}

/// The outermost list. Nothing, and an empty object, are an empty one.
pub(super) fn items(value: &Value) -> Option<Items<'_>> {
    const NEVER: [&str; 5] = ["links", "errors", "included", "warnings", "meta"];
    let mut level = vec![(value, Vec::new())];
    while !level.is_empty() {
        let mut next = Vec::new();
        for (value, path) in level {
            match value {
                Value::Array(items) => {
                    let items = items.iter().collect();
                    return Some(Items { items, path });
                }
                Value::Object(fields) => {
                    for (name, value) in fields {
                        if !NEVER.contains(&plain(name).as_str()) {
                            next.push((value, [&path[..], &[name.as_str()]].concat()));
                        }
                    }
                }
                _ => {}
            }
        }
        level = next;
    }
    None
}
