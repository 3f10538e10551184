//! An OpenAPI document: the schemas and error responses that its operations share.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use svc_sdk::{Point, Service};

use crate::http::auth;
use crate::settings::Settings;

/// The part of the server that a description covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    All,
    Service(Service),
    Control,
}

/// A document under construction.
pub(super) struct Document<'a> {
    pub(super) settings: &'a Settings,
    pub(super) part: Part,
    pub(super) requests: SchemaGenerator,
    pub(super) responses: SchemaGenerator,
    /// Error responses, by their error codes.
    pub(super) errors: Map<String, Value>,
}

impl<'a> Document<'a> {
    pub(super) fn new(settings: &'a Settings, part: Part) -> Self {
        let generator = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        Self {
            settings,
            part,
            requests: generator().for_deserialize().into_generator(),
            responses: generator().for_serialize().into_generator(),
            errors: Map::new(),
        }
    }

    pub(super) fn includes(&self, part: Part) -> bool {
        self.part == Part::All || self.part == part
    }

    pub(super) fn into_value(mut self, base_url: &str, paths: &Value, webhooks: &Value) -> Value {
        let mut schemas = self.requests.take_definitions(true);
        schemas.extend(self.responses.take_definitions(true));
        schemas.sort_keys();
        let title = match self.part {
            Part::All => "svc reference server",
            Part::Service(Service::Email) => "Email service",
            Part::Service(_) => "Extraction service",
            Part::Control => "Control interface",
        };
        json!({
            "openapi": "3.1.1",
            // Where a point is pinned, the responses differ from the schemas as it says.
            "x-dialect": self.settings.dialect,
            "info": {"title": title, "version": env!("CARGO_PKG_VERSION")},
            "servers": [{"url": base_url}],
            "paths": paths,
            "webhooks": webhooks,
            "components": {
                "schemas": schemas,
                "responses": self.errors,
                "securitySchemes": self.security_schemes(),
            },
        })
    }

    fn security_schemes(&self) -> Value {
        let description =
            "An API key of the email service with the scope that the operation requires.";
        let dialect = &self.settings.dialect;
        let header = dialect.choice(Point::KeyHeader).to_ascii_lowercase();
        let email = match (header.as_str(), auth::scheme(dialect)) {
            ("authorization", scheme) if !scheme.is_empty() => {
                json!({"type": "http", "scheme": scheme.to_ascii_lowercase(), "description": description})
            }
            _ => {
                json!({"type": "apiKey", "in": "header", "name": header, "description": description})
            }
        };
        json!({
            "emailKey": email,
            "extractionKey": {
                "type": "http",
                "scheme": "bearer",
                "description": "An API key of the extraction service: `sk_live_…` or `sk_test_…`.",
            },
            "controlToken": {
                "type": "http",
                "scheme": "bearer",
                "description": "The `control_token` that the server printed when it started.",
            },
        })
    }
}

/// A parameter of a request: a header, or a part of the path or of the query.
pub(super) fn parameter(
    place: &str,
    name: &str,
    required: bool,
    description: &str,
    schema: &Value,
) -> Value {
    json!({
        "name": name,
        "in": place,
        "description": description,
        "required": required,
        "schema": schema,
    })
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
