//! The JSON Schema of each command's answer: what the documents name, and room
//! for what they do not.

use serde_json::{Map, Value, json};

/// The answer of a command, by its path.
pub(super) fn of(path: &str) -> Value {
    match path {
        "emails send" | "emails get" | "emails cancel" => email(),
        "emails batch" => list(object(&[
            ("index", integer()),
            ("result", json!({"enum": ["accepted", "refused", "unknown"]})),
            ("id", string()),
            ("status", string()),
            ("error", object(&[("code", string()), ("message", string())])),
        ])),
        "audiences create" | "audiences get" => audience(),
        "audiences list" => list(audience()),
        "contacts create" | "contacts update" => contact(),
        "contacts list" => list(contact()),
        "domains create" => domain(),
        "domains list" => list(domain()),
        "domains verify" => object(&flags()),
        "webhooks create" | "webhooks update" => webhook("signingSecret"),
        "webhooks list" => list(webhook("signingSecret")),
        "webhooks test" => object(&[]),
        "extraction me" => object(&[
            (
                "organization",
                object(&[("id", string()), ("name", string()), ("balance_cents", integer())]),
            ),
            ("auth", object(&[("method", string()), ("scope", string()), ("key_id", string())])),
        ]),
        "extraction webhooks create" => webhook("secret"),
        "extraction webhooks list" => list(webhook("secret")),
        "verify" => object(&[("verified", boolean())]),
        "sign" => object(&[("header", string()), ("signature", string()), ("line", string())]),
        "config path" => object(&[
            ("config", string()),
            ("credentials", string()),
            ("data", string()),
            ("sandbox", string()),
        ]),
        "config show" => {
            list(object(&[("setting", string()), ("value", json!({})), ("from", string())]))
        }
        "completions" => object(&[("shell", string()), ("script", string())]),
        "schema" => json!({"oneOf": [{"type": "array"}, {"type": "object"}]}),
        _ if path.ends_with(" delete") => object(&[("id", string()), ("deleted", boolean())]),
        _ if path.ends_with(" list") => list(object(&[])),
        _ => object(&[]),
    }
}

fn email() -> Value {
    object(&[
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
    object(&[("id", string()), ("name", string())])
}

fn contact() -> Value {
    object(&[
        ("id", string()),
        ("email", string()),
        ("name", string()),
        ("metadata", json!({"type": "object"})),
        ("topics", list(string())),
        ("subscribed", boolean()),
    ])
}

fn domain() -> Value {
    let mut fields = vec![("id", string()), ("name", string())];
    fields.extend(flags());
    object(&fields)
}

fn flags() -> [(&'static str, Value); 5] {
    ["mx_verified", "spf_verified", "dkim_verified", "dmarc_verified", "verified"]
        .map(|name| (name, boolean()))
}

fn webhook(secret: &str) -> Value {
    object(&[("id", string()), ("url", string()), ("events", list(string())), (secret, string())])
}

/// No field is required: what the documents do not show, a service may leave out.
fn object(fields: &[(&str, Value)]) -> Value {
    let properties = fields
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect::<Map<_, _>>();
    json!({"type": "object", "properties": properties, "additionalProperties": true})
}

fn list(items: Value) -> Value {
    Value::Object(Map::from_iter([("type".into(), "array".into()), ("items".into(), items)]))
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
