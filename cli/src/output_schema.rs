//! The JSON Schema of each command's output with `--json`, as the commands declare it.
//!
//! Output of `svc` and of the sandbox is described by its type, with [`of`]. Types of the
//! services have no schema of their own: `output_schema.json` has the documented fields, all
//! optional, and allows more.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

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

/// [`me`], within a type.
pub fn me_fields(_: &mut SchemaGenerator) -> Schema {
    Schema::try_from(me()).unwrap_or_default()
}

/// An item of a batch, which need not have a status, within a type.
pub fn batch_fields(_: &mut SchemaGenerator) -> Schema {
    Schema::try_from(named("batch_item")).unwrap_or_default()
}

/// Functions that return the schemas of a file.
macro_rules! documented {
    ($($name:ident)*) => {
        $(pub fn $name() -> Value {
            named(stringify!($name))
        })*
    };
}

documented! {
    audience command contact dns_record domain email extraction_webhook me webhook webhook_test
}

/// The schema of this name. No field of a service's object is required, because a service may leave out
/// what its reference does not promise.
fn named(name: &str) -> Value {
    static SCHEMAS: LazyLock<Value> = LazyLock::new(|| {
        serde_json::from_str(include_str!("output_schema.json")).expect("valid JSON")
    });
    SCHEMAS[name].clone()
}
