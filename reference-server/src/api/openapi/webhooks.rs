//! The `webhooks` section of a description: every event with the headers and the body of
//! its deliveries, generated from the types that the deliveries are serialized from.

use schemars::Schema;
use serde_json::{Map, Value, json};
use svc_sdk::Service;

use super::document::Document;
use super::part::Part;
use crate::delivery::payload;
use crate::delivery::webhook;
use crate::model::event::Event;

/// The description of every event, by its name.
pub(super) fn describe(document: &mut Document<'_>) -> Map<String, Value> {
    let part = document.part;
    let mut webhooks = Map::new();
    for event in Event::ALL {
        let service = match event.service() {
            Service::Email => Part::Email,
            _ => Part::Extraction,
        };
        if part.includes(service) {
            let compatibility = &document.settings.compatibility;
            let body = payload::schema(*event, compatibility, &mut document.responses);
            let retries = retries(event.service());
            let webhook =
                webhook(event.service(), event.as_str(), event.description(), &body, &retries);
            webhooks.insert(event.as_str().to_owned(), webhook);
        }
    }
    if part.includes(Part::Email) {
        let body = document.response_schema::<payload::Body<'_, payload::Test<'_>>>();
        let description = "The test operation was called. Webhooks cannot subscribe to this event.";
        let webhook =
            webhook(Service::Email, Event::TEST, description, &body, "It is not retried.");
        webhooks.insert(Event::TEST.to_owned(), webhook);
    }
    webhooks
}

fn webhook(
    service: Service,
    event: &str,
    description: &str,
    body: &Schema,
    retries: &str,
) -> Value {
    let id: String = event.split(['.', '_']).map(capitalize).collect();
    json!({"post": {
        "operationId": format!("on{id}"),
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
            "default": {"description": format!("The delivery failed. {retries} Redirects are not followed.")},
        },
    }})
}

/// The headers of a delivery.
fn headers(service: Service, event: &str) -> Vec<Value> {
    let header = |name: &str, description: &str, schema: Value| json!({"name": name, "in": "header", "description": description, "required": true, "schema": schema});
    let event = json!({"const": event});
    match service {
        Service::Email => vec![
            header("Mail-Event", "The name of the event. The signature does not cover it.", event),
            header(
                "Mail-Delivery-Id",
                "The ID of the delivery; the same on every attempt, and equal to `id` in the body.",
                json!({"type": "string", "format": "uuid"}),
            ),
            header(
                "Mail-Attempt",
                "The number of the attempt; the first is 1.",
                json!({"type": "integer", "minimum": 1}),
            ),
            header(
                "Mail-Signature",
                "The HMAC-SHA256 of the raw body in hex, keyed with the webhook's `signingSecret`.",
                json!({"type": "string", "pattern": "^[0-9a-f]{64}$"}),
            ),
        ],
        _ => vec![
            header(
                "X-Service-Event",
                "The name of the event. The signature does not cover it.",
                event,
            ),
            header(
                "X-Service-Signature",
                "`sha256=` followed by the HMAC-SHA256 of the raw body in hex, keyed with the endpoint's `secret`.",
                json!({"type": "string", "pattern": "^sha256=[0-9a-f]{64}$"}),
            ),
        ],
    }
}

fn retries(service: Service) -> String {
    let delays: Vec<String> =
        webhook::schedule(service).iter().map(|delay| format!("{} s", delay / 1000)).collect();
    format!("It is retried with these delays after the previous attempt: {}.", delays.join(", "))
}

fn capitalize(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
