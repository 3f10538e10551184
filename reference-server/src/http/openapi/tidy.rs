//! Makes a description one that generators of clients read well: plain enumerations, and no null as
//! a default.

use serde_json::{Map, Value, json};

/// Simplifies all schemas of a document.
pub(super) fn simplify(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(simplify),
        Value::Object(object) => {
            let parts = object
                .iter_mut()
                .filter(|(name, _)| !name.starts_with("example"));
            parts.for_each(|(_, part)| simplify(part));
            simplify_schema(object);
        }
        _ => {}
    }
}

fn simplify_schema(schema: &mut Map<String, Value>) {
    if schema.get("default") == Some(&Value::Null) {
        schema.remove("default");
    }
    if let Some(only) = schema.remove("const") {
        if only.is_string() {
            schema.insert("type".to_owned(), "string".into());
        }
        schema.insert("enum".to_owned(), json!([only]));
    }

    for union in ["oneOf", "anyOf"] {
        let Some(Value::Array(choices)) = schema.get(union) else {
            continue;
        };
        let Some(values) = enumeration(choices) else {
            continue;
        };
        let lines = choices.iter().filter_map(|choice| {
            let name = choice["enum"][0].as_str()?;
            Some(format!("- `{name}`: {}", choice["description"].as_str()?))
        });
        let described = schema
            .get("description")
            .and_then(Value::as_str)
            .map(str::to_owned);
        let description: Vec<_> = described.into_iter().chain(lines).collect();
        schema.remove(union);
        schema.insert("description".to_owned(), description.join("\n").into());
        schema.insert("type".to_owned(), "string".into());
        schema.insert("enum".to_owned(), values.into());
    }

    // Some generators read a list of types with values as one enumeration for each type.
    let has_null = |values: &Value| {
        values
            .as_array()
            .is_some_and(|all| all.contains(&Value::Null))
    };

    if schema.get("enum").is_some_and(has_null)
        && let Some(Value::Array(mut values)) = schema.remove("enum")
    {
        values.retain(|value| !value.is_null());
        schema.remove("type");
        let choices = json!([{"type": "string", "enum": values}, {"type": "null"}]);
        schema.insert("anyOf".to_owned(), choices);
    }
}

/// The values of choices each of which is a list of texts.
fn enumeration(choices: &[Value]) -> Option<Vec<Value>> {
    let values = |choice: &Value| {
        let is_text = choice["type"] == "string" && choice.get("pattern").is_none();
        choice["enum"].as_array().filter(|_| is_text).cloned()
    };
    let all = choices.iter().map(values).collect::<Option<Vec<_>>>()?;
    Some(all.concat())
}
