//! Makes a description one that generators of clients read well: plain enumerations, no null as a
//! default, and an example of each body.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// Simplifies all schemas of a document.
pub(super) fn simplify(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(simplify),
        Value::Object(object) => {
            let parts = object.iter_mut().filter(|(name, _)| !name.starts_with("example"));
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
        let Some(Value::Array(choices)) = schema.get(union) else { continue };
        let Some(values) = enumeration(choices) else { continue };
        let lines = choices.iter().filter_map(|choice| {
            let name = choice["enum"][0].as_str()?;
            Some(format!("- `{name}`: {}", choice["description"].as_str()?))
        });
        let described = schema.get("description").and_then(Value::as_str).map(str::to_owned);
        let description: Vec<_> = described.into_iter().chain(lines).collect();
        schema.remove(union);
        schema.insert("description".to_owned(), description.join("\n").into());
        schema.insert("type".to_owned(), "string".into());
        schema.insert("enum".to_owned(), values.into());
    }
    // Some generators read a list of types with values as one enumeration for each type.
    let has_null = |values: &Value| values.as_array().is_some_and(|all| all.contains(&Value::Null));
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

/// Adds an example to each body of the operations.
pub(super) fn add_examples(document: &mut Value) {
    let components = document["components"]["schemas"].clone();
    add(&mut document["paths"], Examples { components: &components, is_request: false });
}

fn add(value: &mut Value, examples: Examples<'_>) {
    let Some(object) = value.as_object_mut() else { return };
    if let Some(schema) = object.get("schema") {
        let example = examples.of(schema, "", "");
        object.insert("example".to_owned(), example);
    }
    for (name, part) in object {
        if !["parameters", "headers", "schema"].contains(&name.as_str()) {
            let is_request = examples.is_request || name == "requestBody";
            add(part, Examples { is_request, ..examples });
        }
    }
}

#[derive(Clone, Copy)]
struct Examples<'a> {
    components: &'a Value,
    is_request: bool,
}

impl Examples<'_> {
    /// An example of a schema, which is that of the property `name` of `owner`.
    fn of(&self, schema: &Value, owner: &str, name: &str) -> Value {
        if let Some(path) = schema["$ref"].as_str() {
            let component = path.rsplit('/').next().unwrap_or_default();
            return self.of(&self.components[component], component, name);
        }
        if let Some(example) = schema["examples"].get(0) {
            return example.clone();
        }
        let choices =
            [&schema["enum"], &schema["anyOf"], &schema["oneOf"]].map(|choices| choices.get(0));
        let kind = match &schema["type"] {
            Value::Array(types) => types[0].as_str(),
            kind => kind.as_str(),
        };
        match (choices, kind) {
            ([Some(value), ..], _) => value.clone(),
            ([_, Some(choice), _] | [.., Some(choice)], None) => self.of(choice, owner, name),
            (_, Some("object")) => self.object(schema, owner),
            (_, Some("array")) => {
                let count = schema["minItems"].as_u64().unwrap_or(1) as usize;
                vec![self.of(&schema["items"], owner, name); count].into()
            }
            (_, Some("string")) => text(schema, owner, name).into(),
            (_, Some("integer")) => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
            (_, Some("number")) => json!(1.5),
            (_, Some("boolean")) => json!(true),
            _ => json!({}),
        }
    }

    /// All properties of a response, and the required ones of a request, or its first one.
    fn object(&self, schema: &Value, owner: &str) -> Value {
        let Some(properties) = schema["properties"].as_object() else { return json!({}) };
        let required = schema["required"].as_array();
        let is_shown = |(at, (name, _)): &(usize, (&String, &Value))| match required {
            _ if !self.is_request => true,
            Some(required) => required.iter().any(|known| known == *name),
            None => *at == 0,
        };
        let shown = properties.iter().enumerate().filter(is_shown);
        let of = |(_, (name, schema)): (usize, (&String, &Value))| {
            (name.clone(), self.of(schema, owner, name))
        };
        Value::Object(shown.map(of).collect())
    }
}

/// An example of a text; `examples.json` has those of properties, and what IDs begin with.
fn text(schema: &Value, owner: &str, name: &str) -> String {
    const ID: &str = "0193b2c4-5d6e-7f80-9a1b-2c3d4e5f6071";
    static KNOWN: LazyLock<Value> =
        LazyLock::new(|| serde_json::from_str(include_str!("examples.json")).expect("JSON"));
    let text = match (schema["format"].as_str(), name) {
        (Some("date-time"), _) => "2026-12-01T09:00:00.000Z",
        (Some("uuid"), _) => ID,
        (Some("domain-name"), _) => "shop.test",
        (Some("ipv4" | "ipv6"), _) => "192.0.2.1",
        (Some("uri"), _) | (_, "url") => "https://app.example.com/webhooks",
        (_, "id") => {
            let mut prefixes = KNOWN["prefixes"].as_object().into_iter().flatten();
            let prefix = prefixes.find(|(known, _)| owner.contains(known.as_str()));
            return format!("{}{ID}", prefix.and_then(|(_, it)| it.as_str()).unwrap_or_default());
        }
        _ => KNOWN["texts"][name].as_str().unwrap_or("text"),
    };
    text.to_owned()
}
