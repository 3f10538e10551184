//! The `webhooks` section of a description: every event with the headers and the body of
//! its deliveries, generated from the types that the deliveries are serialized from.

use std::sync::LazyLock;

use schemars::Schema;
use serde_json::{Value, json};
use svc_sdk::Service;

use crate::http::openapi::DescribeDelivery;
use crate::http::openapi::document::{Document, Part};
use crate::model::Event;

/// The description of every event, by its name.
pub(super) fn describe(document: &mut Document<'_>, deliveries: DescribeDelivery) -> Value {
    let mut webhooks = json!({});
    for event in Event::ALL {
        let service = event.service();
        if document.includes(Part::Service(service)) {
            let dialect = &document.settings.dialect;
            let body = deliveries(Some(*event), dialect, &mut document.responses);
            webhooks[event.as_str()] = webhook(service, event.as_str(), event.description(), &body);
        }
    }

    if document.includes(Part::Service(Service::Email)) {
        let dialect = &document.settings.dialect;
        let body = deliveries(None, dialect, &mut document.responses);
        let description = "The test operation was called. Webhooks cannot subscribe to this event, \
                           and it is not retried.";
        webhooks[Event::TEST] = webhook(Service::Email, Event::TEST, description, &body);
    }
    webhooks
}

fn webhook(service: Service, event: &str, description: &str, body: &Schema) -> Value {
    let capitalized = event
        .split(['.', '_'])
        .map(|word| word[..1].to_ascii_uppercase() + &word[1..]);
    json!({"post": {
        "operationId": format!("on{}", capitalized.collect::<String>()),
        "tags": ["Events"],
        "summary": format!("`{event}`"),
        "description": description,
        "security": [],
        "parameters": headers(service, event),
        "requestBody": {
            "required": true,
            "content": {"application/json": {"schema": {
                "allOf": [body, {"properties": {"event": {"const": event}}}],
            }}},
        },
        "responses": {
            "2XX": {"description": "The delivery succeeded. The server waits ten seconds for the response."},
            "default": {"description": "The delivery failed, and is retried. Redirects are not followed."},
        },
    }})
}

/// The headers of each service. That of the event comes first, without its schema.
static HEADERS: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("webhook_headers.json")).expect("JSON"));

fn headers(service: Service, event: &str) -> Value {
    let mut headers = HEADERS[service.as_str()].clone();
    headers[0]["schema"] = json!({"const": event});
    for header in headers.as_array_mut().into_iter().flatten() {
        header["in"] = "header".into();
        header["required"] = true.into();
    }
    headers
}
