//! The JSON Schema of each command's answer with `--json`. Of what a service
//! answers: what the documents name, all of it optional, and room for more. Of
//! what `svc` itself answers: everything.

mod own;
mod sandbox;

use serde_json::{Map, Value, json};

/// The answer of a command, by its path.
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
        "webhooks list" => list(webhook("signingSecret")),
        "webhooks test" => theirs(&[
            ("statusCode", nullable("integer")),
            ("responseStatus", nullable("integer")),
            ("durationMs", nullable("integer")),
            ("error", nullable("string")),
        ]),
        "extraction me" => me(),
        "extraction webhooks create" => webhook("secret"),
        "extraction webhooks list" => list(webhook("secret")),
        "api" => json!({"description": "whatever the service answers"}),
        _ if path.ends_with(" delete") => ours(&[("id", string()), ("deleted", boolean())]),
        _ => return sandbox::of(path).or_else(|| own::of(path)),
    })
}

fn email() -> Value {
    theirs(&[
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
    theirs(&[("id", string()), ("name", nullable("string"))])
}

fn contact() -> Value {
    theirs(&[
        ("id", string()),
        ("email", nullable("string")),
        ("name", nullable("string")),
        ("metadata", nullable("object")),
        ("topics", json!({"type": ["array", "null"], "items": {"type": "string"}})),
        ("subscribed", nullable("boolean")),
    ])
}

fn domain() -> Value {
    theirs(&[
        ("id", string()),
        ("name", nullable("string")),
        ("mx_verified", nullable("boolean")),
        ("spf_verified", nullable("boolean")),
        ("dkim_verified", nullable("boolean")),
        ("dmarc_verified", nullable("boolean")),
        ("verified", nullable("boolean")),
        ("records", list(theirs(&RECORD.map(|name| (name, nullable("string")))))),
    ])
}

/// What a DNS record has.
const RECORD: [&str; 4] = ["kind", "type", "name", "value"];

fn webhook(secret: &str) -> Value {
    theirs(&[
        ("id", string()),
        ("url", nullable("string")),
        ("events", list(string())),
        (secret, nullable("string")),
    ])
}

fn me() -> Value {
    theirs(&[
        (
            "organization",
            theirs(&[("id", string()), ("name", string()), ("balance_cents", integer())]),
        ),
        ("auth", theirs(&[("method", string()), ("scope", string()), ("key_id", string())])),
    ])
}

/// What a service answers. No field is required: what the documents do not
/// show, a service may leave out.
fn theirs(fields: &[(&str, Value)]) -> Value {
    json!({"type": "object", "properties": properties(fields), "additionalProperties": true})
}

/// What we answer: these fields, each of them, and no others.
fn ours(fields: &[(&str, Value)]) -> Value {
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
    fn every_leaf_has_an_answer_of_its_own() {
        for leaf in crate::command_spec::COMMANDS {
            assert!(of(leaf.path).is_some(), "nobody says what `{}` answers", leaf.path);
        }
        assert!(of("no such").is_none());
    }
}
