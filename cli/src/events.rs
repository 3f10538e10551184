//! The documented events of both services, with sample deliveries
//! (`docs/email-service/webhooks.md#events` and `docs/extraction-service/README.md#events`).

use chrono::{SecondsFormat, Utc};
use serde_json::{Value, json};
use svc_sdk::Service;
use uuid::Uuid;
use webhook_verify::Event;

/// The names of the documented events of both services.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    Event::DOCUMENTED.iter().map(Event::as_str)
}

/// The service that sends an event.
pub fn service_of(event: &str) -> Service {
    if event.starts_with("extraction.") {
        Service::Extraction
    } else {
        Service::Email
    }
}

/// A body of the event, with a new id and the current time.
pub fn sample(event: &str) -> Value {
    let now = Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true);
    let data = include_str!("events.json").replace("{now}", &now);
    let data = data.replace("{id}", &Uuid::now_v7().to_string());
    let data = serde_json::from_str::<Value>(&data).unwrap_or_default();
    json!({
        "event": event,
        "id": Uuid::now_v7().to_string(),
        "created": now,
        "data": data[event],
    })
}

/// The headers of the delivery, without the signature.
pub fn headers(service: Service, body: &Value) -> Vec<(&'static str, String)> {
    let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        (
            "user-agent",
            concat!("svc/", env!("CARGO_PKG_VERSION")).to_owned(),
        ),
    ];
    match service {
        Service::Extraction => headers.push(("x-service-event", text("event"))),
        _ => headers.extend([
            ("mail-event", text("event")),
            ("mail-delivery-id", text("id")),
            ("mail-attempt", "1".to_owned()),
        ]),
    }
    headers
}
