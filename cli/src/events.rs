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
    json!({
        "event": event,
        "id": Uuid::now_v7().to_string(),
        "created": now,
        "data": data(event, &now),
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

fn data(event: &str, now: &str) -> Value {
    match event {
        "extraction.completed" => json!({"invoice_number": "2026-001", "total": 42.5}),
        "extraction.failed" => {
            json!({"error": {"code": "unreadable_document", "message": "the document cannot be read"}})
        }
        "email.received" => json!({
            "from": "ada@example.test",
            "to": ["hello@sandbox.test"],
            "subject": "Hello",
            "text": "Hello",
            "html": null,
            "headers": {},
            "attachments": [],
            "spf": "pass",
            "dkim": {"result": "pass", "domain": "example.test", "aligned": true},
            "recipient": "hello@sandbox.test",
            "messageId": format!("msg_{}", Uuid::now_v7()),
            "timestamp": now,
        }),
        _ => {
            let mut data = json!({
                "emailId": format!("eml_{}", Uuid::now_v7()),
                "from": "hello@sandbox.test",
                "recipient": "ada@example.test",
                "subject": "Hello",
                "tags": {},
                "timestamp": now,
            });
            match event {
                "email.bounced" => {
                    data["bounce"] = json!({"type": "hard", "reason": "550 no such mailbox"});
                }
                "email.clicked" => data["click"] = json!({"url": "https://example.test/"}),
                "email.complained" => data["reason"] = "marked as spam by the recipient".into(),
                "email.failed" => data["reason"] = "the message could not be built".into(),
                _ => {}
            }
            data
        }
    }
}
