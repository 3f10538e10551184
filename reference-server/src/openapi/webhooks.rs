//! The `webhooks` of a description: every event that a service tells of, with
//! the body and the headers that its deliveries have, from the types that they
//! are written from.

use schemars::{JsonSchema, Schema, json_schema};
use serde::Serialize;
use serde_json::{Map, Value, json};
use svc_sdk::Service;

use super::Part;
use super::document::Document;
use crate::engine::{delivery_worker, payload};
use crate::inbound::ReceivedEmail;
use crate::switches::FailedError;
use crate::webhooks::Event;

/// By the events' names.
pub(super) fn describe(document: &mut Document<'_>) -> Map<String, Value> {
    let part = document.part;
    let mut webhooks = Map::new();
    for event in Event::ALL {
        let service = match event.service() {
            Service::Email => Part::Email,
            Service::Extraction => Part::Extraction,
        };
        if part.has(service) {
            let (about, body) = of_event(document, *event);
            let row = row(event.service(), event.as_str(), about, &body, &retries(event.service()));
            webhooks.insert(event.as_str().to_owned(), row);
        }
    }
    if part.has(Part::Email) {
        let body = document.answer::<payload::Body<'_, payload::Test<'_>>>();
        let about = "The test operation was called; nobody subscribes to this one.";
        let row = row(Service::Email, Event::TEST, about, &body, "There is no second attempt.");
        webhooks.insert(Event::TEST.to_owned(), row);
    }
    webhooks
}

/// When it fires (`docs/email-service/events.md`, `docs/extraction-service/events.md`), and the
/// body of its deliveries.
fn of_event(document: &mut Document<'_>, event: Event) -> (&'static str, Schema) {
    use payload::{Body, Bounced, Clicked, Outgoing, WithReason};
    match event {
        Event::EmailSent => (
            "An email was accepted and sent to the recipient's server.",
            document.answer::<Body<'_, Outgoing<'_>>>(),
        ),
        Event::EmailDelivered => (
            "An email was delivered to the recipient's mailbox.",
            document.answer::<Body<'_, Outgoing<'_>>>(),
        ),
        Event::EmailBounced => (
            "The delivery of an email failed, for good (hard) or after all retries (soft).",
            document.answer::<Body<'_, Bounced<'_>>>(),
        ),
        Event::EmailOpened => {
            ("A recipient opened an email.", document.answer::<Body<'_, Outgoing<'_>>>())
        }
        Event::EmailClicked => {
            ("A recipient followed a link of an email.", document.answer::<Body<'_, Clicked<'_>>>())
        }
        Event::EmailComplained => {
            ("A recipient marked an email as spam.", document.answer::<Body<'_, WithReason<'_>>>())
        }
        Event::EmailFailed => (
            "The sending of an email failed because of an error.",
            document.answer::<Body<'_, WithReason<'_>>>(),
        ),
        Event::EmailReceived => (
            "An email came in for a verified domain.",
            document.answer::<Body<'_, ReceivedEmail<'_>>>(),
        ),
        Event::ExtractionCompleted => (
            "An extraction finished; `data` are the extracted fields.",
            document.answer::<Body<'_, Fields>>(),
        ),
        Event::ExtractionFailed => {
            let body = match document.settings.switches.failed_error {
                FailedError::Object => document.answer::<Body<'_, Failure<FailureObject>>>(),
                FailedError::Text => document.answer::<Body<'_, Failure<String>>>(),
            };
            ("An extraction could not complete.", body)
        }
    }
}

fn row(service: Service, event: &str, about: &str, body: &Schema, retries: &str) -> Value {
    let id: String = event.split(['.', '_']).map(capitalised).collect();
    json!({"post": {
        "operationId": format!("on{id}"),
        "tags": ["Events"],
        "summary": format!("`{event}`"),
        "description": about,
        "security": [],
        "parameters": headers(service, event),
        "requestBody": {
            "required": true,
            "content": {"application/json": {"schema": {
                "allOf": [body],
                "properties": {"event": {"const": event}},
            }}},
        },
        "responses": {
            "2XX": {"description": "It has arrived. The answer is awaited for ten seconds."},
            "default": {"description": format!("It has not arrived. {retries} Redirects are not followed.")},
        },
    }})
}

/// What a delivery carries beside its body.
fn headers(service: Service, event: &str) -> Vec<Value> {
    let header = |name: &str, about: &str, schema: Value| json!({"name": name, "in": "header", "description": about, "required": true, "schema": schema});
    let event = json!({"const": event});
    match service {
        Service::Email => vec![
            header("Mail-Event", "The event's name; the signature does not cover it.", event),
            header(
                "Mail-Delivery-Id",
                "The same on every attempt, as in the body.",
                json!({"type": "string", "format": "uuid"}),
            ),
            header("Mail-Attempt", "Counts from 1.", json!({"type": "integer", "minimum": 1})),
            header(
                "Mail-Signature",
                "HMAC-SHA256 of the body's bytes in hex, keyed with the webhook's `signingSecret`.",
                json!({"type": "string", "pattern": "^[0-9a-f]{64}$"}),
            ),
        ],
        Service::Extraction => vec![
            header("X-Service-Event", "The event's name; the signature does not cover it.", event),
            header(
                "X-Service-Signature",
                "`sha256=` and the HMAC-SHA256 of the body's bytes in hex, keyed with the endpoint's `secret`.",
                json!({"type": "string", "pattern": "^sha256=[0-9a-f]{64}$"}),
            ),
        ],
    }
}

fn retries(service: Service) -> String {
    let pauses: Vec<String> = delivery_worker::schedule(service)
        .iter()
        .map(|pause| format!("{} s", pause / 1000))
        .collect();
    format!(
        "It is tried again, each time this long after the attempt before: {}.",
        pauses.join(", ")
    )
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// What was extracted: its names are the template's.
#[derive(Serialize)]
struct Fields;

impl JsonSchema for Fields {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ExtractedFields".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "additionalProperties": true})
    }
}

/// The data that the control interface sends where it is given none.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExtractionFailure", extend("additionalProperties" = true))]
struct Failure<E> {
    error: E,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExtractionError", extend("additionalProperties" = true))]
struct FailureObject {
    code: String,
    message: String,
}
