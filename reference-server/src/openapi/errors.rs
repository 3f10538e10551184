//! The error answers of a description: one for each status, with an example of
//! every code that it can carry, made by what makes the real ones.

use std::collections::BTreeMap;

use schemars::Schema;
use serde_json::{Map, Value, json};

use super::document::Document;
use super::row::headers;
use crate::error::{ApiError, Code, ErrorObject};
use crate::switches::ErrorShape;
use crate::web::answer::{Nested, Problem, error_body};

/// The answers that carry these codes; equal ones are described once.
pub(super) fn describe(
    document: &mut Document<'_>,
    codes: &[Code],
    shape: ErrorShape,
    fixed_unauthorized: bool,
) -> Map<String, Value> {
    let mut answers = Map::new();
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for code in codes {
        by_status.entry(code.status().as_u16()).or_default().push(*code);
    }
    for (status, mut codes) in by_status {
        codes.sort();
        codes.dedup();
        let names: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
        let mut name = names.join(".");
        let fixed = fixed_unauthorized && codes == [Code::Unauthorized];
        let shape = if fixed { ErrorShape::Nested } else { shape };
        if shape != document.settings.switches.errors {
            name.push_str(".unswitched");
        }
        if !document.errors.contains_key(&name) {
            let answer = answer(document, &codes, shape);
            document.errors.insert(name.clone(), answer);
        }
        let reference = json!({"$ref": format!("#/components/responses/{name}")});
        answers.insert(status.to_string(), reference);
    }
    answers
}

fn answer(document: &mut Document<'_>, codes: &[Code], shape: ErrorShape) -> Value {
    let meanings = codes.iter().map(|code| format!("`{}`: {}.", code.as_str(), code.meaning()));
    let mut headers = headers();
    for code in codes {
        match code {
            Code::Unauthorized => {
                headers["WWW-Authenticate"] = json!({"schema": {"const": "Bearer"}});
            }
            Code::RateLimited | Code::Unavailable => {
                headers["Retry-After"] = json!({
                    "description": "Seconds.",
                    "schema": {"type": "integer", "minimum": 1},
                });
            }
            _ => {}
        }
    }
    let mut examples = Map::new();
    let mut content_type = "";
    for code in codes {
        let error = ApiError::new(*code, code.meaning());
        let body;
        (content_type, body) = error_body(&error, shape);
        let body = serde_json::from_str(&body).unwrap_or(Value::String(body));
        examples.insert(code.as_str().to_owned(), json!({"value": body}));
    }
    json!({
        "description": meanings.collect::<Vec<_>>().join("\n\n"),
        "headers": headers,
        "content": {content_type: {"schema": schema(document, shape), "examples": examples}},
    })
}

fn schema(document: &mut Document<'_>, shape: ErrorShape) -> Schema {
    match shape {
        ErrorShape::Nested => document.answer::<Nested<'_>>(),
        ErrorShape::Flat => document.answer::<ErrorObject<'_>>(),
        ErrorShape::Problem => document.answer::<Problem<'_>>(),
        ErrorShape::Text => document.answer::<String>(),
    }
}
