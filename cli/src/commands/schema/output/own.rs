//! Output schemas of commands that are not a single operation of a service.

use serde_json::{Value, json};

use super::super::describe;
use super::{RECORD, boolean, integer, list, me, nullable, one_of, ours, string, theirs};

pub(super) fn of(path: &str) -> Option<Value> {
    Some(match path {
        "emails batch" => list(theirs(&[
            ("index", nullable("integer")),
            ("result", one_of(&["accepted", "refused", "unknown"])),
            ("id", string()),
            ("status", nullable("string")),
            (
                "error",
                theirs(&[
                    ("code", nullable("string")),
                    ("message", nullable("string")),
                    ("fields", list(theirs(&[("field", string()), ("message", string())]))),
                ]),
            ),
        ])),
        "bulk send" | "bulk resume" | "bulk status" => job(),
        "bulk list" => list(job()),
        "bulk report" => list(ours(&[
            ("row", integer()),
            ("address", string()),
            ("status", one_of(&["accepted", "refused", "invalid", "unknown", "left_out"])),
            ("id", nullable("string")),
            ("code", nullable("string")),
            ("when", string()),
            ("message", nullable("string")),
        ])),
        "contacts import" => list(json!({
            "type": "object",
            "properties": {
                "row": {"type": "integer", "description": "row number as in a spreadsheet: the header is row 1"},
                "email": nullable("string"),
                "result": one_of(&["created", "updated", "skipped", "failed", "unknown"]),
                "id": nullable("string"),
                "error": describe::failure(),
            },
            "required": ["row", "email", "result"],
            "additionalProperties": false,
        })),
        "domains records" => list(json!({
            "type": "object",
            "properties": {
                "kind": nullable("string"),
                "type": nullable("string"),
                "name": nullable("string"),
                "value": nullable("string"),
                "priority": nullable("integer"),
                "dns": one_of(&["matches", "differs", "missing", "unknown"]),
                "why": nullable("string"),
                "found": list(string()),
            },
            "required": RECORD,
            "additionalProperties": false,
        })),
        "login" => ours(&[
            ("profile", string()),
            ("service", service()),
            ("url", string()),
            ("key", masked()),
            ("mode", mode()),
            ("organization", nullable("string")),
            ("credentials", string()),
        ]),
        "logout" => ours(&[("profile", string()), ("deleted", list(service()))]),
        "profiles list" => list(ours(&[
            ("name", string()),
            ("active", boolean()),
            ("email_url", nullable("string")),
            ("email_key", nullable("string")),
            ("extraction_url", nullable("string")),
            ("extraction_key", nullable("string")),
            ("organization", nullable("string")),
        ])),
        "profiles use" => ours(&[("profile", string())]),
        "profiles remove" => ours(&[("profile", string()), ("removed", boolean())]),
        "whoami" => whoami(),
        "doctor" => list(ours(&[
            ("status", one_of(&["ok", "warning", "problem", "unknown"])),
            ("check", string()),
            ("finding", string()),
            ("next", nullable("string")),
        ])),
        "config show" => {
            list(ours(&[("setting", string()), ("value", json!({})), ("from", string())]))
        }
        "config path" => ours(&[
            ("config", string()),
            ("credentials", string()),
            ("data", string()),
            ("sandbox", string()),
        ]),
        "listen" => json!({
            "description": "one line each: first the address, then every delivery",
            "oneOf": [listening(), received()],
        }),
        "replay" => list(json!({
            "type": "object",
            "properties": {
                "id": string(),
                "event": nullable("string"),
                "event_id": nullable("string"),
                "to": nullable("string"),
                "status": nullable("integer"),
                "duration_ms": integer(),
                "problem": string(),
                "received_at": string(),
                "service": service(),
                "headers": json!({"type": "array"}),
                "body": json!({"description": "the body, as text if it is not JSON"}),
            },
            "required": ["id", "event", "event_id", "to"],
            "additionalProperties": false,
        })),
        "trigger" => ours(&[
            ("id", json!({})),
            ("event", json!({})),
            ("email_id", json!({})),
            ("to", string()),
            ("status", integer()),
            ("duration_ms", integer()),
        ]),
        "verify" => ours(&[("verified", boolean())]),
        "sign" => ours(&[("header", string()), ("signature", string()), ("line", string())]),
        "help" => ours(&[("command", string()), ("text", string())]),
        "version" => ours(&[("version", string())]),
        "completions" => ours(&[("shell", string()), ("script", string())]),
        "man" => json!({"oneOf": [
            ours(&[("name", string()), ("page", string())]),
            ours(&[("pages", list(string()))]),
        ]}),
        "schema" => {
            let one = theirs(&[("command", string()), ("input", json!({"type": "object"}))]);
            json!({"oneOf": [list(one.clone()), one]})
        }
        _ => return None,
    })
}

fn job() -> Value {
    ours(&[
        ("job", string()),
        ("state", one_of(&["running", "complete", "unknown", "incomplete"])),
        ("total", integer()),
        ("accepted", integer()),
        ("refused", integer()),
        ("unknown", integer()),
        ("not_sent", integer()),
        ("left_out", integer()),
        ("created", string()),
        ("subject", string()),
        ("journal", string()),
    ])
}

fn whoami() -> Value {
    let mut extraction = me();
    let mut email = theirs(&[("accepted", boolean())]);
    for about in [&mut extraction, &mut email] {
        about["properties"]["url"] = string();
        about["properties"]["key"] = masked();
        about["properties"]["mode"] = mode();
        about["required"] = json!(["url", "key", "mode"]);
    }
    json!({
        "type": "object",
        "properties": {"profile": string(), "extraction": extraction, "email": email},
        "required": ["profile"],
        "additionalProperties": false,
    })
}

fn listening() -> Value {
    ours(&[
        ("listening", string()),
        ("service", service()),
        ("forward_to", nullable("string")),
        ("webhook", nullable("string")),
        ("secret_file", nullable("string")),
    ])
}

fn received() -> Value {
    ours(&[
        ("at", json!({"type": "string", "format": "date-time"})),
        ("id", nullable("string")),
        ("event", nullable("string")),
        ("verified", boolean()),
        ("status", integer()),
        ("forwarded_to", nullable("string")),
        ("duration_ms", integer()),
        ("problem", nullable("string")),
        ("body", json!({"description": "the verified body, or null if it is not JSON"})),
    ])
}

fn service() -> Value {
    one_of(&["email", "extraction"])
}

fn mode() -> Value {
    json!({"enum": ["live", "test", null]})
}

fn masked() -> Value {
    json!({"type": "string", "description": "the documented prefix, the rest masked"})
}
