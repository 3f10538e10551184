//! Output schemas of the `svc sandbox` commands.

use serde_json::{Value, json};

use super::{boolean, integer, list, nullable, one_of, ours, string, theirs};

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
        "status" => theirs(&[
            ("status", one_of(&["ok", "not running"])),
            ("data", string()),
            ("version", string()),
            ("now", string()),
            (
                "addresses",
                theirs(&[("http", string()), ("dns", string()), ("smtp", nullable("string"))]),
            ),
        ]),
        "stop" => json!({
            "type": "object",
            "properties": {"stopped": boolean(), "http": string()},
            "required": ["stopped"],
            "additionalProperties": false,
        }),
        "organizations create" => theirs(&[
            ("id", string()),
            ("name", string()),
            ("email_key", string()),
            ("extraction_key", string()),
        ]),
        "organizations list" => {
            list(theirs(&[("id", string()), ("name", string()), ("balance_cents", integer())]))
        }
        "keys create" => key(),
        "keys list" => list(key()),
        "templates put" | "templates get" => theirs(&[
            ("id", string()),
            ("subject", nullable("string")),
            ("html", nullable("string")),
            ("text", nullable("string")),
        ]),
        "dns publish" => theirs(&[("published", list(theirs(&[("kind", string())])))]),
        "dns withdraw" | "faults remove" | "reset" => ours(&[("ok", boolean())]),
        "messages list" => list(message()),
        "messages wait" => message(),
        "messages get" => json!({"anyOf": [
            message(),
            ours(&[("text", json!({"type": "string", "description": "with --raw or --html"}))]),
            theirs(&[("links", list(string())), ("codes", list(string()))]),
        ]}),
        "event" => theirs(&[("id", string()), ("status", string()), ("lastEvent", string())]),
        "inbound" => {
            theirs(&[("messages", list(theirs(&[("id", string()), ("recipient", string())])))])
        }
        "extraction" => {
            theirs(&[("id", string()), ("event", string()), ("deliveries", list(string()))])
        }
        "deliveries list" => list(delivery()),
        "deliveries get" => delivery(),
        "deliveries replay" => theirs(&[]),
        "clock show" | "clock freeze" | "clock advance" | "clock resume" => theirs(&[
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
    theirs(&[
        ("id", string()),
        ("service", one_of(&["email", "extraction"])),
        ("mode", string()),
        ("scopes", list(string())),
        ("scope", string()),
        ("key", json!({"type": "string", "description": "only when the key is created"})),
    ])
}

fn message() -> Value {
    theirs(&[
        ("id", string()),
        ("direction", one_of(&["outgoing", "incoming"])),
        ("emailId", nullable("string")),
        ("from", string()),
        ("recipient", string()),
        ("subject", nullable("string")),
    ])
}

fn delivery() -> Value {
    theirs(&[
        ("id", string()),
        ("webhook", nullable("string")),
        ("event", string()),
        ("state", string()),
        ("attemptCount", integer()),
        ("nextDueAt", nullable("string")),
        ("attempts", list(theirs(&[("number", integer()), ("startedAt", string())]))),
    ])
}

fn fault() -> Value {
    theirs(&[("id", string()), ("remaining", nullable("integer")), ("hits", list(theirs(&[])))])
}
