//! `GET /openapi.json`: both services and the control interface as OpenAPI 3.1,
//! made from the types that the handlers read and write, with the switches that
//! the server runs with.

mod control;
mod documented;
mod parts;

use axum::body::Body;
use axum::extract::State;
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use svc_sdk::{Operation, Scope};

use crate::app::Shared;
use crate::error::ApiError;
use crate::settings::Settings;
use crate::switches::ErrorShape;
use crate::web::Answer;
use parts::Parts;

pub(crate) async fn get(State(app): State<Shared>) -> Response<Body> {
    let answer = Answer::json(StatusCode::OK, &document(&app.settings));
    answer.map_or_else(
        |error: ApiError| crate::web::answer::error(&error, ErrorShape::Nested),
        Response::from,
    )
}

/// The whole description.
pub(crate) fn document(settings: &Settings) -> Value {
    let mut parts = Parts::new(settings.switches.errors);
    let mut paths = Map::new();
    for operation in Operation::ALL {
        let described = documented::describe(operation, &settings.switches, &mut parts);
        put(&mut paths, operation.path(), operation.method().as_str(), described);
    }
    for (method, path, described) in control::describe(&mut parts) {
        put(&mut paths, path, method, described);
    }
    let scopes: Map<String, Value> =
        Scope::ALL.iter().map(|scope| (scope.as_str().to_owned(), "".into())).collect();
    let key_header = settings.switches.key_header.as_str();
    let email_key = if key_header == "authorization" {
        json!({"type": "http", "scheme": "bearer"})
    } else {
        json!({"type": "apiKey", "in": "header", "name": key_header})
    };
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "svc reference server",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The email-sending service, the document-extraction service, and the control interface of the server that offers both on one machine.",
        },
        "tags": [
            {"name": "email", "description": "The email-sending service."},
            {"name": "extraction", "description": "The document-extraction service."},
            {"name": "sandbox", "description": "The control interface; on loopback only, or with the control token."},
        ],
        "paths": paths,
        "components": {
            "schemas": parts.schemas(),
            "responses": parts.responses(),
            "securitySchemes": {
                "emailKey": email_key,
                "extractionKey": {"type": "http", "scheme": "bearer"},
            },
        },
        "x-scopes": scopes,
    })
}

fn put(paths: &mut Map<String, Value>, path: &str, method: &str, described: Value) {
    let path = paths.entry(path).or_insert_with(|| json!({}));
    path[method.to_ascii_lowercase()] = described;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let document = document(&Settings::default());
        let described: BTreeSet<(String, String)> = document["paths"]
            .as_object()
            .expect("paths")
            .iter()
            .flat_map(|(path, methods)| {
                let methods = methods.as_object().expect("methods");
                methods.keys().map(|method| (method.to_uppercase(), path.clone()))
            })
            .collect();
        let (_, control) = crate::control::routes(axum::Router::new());
        let names = [
            (axum::routing::MethodFilter::GET, "GET"),
            (axum::routing::MethodFilter::POST, "POST"),
            (axum::routing::MethodFilter::PUT, "PUT"),
            (axum::routing::MethodFilter::DELETE, "DELETE"),
        ];
        let method = |filter| names.iter().find(|(known, _)| *known == filter).expect("known").1;
        let served: BTreeSet<(String, String)> = control
            .into_iter()
            .map(|(filter, path)| (method(filter).to_owned(), path.to_owned()))
            .chain(Operation::ALL.iter().map(|operation| {
                (operation.method().as_str().to_owned(), operation.path().to_owned())
            }))
            .collect();
        assert_eq!(described, served);
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document(&Settings::default());
        let text = document.to_string();
        for reference in text.split(r##""$ref":"#"##).skip(1) {
            let pointer = reference.split('"').next().expect("a pointer");
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
    }

    #[test]
    fn the_documents_limits_are_in_it() {
        let document = document(&Settings::default());
        let email = &document["components"]["schemas"]["NewEmail"];
        assert_eq!(email["required"], json!(["from", "to", "subject"]));
        assert_eq!(email["properties"]["to"]["maxItems"], 50);
        assert_eq!(email["properties"]["subject"]["maxLength"], 998);
        assert_eq!(email["properties"]["attachments"]["maxItems"], 20);
        let send = &document["paths"]["/api/v1/emails"]["post"];
        assert_eq!(send["security"], json!([{"emailKey": ["emails:send"]}]));
        assert_eq!(
            send["responses"]["202"]["content"]["application/json"]["schema"]["$ref"],
            "#/components/schemas/Email"
        );
    }
}
