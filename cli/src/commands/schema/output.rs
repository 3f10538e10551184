//! The JSON Schema of each command's output with `--json`.
//!
//! Output that comes from a service lists the documented fields, all optional, and allows more.
//! Output of `svc` itself lists every field.

mod own;
mod sandbox;

use serde_json::{Map, Value, json};

use crate::failure::Kind;

/// The output schema of a command, by its path.
pub(super) fn of(path: &str) -> Option<Value> {
    Some(match path {
        "emails send" | "emails get" | "emails cancel" => email(),
        "audiences create" | "audiences get" => audience(),
        "audiences list" => list(audience()),
        "contacts create" | "contacts update" => contact(),
        "contacts list" | "contacts export" => list(contact()),
        "domains create" | "domains verify" => domain(),
        "domains list" => list(domain()),
        "webhooks create" | "webhooks update" => webhook("signingSecret"),
        "webhooks rotate" => rotated("signingSecret"),
        "webhooks list" => list(webhook("signingSecret")),
        "webhooks test" => service_object(&[
            ("statusCode", nullable("integer")),
            ("responseStatus", nullable("integer")),
            ("durationMs", nullable("integer")),
            ("error", nullable("string")),
        ]),
        "extraction me" => me(),
        "extraction webhooks create" => webhook("secret"),
        "extraction webhooks rotate" => rotated("secret"),
        "extraction webhooks list" => list(webhook("secret")),
        "watch" => sandbox::watched(),
        "api" => json!({"description": "the response of the service"}),
        _ if path.ends_with(" delete") => own_object(&[("id", string()), ("deleted", boolean())]),
        _ => return sandbox::of(path).or_else(|| own::of(path)),
    })
}

fn email() -> Value {
    service_object(&[
        ("id", string()),
        (
            "status",
            json!({
                "type": "string",
                "examples": ["queued", "sending", "sent", "delivered", "bounced", "failed", "complained"],
            }),
        ),
    ])
}

fn audience() -> Value {
    service_object(&[("id", string()), ("name", nullable("string"))])
}

fn contact() -> Value {
    service_object(&[
        ("id", string()),
        ("email", nullable("string")),
        ("name", nullable("string")),
        ("metadata", nullable("object")),
        ("topics", json!({"type": ["array", "null"], "items": {"type": "string"}})),
        ("subscribed", nullable("boolean")),
    ])
}

fn domain() -> Value {
    service_object(&[
        ("id", string()),
        ("name", nullable("string")),
        ("mx_verified", nullable("boolean")),
        ("spf_verified", nullable("boolean")),
        ("dkim_verified", nullable("boolean")),
        ("dmarc_verified", nullable("boolean")),
        ("verified", nullable("boolean")),
        ("records", list(service_object(&RECORD.map(|name| (name, nullable("string")))))),
    ])
}

/// The required fields of a DNS record.
const RECORD: [&str; 4] = ["kind", "type", "name", "value"];

fn webhook(secret: &str) -> Value {
    service_object(&[
        ("id", string()),
        ("url", nullable("string")),
        ("events", list(string())),
        (secret, nullable("string")),
    ])
}

/// A webhook in place of another. The secret is in the output or in a file.
fn rotated(secret: &str) -> Value {
    let mut webhook = webhook(secret);
    webhook["properties"]["replaces"] = string();
    webhook["properties"]["secret_file"] = string();
    webhook
}

fn me() -> Value {
    service_object(&[
        (
            "organization",
            service_object(&[("id", string()), ("name", string()), ("balance_cents", integer())]),
        ),
        (
            "auth",
            service_object(&[("method", string()), ("scope", string()), ("key_id", string())]),
        ),
    ])
}

/// The error object.
pub(super) fn failure() -> Value {
    json!({
        "type": "object",
        "required": ["kind", "message"],
        "additionalProperties": false,
        "properties": {
            "kind": {"enum": Kind::ALL.map(Kind::as_str)},
            "code": {"type": "string"},
            "message": {"type": "string"},
            "status": {"type": "integer"},
            "operation": {"type": "string"},
            "required_scope": {"type": "string"},
            "request_id": {"type": "string"},
            "outcome": {"enum": ["not_sent", "refused", "unknown"]},
            "attempts": {"type": "integer"},
            "retryable": {"type": "boolean"},
            "retry_after": {"type": "integer", "description": "seconds"},
            "hint": {"type": "string"},
            "fields": {"type": "array", "items": {
                "type": "object",
                "required": ["field", "message"],
                "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
            }},
        },
    })
}

/// An object from a service. No field is required, because a service may leave out what its
/// reference does not promise.
fn service_object(fields: &[(&str, Value)]) -> Value {
    json!({"type": "object", "properties": properties(fields), "additionalProperties": true})
}

/// An object of `svc` itself: exactly these fields.
fn own_object(fields: &[(&str, Value)]) -> Value {
    let names = fields.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    json!({
        "type": "object",
        "properties": properties(fields),
        "required": names,
        "additionalProperties": false,
    })
}

fn properties(fields: &[(&str, Value)]) -> Map<String, Value> {
    fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect()
}

fn list(items: Value) -> Value {
    Value::Object(Map::from_iter([("type".into(), "array".into()), ("items".into(), items)]))
}

fn nullable(kind: &str) -> Value {
    json!({"type": [kind, "null"]})
}

fn one_of(names: &[&str]) -> Value {
    json!({"enum": names})
}

fn string() -> Value {
    json!({"type": "string"})
}

fn integer() -> Value {
    json!({"type": "integer"})
}

fn boolean() -> Value {
    json!({"type": "boolean"})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_an_output_schema() {
        for spec in crate::command_spec::COMMANDS {
            assert!(of(spec.path).is_some(), "`svc {}` has no output schema", spec.path);
        }
        assert!(of("no such").is_none());
    }
}
