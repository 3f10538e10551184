//! The parts that a description is put together from.

use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use crate::error::Code;
use crate::switches::ErrorShape;

pub(super) struct Parts {
    reading: SchemaGenerator,
    writing: SchemaGenerator,
    errors: ErrorShape,
}

impl Parts {
    pub(super) fn new(errors: ErrorShape) -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let reading = settings.clone().for_deserialize().into_generator();
        Self { reading, writing: settings.for_serialize().into_generator(), errors }
    }

    /// The schema of something that a request brings.
    pub(super) fn input<T: JsonSchema>(&mut self) -> Value {
        self.reading.subschema_for::<T>().to_value()
    }

    /// The schema of something that is answered.
    pub(super) fn output<T: JsonSchema>(&mut self) -> Value {
        self.writing.subschema_for::<T>().to_value()
    }

    pub(super) fn schemas(&mut self) -> Map<String, Value> {
        let mut schemas = self.reading.take_definitions(true);
        schemas.extend(self.writing.take_definitions(true));
        schemas.insert("Error".to_owned(), self.error());
        schemas
    }

    /// One response for each error code.
    pub(super) fn responses(&self) -> Map<String, Value> {
        let content_type = match self.errors {
            ErrorShape::Nested | ErrorShape::Flat => "application/json",
            ErrorShape::Problem => "application/problem+json",
            ErrorShape::Text => "text/plain",
        };
        let schema = json!({"$ref": "#/components/schemas/Error"});
        let mut responses = Map::new();
        for code in ERRORS {
            let status = code.status();
            let entry = responses.entry(status.as_str()).or_insert_with(|| {
                json!({
                    "description": "",
                    "headers": {"x-request-id": {"schema": {"type": "string"}}},
                    "content": {content_type: {"schema": schema}},
                })
            });
            let before = entry["description"].as_str().unwrap_or_default();
            let joined = if before.is_empty() {
                code.as_str().to_owned()
            } else {
                format!("{before}, {}", code.as_str())
            };
            entry["description"] = joined.into();
        }
        responses
    }

    fn error(&self) -> Value {
        let codes: Vec<&str> = ERRORS.iter().map(|code| code.as_str()).collect();
        let object = json!({
            "type": "object",
            "properties": {
                "code": {"type": "string", "enum": codes},
                "message": {"type": "string"},
                "details": {"type": "object"},
            },
            "required": ["code", "message"],
        });
        match self.errors {
            ErrorShape::Nested => json!({
                "type": "object",
                "properties": {"error": object},
                "required": ["error"],
            }),
            ErrorShape::Flat => object,
            ErrorShape::Problem => json!({
                "type": "object",
                "properties": {
                    "type": {"type": "string"},
                    "title": {"type": ["string", "null"]},
                    "status": {"type": "integer"},
                    "detail": {"type": "string"},
                    "code": {"type": "string", "enum": codes},
                    "details": {"type": "object"},
                },
                "required": ["type", "status", "detail", "code"],
            }),
            ErrorShape::Text => json!({"type": "string"}),
        }
    }
}

/// Every code that an answer may carry.
const ERRORS: [Code; 20] = [
    Code::InvalidJson,
    Code::InvalidRequest,
    Code::Unauthorized,
    Code::InsufficientScope,
    Code::DomainNotVerified,
    Code::Forbidden,
    Code::NotFound,
    Code::MethodNotAllowed,
    Code::RequestTimeout,
    Code::Conflict,
    Code::IdempotencyMismatch,
    Code::NotCancellable,
    Code::PayloadTooLarge,
    Code::UnsupportedMediaType,
    Code::WrongHost,
    Code::ValidationFailed,
    Code::RateLimited,
    Code::Internal,
    Code::Unavailable,
    Code::StorageFull,
];

/// A JSON body of this schema.
pub(super) fn body(schema: &Value, required: bool) -> Value {
    json!({"required": required, "content": {"application/json": {"schema": schema}}})
}

/// A success with this schema, or without a body.
pub(super) fn success(description: &str, schema: Option<&Value>) -> Value {
    let mut response = json!({
        "description": description,
        "headers": {"x-request-id": {"schema": {"type": "string"}}},
    });
    if let Some(schema) = schema {
        response["content"] = json!({"application/json": {"schema": schema}});
    }
    response
}

/// The errors with these statuses, by reference.
pub(super) fn refer(responses: &mut Value, statuses: &[u16]) {
    for status in statuses {
        let key = status.to_string();
        let reference = json!({"$ref": format!("#/components/responses/{key}")});
        responses[key] = reference;
    }
}

/// The parameters in a path template.
pub(super) fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    names
        .map(|name| {
            let schema = json!({"type": "string", "minLength": 1});
            json!({"name": name, "in": "path", "required": true, "schema": schema})
        })
        .collect()
}

/// An optional parameter of the query.
pub(super) fn query(name: &str, description: &str, schema: &Value) -> Value {
    json!({"name": name, "in": "query", "description": description, "schema": schema})
}
