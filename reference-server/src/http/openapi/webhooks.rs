//! The `webhooks` section of a description: every event with the headers and the body of
//! its deliveries, generated from the types that the deliveries are serialized from.

use schemars::Schema;
use serde_json::{Value, json};
use svc_sdk::Service;

use crate::http::openapi::DescribeDelivery;
use crate::http::openapi::document::{Document, Part, parameter};
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

/// The headers of a delivery.
fn headers(service: Service, event: &str) -> Vec<Value> {
    let name = "The name of the event. The signature does not cover it.";
    let event = json!({"const": event});
    let headers = match service {
        Service::Email => vec![
            ("Mail-Event", name, event),
            (
                "Mail-Delivery-Id",
                "The ID of the delivery; the same on every attempt, and equal to `id` in the body.",
                json!({"type": "string", "format": "uuid"}),
            ),
            (
                "Mail-Attempt",
                "The number of the attempt; the first is 1.",
                json!({"type": "integer", "minimum": 1}),
            ),
            (
                "Mail-Signature",
                "The HMAC-SHA256 of the raw body in hex, keyed with the webhook's `signingSecret`.",
                json!({"type": "string", "pattern": "^[0-9a-f]{64}$"}),
            ),
        ],
        _ => vec![
            ("X-Service-Event", name, event),
            (
                "X-Service-Signature",
                "`sha256=` followed by the HMAC-SHA256 of the raw body in hex, keyed with the endpoint's `secret`.",
                json!({"type": "string", "pattern": "^sha256=[0-9a-f]{64}$"}),
            ),
        ],
    };
    let describe =
        |(name, description, schema)| parameter("header", name, true, description, &schema);
    headers.into_iter().map(describe).collect()
}
