//! Output schemas of commands that are not a single operation of a service.

use serde_json::{Value, json};

use super::{
    RECORD, boolean, failure, integer, list, me, nullable, one_of, own_object, service_object,
    string,
};

pub(super) fn of(path: &str) -> Option<Value> {
    Some(match path {
        "emails batch" => list(service_object(&[
            ("index", nullable("integer")),
            ("result", one_of(&["accepted", "refused", "unknown"])),
            ("id", string()),
            ("status", nullable("string")),
            (
                "error",
                service_object(&[
                    ("code", nullable("string")),
                    ("message", nullable("string")),
                    ("fields", list(service_object(&[("field", string()), ("message", string())]))),
                ]),
            ),
        ])),
        "bulk send" | "bulk resume" => job(),
        "bulk plan" | "bulk work" => queued_job(),
        "bulk status" => json!({"oneOf": [job(), queued_job()]}),
        "bulk list" => list(json!({"oneOf": [job(), queued_job(), damaged_job()]})),
        "bulk report" => list(own_object(&[
            ("row", integer()),
            ("address", string()),
            ("status", string()),
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
                "result": one_of(&["created", "updated", "skipped", "duplicate", "failed", "unknown"]),
                "duplicate_of": {"type": "integer", "description": "the row with the same address that is imported"},
                "id": nullable("string"),
                "error": failure(),
                "still_subscribed": {"type": "boolean", "description": "the file unsubscribes the contact, which was skipped"},
                "opt_out_kept": {"type": "boolean", "description": "the file subscribes the contact, which has opted out"},
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
        "login" => own_object(&[
            ("profile", string()),
            ("service", service()),
            ("url", string()),
            ("key", masked()),
            ("mode", mode()),
            ("organization", nullable("string")),
            ("credentials", string()),
        ]),
        "logout" => own_object(&[("profile", string()), ("deleted", list(service()))]),
        "profiles list" => list(own_object(&[
            ("name", string()),
            ("active", boolean()),
            ("email_url", nullable("string")),
            ("email_key", nullable("string")),
            ("extraction_url", nullable("string")),
            ("extraction_key", nullable("string")),
            ("organization", nullable("string")),
        ])),
        "profiles use" => own_object(&[("profile", string())]),
        "profiles remove" => own_object(&[("profile", string()), ("removed", boolean())]),
        "whoami" => whoami(),
        "doctor" => list(own_object(&[
            ("status", one_of(&["ok", "warning", "problem", "unknown"])),
            ("check", string()),
            ("finding", string()),
            ("next", nullable("string")),
        ])),
        "config show" => {
            list(own_object(&[("setting", string()), ("value", json!({})), ("from", string())]))
        }
        "config path" => own_object(&[
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
        "trigger" => own_object(&[
            ("id", json!({})),
            ("event", json!({})),
            ("email_id", json!({})),
            ("to", string()),
            ("status", integer()),
            ("duration_ms", integer()),
        ]),
        "certify" => certified(),
        "verify" => own_object(&[("verified", boolean())]),
        "sign" => own_object(&[("header", string()), ("signature", string()), ("line", string())]),
        "help" => own_object(&[("command", string()), ("text", string())]),
        "version" => own_object(&[("version", string())]),
        "completions" => own_object(&[("shell", string()), ("script", string())]),
        "man" => json!({"oneOf": [
            own_object(&[("name", string()), ("page", string())]),
            own_object(&[("pages", list(string()))]),
        ]}),
        "schema" => {
            let one =
                service_object(&[("command", string()), ("input", json!({"type": "object"}))]);
            json!({"oneOf": [list(one.clone()), one]})
        }
        _ => return None,
    })
}

fn certified() -> Value {
    let check = own_object(&[
        ("check", string()),
        ("severity", one_of(&["failure", "advice"])),
        ("result", one_of(&["passed", "failed", "advice", "skipped"])),
        ("sent", string()),
        ("expected", string()),
        ("came", string()),
        ("reproduce", nullable("string")),
    ]);
    let report = own_object(&[
        ("url", string()),
        ("service", service()),
        ("timeout_seconds", integer()),
        ("timeout_documented", boolean()),
        ("passed", boolean()),
        ("failures", integer()),
        ("advice", integer()),
        ("skipped", integer()),
        ("checks", list(check)),
    ]);
    let listed = own_object(&[
        ("check", string()),
        ("severity", one_of(&["failure", "advice"])),
        ("services", list(service())),
        ("sent", string()),
        ("expected", string()),
    ]);
    json!({"oneOf": [report, {"description": "with --list", "type": "array", "items": listed}]})
}

fn job() -> Value {
    job_of(&["running", "complete", "unknown", "incomplete"], ("journal", string()))
}

/// A job whose journal, or whose description in Redis, cannot be read.
fn damaged_job() -> Value {
    let mut job = own_object(&[("job", string()), ("state", one_of(&["damaged"]))]);
    job["properties"]["journal"] = string();
    job
}

/// A job in Redis.
fn queued_job() -> Value {
    let workers = list(own_object(&[
        ("worker", string()),
        ("state", one_of(&["sending", "waiting", "silent", "left"])),
        ("seen", string()),
        ("requests", integer()),
        ("accepted", integer()),
        ("refused", integer()),
        ("unknown", integer()),
    ]));
    job_of(&["running", "paused", "cancelled", "complete", "unknown"], ("workers", workers))
}

fn job_of(states: &[&str], last: (&str, Value)) -> Value {
    own_object(&[
        ("job", string()),
        ("state", one_of(states)),
        ("total", integer()),
        ("accepted", integer()),
        ("refused", integer()),
        ("unknown", integer()),
        ("not_sent", integer()),
        ("left_out", integer()),
        ("left_out_invalid", integer()),
        ("created", string()),
        ("subject", string()),
        last,
    ])
}

fn whoami() -> Value {
    let mut extraction = me();
    let mut email = service_object(&[("accepted", boolean())]);
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
    own_object(&[
        ("listening", string()),
        ("service", service()),
        ("forward_to", nullable("string")),
        ("webhook", nullable("string")),
        ("secret_file", nullable("string")),
    ])
}

fn received() -> Value {
    own_object(&[
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
