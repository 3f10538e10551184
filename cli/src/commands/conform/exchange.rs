//! Requests and responses as they were sent and received.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use reqwest::header::{HeaderMap, HeaderValue};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use svc_sdk::{Attempt, Operation};

use crate::context::{beginning, masked_message};
use crate::signing::tag;

/// A request and its response.
#[derive(Clone, Default)]
pub(super) struct Exchange {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) operation: Option<Operation>,
    pub(super) method: String,
    pub(super) url: String,
    pub(super) request_headers: Vec<(String, String)>,
    pub(super) request_body: Vec<u8>,
    /// A delivery to our own endpoint, which gave this response.
    pub(super) is_delivery: bool,
}

impl Exchange {
    fn of(attempt: &Attempt<'_>) -> Option<Self> {
        let request = attempt.request();
        Some(Self {
            operation: attempt.operation,
            status: attempt.status?.as_u16(),
            headers: texts(attempt.response_headers()?),
            body: attempt.response_body().to_vec(),
            method: attempt.method.to_owned(),
            url: attempt.url.to_owned(),
            request_body: request.body().unwrap_or_default(),
            request_headers: request.headers,
            ..Self::default()
        })
    }

    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name)?;
        Some(&found.1)
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim().to_owned()
    }

    /// The exchange as the checks see it. `secrets` are those of webhooks, by the step that created them.
    pub(super) fn to_json(&self, secrets: &BTreeMap<&'static str, String>) -> Value {
        let sign = |secret: &String| hex::encode(tag(secret.as_bytes(), &self.request_body));
        let tags = secrets.iter().map(|(step, secret)| (*step, sign(secret)));
        let text = self.text();
        let raw = serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap_or_default();
        json!({
            "status": self.status,
            "is_delivery": self.is_delivery,
            "headers": by_name(&self.headers, Clone::clone),
            "body": with_plain_names(&raw),
            "raw": raw,
            "text": text,
            "sent": serde_json::from_slice::<Value>(&self.request_body).unwrap_or_default(),
            "request_text": String::from_utf8_lossy(&self.request_body),
            "request_headers": by_name(&self.request_headers, Clone::clone),
            "tags": tags.collect::<BTreeMap<_, _>>(),
        })
    }

    /// The exchange as the report shows it, without these secrets.
    pub(super) fn shown(&self, secrets: &[String]) -> Shown {
        let without = |text: &String| {
            let hide = |text: String, secret: &String| text.replace(secret.as_str(), "***");
            secrets.iter().fold(text.clone(), hide)
        };
        let mask = |headers: &[(String, String)], body: &[u8]| {
            let (headers, body) = masked_message(headers.iter().cloned(), body);
            (by_name(&headers, without), without(&body))
        };

        let (request_headers, request_body) = mask(&self.request_headers, &self.request_body);
        let (headers, body) = mask(&self.headers, &self.body);
        Shown {
            request: without(&format!("{} {}", self.method, self.url)),
            request_headers,
            request_body: beginning(&request_body).to_owned(),
            status: self.status,
            headers,
            body: beginning(&body).to_owned(),
        }
    }
}

/// A value whose names have no case, separators and namespace. Of several that are one, the name without
/// separators counts.
fn with_plain_names(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut plain = Map::new();
            for (name, value) in fields {
                let local = name.rsplit(':').next().unwrap_or_default();
                let letters = local.chars().filter(char::is_ascii_alphanumeric);
                let letters = letters.collect::<String>();
                if letters == *name || !plain.contains_key(&letters.to_ascii_lowercase()) {
                    plain.insert(letters.to_ascii_lowercase(), with_plain_names(value));
                }
            }
            plain.into()
        }
        Value::Array(items) => items.iter().map(with_plain_names).collect(),
        other => other.clone(),
    }
}

/// Headers as texts.
pub(super) fn texts(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let texts = headers.iter();
    texts
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect()
}

fn by_name(headers: &[(String, String)], change: impl Fn(&String) -> String) -> Map<String, Value> {
    let headers = headers.iter();
    headers
        .map(|(name, value)| (name.clone(), change(value).into()))
        .collect()
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
