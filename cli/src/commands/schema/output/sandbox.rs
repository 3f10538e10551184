//! Output schemas of the `svc sandbox` commands.

use serde_json::{Value, json};

use super::{boolean, integer, list, nullable, one_of, own_object, service_object, string};

pub(super) fn of(path: &str) -> Option<Value> {
    Some(match path.strip_prefix("sandbox ")? {
        "serve" => json!({
            "type": "object",
            "description": "one line, printed when the server is ready",
            "properties": {
                "http": string(),
                "dns": string(),
                "smtp": nullable("string"),
                "data": nullable("string"),
                "control_token": string(),
            },
            "required": ["http", "dns", "smtp", "data"],
            "additionalProperties": false,
        }),
        "status" => service_object(&[
            ("status", one_of(&["ok", "not running"])),
            ("data", string()),
            ("version", string()),
            ("now", string()),
            (
                "addresses",
                service_object(&[
                    ("http", string()),
                    ("dns", string()),
                    ("smtp", nullable("string")),
                ]),
            ),
        ]),
        "stop" => json!({
            "type": "object",
            "properties": {"stopped": boolean(), "http": string()},
            "required": ["stopped"],
            "additionalProperties": false,
        }),
        "organizations create" => service_object(&[
            ("id", string()),
            ("name", string()),
            ("email_key", string()),
            ("extraction_key", string()),
        ]),
        "organizations list" => list(service_object(&[
            ("id", string()),
            ("name", string()),
            ("balance_cents", integer()),
        ])),
        "keys create" => key(),
        "keys list" => list(key()),
        "templates put" | "templates get" => service_object(&[
            ("id", string()),
            ("subject", nullable("string")),
            ("html", nullable("string")),
            ("text", nullable("string")),
        ]),
        "dns publish" => {
            service_object(&[("published", list(service_object(&[("kind", string())])))])
        }
        "dns withdraw" | "faults remove" | "reset" => own_object(&[("ok", boolean())]),
        "messages list" => list(message()),
        "messages wait" => message(),
        "messages get" => json!({"anyOf": [
            message(),
            own_object(&[("text", json!({"type": "string", "description": "with --raw or --html"}))]),
            service_object(&[("links", list(string())), ("codes", list(string()))]),
        ]}),
        "event" => {
            service_object(&[("id", string()), ("status", string()), ("lastEvent", string())])
        }
        "inbound" => service_object(&[(
            "messages",
            list(service_object(&[("id", string()), ("recipient", string())])),
        )]),
        "extraction" => {
            service_object(&[("id", string()), ("event", string()), ("deliveries", list(string()))])
        }
        "deliveries list" => list(delivery()),
        "deliveries get" => delivery(),
        "deliveries replay" => service_object(&[]),
        "clock show" | "clock freeze" | "clock advance" | "clock resume" => service_object(&[
            ("now", string()),
            ("frozen", boolean()),
            ("settled", boolean()),
            ("next_due", nullable("string")),
        ]),
        "faults add" | "faults get" => fault(),
        "faults list" => list(fault()),
        _ => return None,
    })
}

fn key() -> Value {
    service_object(&[
        ("id", string()),
        ("service", one_of(&["email", "extraction"])),
        ("mode", string()),
        ("scopes", list(string())),
        ("scope", string()),
        ("key", json!({"type": "string", "description": "only when the key is created"})),
    ])
}

fn message() -> Value {
    service_object(&[
        ("id", string()),
        ("direction", one_of(&["outgoing", "incoming"])),
        ("emailId", nullable("string")),
        ("from", string()),
        ("recipient", string()),
        ("subject", nullable("string")),
    ])
}

fn delivery() -> Value {
    service_object(&[
        ("id", string()),
        ("webhook", nullable("string")),
        ("event", string()),
        ("state", string()),
        ("attemptCount", integer()),
        ("nextDueAt", nullable("string")),
        ("attempts", list(service_object(&[("number", integer()), ("startedAt", string())]))),
    ])
}

fn fault() -> Value {
    service_object(&[
        ("id", string()),
        ("remaining", nullable("integer")),
        ("hits", list(service_object(&[]))),
    ])
}
