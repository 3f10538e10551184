//! An OpenAPI document: operations, and the schemas and error responses that they share.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::part::Part;
use crate::settings::Settings;

pub(super) struct Document<'a> {
    pub(super) settings: &'a Settings,
    base_url: String,
    has_control_token: bool,
    pub(super) part: Part,
    paths: Map<String, Value>,
    pub(super) requests: SchemaGenerator,
    pub(super) responses: SchemaGenerator,
    /// Error responses, by their error codes.
    pub(super) errors: Map<String, Value>,
}

impl<'a> Document<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        base_url: String,
        has_control_token: bool,
        part: Part,
    ) -> Self {
        let generator = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        Self {
            settings,
            base_url,
            has_control_token,
            part,
            paths: Map::new(),
            requests: generator().for_deserialize().into_generator(),
            responses: generator().for_serialize().into_generator(),
            errors: Map::new(),
        }
    }

    /// Adds an operation.
    pub(super) fn add(&mut self, method: &str, path: &str, builder: Value) {
        let methods = self.paths.entry(path).or_insert_with(|| json!({}));
        methods[method.to_ascii_lowercase()] = builder;
    }

    pub(super) fn response_schema<T: JsonSchema>(&mut self) -> Schema {
        self.responses.subschema_for::<T>()
    }

    /// Whether the control interface requires a token.
    pub(super) fn has_control_token(&self) -> bool {
        self.has_control_token
    }

    pub(super) fn into_value(mut self, webhooks: &Map<String, Value>) -> Value {
        let security = self.security_schemes();
        let mut schemas = self.requests.take_definitions(true);
        schemas.extend(self.responses.take_definitions(true));
        schemas.sort_keys();
        let (title, summary) = match self.part {
            Part::All => (
                "svc reference server",
                "The email service, the extraction service and the control interface",
            ),
            Part::Email => ("Email service", "Sending, audiences, domains and webhooks"),
            Part::Extraction => ("Extraction service", "Organization and webhook endpoints"),
            Part::Control => {
                ("Control interface", "Operations for tests, beyond the documented services")
            }
        };
        json!({
            "openapi": "3.1.1",
            "info": {
                "title": title,
                "summary": summary,
                "version": env!("CARGO_PKG_VERSION"),
            },
            "servers": [{"url": self.base_url}],
            "paths": self.paths,
            "webhooks": webhooks,
            "components": {
                "schemas": schemas,
                "responses": self.errors,
                "securitySchemes": security,
            },
        })
    }

    #[cfg(test)]
    pub(super) fn definitions(&self) -> (&Map<String, Value>, &Map<String, Value>) {
        (self.requests.definitions(), self.responses.definitions())
    }

    fn security_schemes(&self) -> Value {
        let mut schemes = json!({});
        let header = &self.settings.compatibility.key_header;
        if self.part.includes(Part::Email) {
            let description =
                "An API key of the email service with the scope that the operation requires.";
            schemes["emailKey"] = if *header == http::header::AUTHORIZATION {
                json!({"type": "http", "scheme": "bearer", "description": description})
            } else {
                json!({"type": "apiKey", "in": "header", "name": header.as_str(), "description": description})
            };
        }
        if self.part.includes(Part::Extraction) {
            let description = "An API key of the extraction service: `sk_live_…` or `sk_test_…`.";
            schemes["extractionKey"] =
                json!({"type": "http", "scheme": "bearer", "description": description});
        }
        if self.part.includes(Part::Control) && self.has_control_token {
            let description = "The `control_token` that the server printed when it started.";
            schemes["controlToken"] =
                json!({"type": "http", "scheme": "bearer", "description": description});
        }
        schemes
    }
}

/// The headers of every response.
pub(super) fn headers() -> Value {
    json!({
        "X-Request-Id": {
            "description": "Identifies the request in the server's log.",
            "required": true,
            "schema": {"type": "string"},
        },
    })
}
