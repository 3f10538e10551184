//! `/openapi.json`: an OpenAPI 3.1 description of the server.
//!
//! It is generated from the types of the handlers, the operation table and the
//! the dialect. The server generates it for every request instead of keeping it
//! in memory, because clients rarely ask for it.

mod document;
mod errors;
mod operation;
mod tidy;
mod webhooks;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use document::{Document, Part};
use http::StatusCode;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};
use svc_sdk::{Dialect, Service};

use crate::app::Shared;
use crate::control::Declaration;
use crate::http::Reply;
use crate::http::error::ApiError;
use crate::http::route::{Route, Target};
use crate::model::Event;

const PARTS: [(Part, &str); 4] = [
    (Part::All, "/openapi.json"),
    (Part::Service(Service::Email), "/openapi/email.json"),
    (
        Part::Service(Service::Extraction),
        "/openapi/extraction.json",
    ),
    (Part::Control, "/openapi/control.json"),
];

/// Adds a route for the description of the whole server, and one for each part.
pub(crate) fn routes(
    mut router: Router<Shared>,
    routes: &'static [Route],
    deliveries: DescribeDelivery,
) -> Router<Shared> {
    for (part, path) in PARTS {
        let handler = move |State(app): State<Shared>| async move {
            // A server on all addresses does not know which one the client uses.
            let http = Some(app.addresses.http).filter(|http| !http.ip().is_unspecified());
            let base_url = http.map_or_else(|| "/".to_owned(), |http| format!("http://{http}"));
            let document = Document::new(&app.settings, part);
            Reply::<Value>::json(
                StatusCode::OK,
                &describe(document, &base_url, routes, deliveries),
            )
            .map_err(ApiError)
        };
        router = router.route(path, get(handler));
    }
    router
}

/// Describes the body of the deliveries of an event; `None` is that of a test.
pub(crate) type DescribeDelivery = fn(Option<Event>, &Dialect, &mut SchemaGenerator) -> Schema;

fn describe(
    mut document: Document<'_>,
    base_url: &str,
    routes: &[Route],
    deliveries: DescribeDelivery,
) -> Value {
    let paths = paths(&mut document, routes);
    let webhooks = webhooks::describe(&mut document, deliveries);
    let mut value = document.into_value(base_url, &paths, &webhooks);
    tidy::simplify(&mut value);
    value
}

fn paths(document: &mut Document<'_>, routes: &[Route]) -> Value {
    let mut paths = json!({});
    for route in routes {
        let part = match &route.target {
            Target::Documented(operation, _) => Part::Service(operation.service()),
            Target::Control(_) => Part::Control,
        };
        if document.includes(part) {
            let Declaration { method, path, .. } = &route.declared;
            let method = method.as_str().to_ascii_lowercase();
            paths[path][method] = operation::describe(document, route);
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::json;
    use svc_sdk::Operation;

    use super::*;
    use crate::deliveries::delivery_rules;
    use crate::routes::ROUTES;
    use crate::settings::Settings;

    fn describe(settings: &Settings, part: Part) -> Value {
        let control_token = Some("token".into());
        let settings = Settings {
            control_token,
            ..settings.clone()
        };
        let document = Document::new(&settings, part);
        super::describe(
            document,
            "http://127.0.0.1:4080",
            &ROUTES,
            delivery_rules::schema,
        )
    }

    /// The operations in a description.
    fn operations(document: &Value) -> Vec<&Value> {
        let paths = document["paths"].as_object().expect("paths");
        paths
            .values()
            .flat_map(|methods| methods.as_object().expect("methods").values())
            .collect()
    }

    #[test]
    fn every_operation_has_a_route() {
        let target = |route: &Route| match route.target {
            Target::Documented(operation, _) => Some(operation),
            Target::Control(_) => None,
        };

        let routed: Vec<Operation> = ROUTES.iter().filter_map(target).collect();
        assert_eq!(routed, Operation::ALL);
        let parts = PARTS[1..]
            .iter()
            .map(|(part, _)| operations(&describe(&Settings::default(), *part)).len());
        assert_eq!(parts.sum::<usize>(), ROUTES.len());
    }

    #[test]
    fn every_operation_is_complete() {
        let document = describe(&Settings::default(), Part::All);
        let operations = operations(&document);
        let ids: BTreeSet<_> = operations
            .iter()
            .map(|one| one["operationId"].as_str())
            .collect();
        assert_eq!(
            ids.len(),
            ROUTES.len(),
            "an operation ID is missing or not unique"
        );
        for operation in operations {
            assert!(
                operation["tags"][0] != "" && operation["summary"] != "",
                "{operation}"
            );
            let responses = operation["responses"].as_object().expect("responses");
            let successful = responses
                .iter()
                .filter(|(status, _)| status.starts_with('2'));
            let [(_, response)] = successful.collect::<Vec<_>>()[..] else {
                panic!("{operation}")
            };
            assert!(response["description"] != "", "{operation}");
        }
    }

    #[test]
    fn every_reference_resolves() {
        for (part, _) in PARTS {
            let document = describe(&Settings::default(), part);
            let text = document.to_string();
            for reference in text.split(r##""$ref":"#"##).skip(1) {
                let pointer = reference.split('"').next().expect("a pointer");
                assert!(document.pointer(pointer).is_some(), "{part:?}: {pointer}");
            }
        }
    }

    /// The schemas of requests and responses share one namespace.
    #[test]
    fn schema_names_are_unique() {
        let settings = Settings::default();
        let mut document = Document::new(&settings, Part::All);
        paths(&mut document, &ROUTES);
        let requests = document.requests.definitions();
        let responses = document.responses.definitions();
        for (name, schema) in requests {
            assert!(
                responses.get(name).is_none_or(|other| other == schema),
                "{name}"
            );
        }

        let names: BTreeMap<_, _> = requests.iter().chain(responses).collect();
        for name in names.keys() {
            // schemars numbers types of the same name, which makes meaningless names.
            assert!(
                !name.ends_with(|last: char| last.is_ascii_digit()),
                "{name}"
            );
            assert!(!["View", "Update"].contains(&name.as_str()), "{name}");
            // In generated Go, `NewKey` would be the constructor of `Key`.
            assert!(!name.starts_with("New"), "{name}");
        }
    }

    #[test]
    fn contains_the_documented_limits() {
        let document = describe(&Settings::default(), Part::Service(Service::Email));
        let email = &document["components"]["schemas"]["CreateEmail"];
        assert_eq!(email["required"], json!(["from", "to", "subject"]));
        assert_eq!(email["properties"]["to"]["anyOf"][1]["maxItems"], 50);
        assert_eq!(email["properties"]["subject"]["maxLength"], 998);
        assert_eq!(email["properties"]["attachments"]["maxItems"], 20);
        let send = &document["paths"]["/api/v1/emails"]["post"];
        assert_eq!(send["security"], json!([{"emailKey": ["emails:send"]}]));
    }

    #[test]
    fn reflects_the_dialect() {
        let dialect = Dialect::with([
            "create-status=200",
            "error-format=problem",
            "idempotency=ignored",
            "key-header=X-Api-Key",
            "first-page=0",
        ]);
        let settings = Settings {
            dialect: dialect.expect("valid choices"),
            ..Settings::default()
        };
        let document = describe(&settings, Part::All);
        let schemes = &document["components"]["securitySchemes"];
        assert_eq!(
            (&schemes["emailKey"]["in"], &schemes["emailKey"]["name"]),
            (&json!("header"), &json!("x-api-key"))
        );
        let paths = &document["paths"];
        let create = &paths["/api/v1/audiences"]["post"];
        assert_eq!(create["parameters"], Value::Null, "no Idempotency-Key");
        assert!(create["responses"].get("200").is_some());
        assert_eq!(document["x-dialect"]["first-page"], "0");
        let pages = &paths["/api/v1/audiences/{audienceId}/contacts"]["get"]["parameters"];
        assert_eq!(pages[1]["schema"]["minimum"], 0);
        let unauthorized = |path: &str| {
            let reference = &paths[path]["get"]["responses"]["401"]["$ref"];
            let pointer = reference
                .as_str()
                .expect("a reference")
                .trim_start_matches('#');
            let types = document.pointer(pointer).expect("a response")["content"].clone();
            types
                .as_object()
                .expect("types")
                .keys()
                .next()
                .expect("a type")
                .clone()
        };

        assert_eq!(
            unauthorized("/api/v1/audiences"),
            "application/problem+json"
        );
        assert_eq!(
            unauthorized("/v1/me"),
            "application/json",
            "the documented format"
        );
        assert_eq!(unauthorized("/_sandbox/keys"), "application/json");
    }
}
