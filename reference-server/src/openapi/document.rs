//! A whole description: its rows, and the schemas and answers that they share.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use svc_sdk::{Operation, Service};

use super::row::Row;
use super::{Part, control, services, webhooks};
use crate::app::App;
use crate::control as sandbox;
use crate::settings::Settings;

pub(super) struct Document<'a> {
    pub(super) settings: &'a Settings,
    base_url: String,
    has_control_token: bool,
    pub(super) part: Part,
    paths: Map<String, Value>,
    requests: SchemaGenerator,
    answers: SchemaGenerator,
    /// Error answers, by the codes that they can carry.
    pub(super) errors: Map<String, Value>,
}

impl<'a> Document<'a> {
    pub(super) fn of(app: &'a App, part: Part) -> Self {
        // Bound to every address, only the reader knows which one leads here.
        let http = app.addresses.get().map(|addresses| addresses.http);
        let http = http.filter(|http| !http.ip().is_unspecified());
        let base_url = http.map_or_else(|| "/".to_owned(), |http| format!("http://{http}"));
        Self::new(&app.settings, base_url, app.control_token.is_some(), part)
    }

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
        let mut document = Self {
            settings,
            base_url,
            has_control_token,
            part,
            paths: Map::new(),
            requests: generator().for_deserialize().into_generator(),
            answers: generator().for_serialize().into_generator(),
            errors: Map::new(),
        };
        for operation in Operation::ALL {
            let service = match operation.service() {
                Service::Email => Part::Email,
                Service::Extraction => Part::Extraction,
            };
            if part.has(service) {
                let row = Row::documented(&mut document, operation);
                let value = services::describe(operation, row).finish();
                document.add(operation.method().as_str(), operation.path(), value);
            }
        }
        if part.has(Part::Control) {
            for (method, path) in sandbox::rows() {
                if let Some(row) =
                    control::describe(method, path, Row::control(&mut document, method, path))
                {
                    let value = row.finish();
                    document.add(method, path, value);
                }
            }
        }
        document
    }

    fn add(&mut self, method: &str, path: &str, row: Value) {
        let methods = self.paths.entry(path).or_insert_with(|| json!({}));
        methods[method.to_ascii_lowercase()] = row;
    }

    pub(super) fn request<T: JsonSchema>(&mut self) -> Schema {
        self.requests.subschema_for::<T>()
    }

    pub(super) fn answer<T: JsonSchema>(&mut self) -> Schema {
        self.answers.subschema_for::<T>()
    }

    /// Who may use the control interface is asked only beyond loopback.
    pub(super) fn has_control_token(&self) -> bool {
        self.has_control_token
    }

    pub(super) fn into_value(mut self) -> Value {
        let security = self.security_schemes();
        let webhooks = webhooks::describe(&mut self);
        let mut schemas = self.requests.take_definitions(true);
        schemas.extend(self.answers.take_definitions(true));
        schemas.sort_keys();
        let (title, summary) = match self.part {
            Part::All => ("svc reference server", "Both services and the control interface"),
            Part::Email => ("Email service", "Sending, audiences, domains and webhooks"),
            Part::Extraction => ("Extraction service", "Organization and webhook endpoints"),
            Part::Control => ("Control interface", "What a test needs beside both services"),
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
        (self.requests.definitions(), self.answers.definitions())
    }

    fn security_schemes(&self) -> Value {
        let mut schemes = json!({});
        let header = &self.settings.switches.key_header;
        if self.part.has(Part::Email) {
            let about = "A key of the email service with the scopes that an operation names.";
            schemes["emailKey"] = if *header == http::header::AUTHORIZATION {
                json!({"type": "http", "scheme": "bearer", "description": about})
            } else {
                json!({"type": "apiKey", "in": "header", "name": header.as_str(), "description": about})
            };
        }
        if self.part.has(Part::Extraction) {
            let about = "A key of the extraction service: `sk_live_…` or `sk_test_…`.";
            schemes["extractionKey"] =
                json!({"type": "http", "scheme": "bearer", "description": about});
        }
        if self.part.has(Part::Control) && self.has_control_token {
            let about = "The `control_token` that the server printed when it started.";
            schemes["controlToken"] =
                json!({"type": "http", "scheme": "bearer", "description": about});
        }
        schemes
    }
}
