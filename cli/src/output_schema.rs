//! The JSON Schema of each command's output with `--json`, as the commands declare it.
//!
//! Output of `svc` and of the sandbox is described by its type, with [`of`]. Types of the
//! services have no schema of their own: the functions below list the documented fields, all
//! optional, and allow more.

use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// The schema of a type, as it is serialized.
pub fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().subschema_for::<T>();
    close(&mut schema);
    schema.to_value()
}

/// An object has the described fields only, unless alternatives describe more of them.
fn close(schema: &mut Schema) {
    if schema.get("properties").is_some() {
        if ["allOf", "anyOf", "oneOf"]
            .iter()
            .any(|more| schema.get(*more).is_some())
        {
            return;
        }
        schema
            .ensure_object()
            .entry("additionalProperties")
            .or_insert(false.into());
    }
    transform_subschemas(&mut close, schema);
}

/// One of several outputs.
pub fn any_of(alternatives: &[fn() -> Value]) -> Value {
    json!({"anyOf": alternatives.iter().map(|schema| schema()).collect::<Vec<_>>()})
}

/// An output with a description beside that of its type.
pub fn described(about: &str, schema: fn() -> Value) -> Value {
    json!({"description": about, "anyOf": [schema()]})
}

pub fn list(items: fn() -> Value) -> Value {
    json!({"type": "array", "items": items()})
}

/// The response of `svc api`.
pub fn response() -> Value {
    json!({"description": "the response of the service"})
}

/// An element of the output of `svc schema`.
pub fn command() -> Value {
    service_object(&[("command", string()), ("input", json!({"type": "object"}))])
}

pub fn email() -> Value {
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

pub fn audience() -> Value {
    service_object(&[("id", string()), ("name", nullable("string"))])
}

pub fn contact() -> Value {
    service_object(&[
        ("id", string()),
        ("email", nullable("string")),
        ("name", nullable("string")),
        ("metadata", nullable("object")),
        (
            "topics",
            json!({"type": ["array", "null"], "items": {"type": "string"}}),
        ),
        ("subscribed", nullable("boolean")),
    ])
}

pub fn domain() -> Value {
    service_object(&[
        ("id", string()),
        ("name", nullable("string")),
        ("mx_verified", nullable("boolean")),
        ("spf_verified", nullable("boolean")),
        ("dkim_verified", nullable("boolean")),
        ("dmarc_verified", nullable("boolean")),
        ("verified", nullable("boolean")),
        ("records", list(dns_record)),
    ])
}

/// A DNS record of a domain.
pub fn dns_record() -> Value {
    service_object(&[
        ("kind", nullable("string")),
        ("type", nullable("string")),
        ("name", nullable("string")),
        ("priority", nullable("integer")),
        ("value", nullable("string")),
    ])
}

/// A webhook of the email service.
pub fn webhook() -> Value {
    webhook_with("signingSecret")
}

/// A webhook of the extraction service.
pub fn extraction_webhook() -> Value {
    webhook_with("secret")
}

fn webhook_with(secret: &str) -> Value {
    service_object(&[
        ("id", string()),
        ("url", nullable("string")),
        ("events", list(string)),
        (secret, nullable("string")),
    ])
}

/// The test of a webhook.
pub fn webhook_test() -> Value {
    service_object(&[
        ("statusCode", nullable("integer")),
        ("responseStatus", nullable("integer")),
        ("durationMs", nullable("integer")),
        ("error", nullable("string")),
    ])
}

pub fn me() -> Value {
    service_object(&[
        (
            "organization",
            service_object(&[
                ("id", string()),
                ("name", string()),
                ("balance_cents", json!({"type": "integer"})),
            ]),
        ),
        (
            "auth",
            service_object(&[
                ("method", string()),
                ("scope", string()),
                ("key_id", string()),
            ]),
        ),
    ])
}

/// [`me`], within a type.
pub fn me_fields(_: &mut SchemaGenerator) -> Schema {
    Schema::try_from(me()).unwrap_or_default()
}

/// [`email`], within a type: an item of a batch, which need not have a status.
pub fn batch_fields(_: &mut SchemaGenerator) -> Schema {
    let mut email = email();
    let field = json!({"type": "object", "properties": {"field": string(), "message": string()}});
    email["properties"]["error"] = json!({"type": "object", "properties": {
        "code": nullable("string"),
        "message": nullable("string"),
        "fields": {"type": "array", "items": field},
    }});
    email["properties"]["status"]["type"] = json!(["string", "null"]);
    Schema::try_from(email).unwrap_or_default()
}

/// An object from a service. No field is required, because a service may leave out what its
/// reference does not promise.
fn service_object(fields: &[(&str, Value)]) -> Value {
    let properties = fields
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()));
    let properties = properties.collect::<Map<_, _>>();
    json!({"type": "object", "properties": properties, "additionalProperties": true})
}

fn nullable(kind: &str) -> Value {
    json!({"type": [kind, "null"]})
}

fn string() -> Value {
    json!({"type": "string"})
}
