//! `/openapi.json`: what the server offers, as an OpenAPI 3.1 description that
//! is made from the handlers' own types, the operation table and the switches
//! that the server was started with. Made anew for each request: nobody asks
//! often, and a server at rest keeps nothing of it.

mod control;
mod document;
mod errors;
mod row;
pub(crate) mod schema;
mod services;
mod webhooks;

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use http::{Response, StatusCode};

use crate::app::Shared;
use crate::web::Answer;
use document::Document;

/// What a description covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    All,
    Email,
    Extraction,
    Control,
}

impl Part {
    const ALL: [Self; 4] = [Self::All, Self::Email, Self::Extraction, Self::Control];

    const fn path(self) -> &'static str {
        match self {
            Self::All => "/openapi.json",
            Self::Email => "/openapi/email.json",
            Self::Extraction => "/openapi/extraction.json",
            Self::Control => "/openapi/control.json",
        }
    }

    fn has(self, other: Self) -> bool {
        self == Self::All || self == other
    }
}

/// Adds the description of all, and one of each part beside it.
pub(crate) fn routes(mut router: Router<Shared>) -> Router<Shared> {
    for part in Part::ALL {
        let answer = move |State(app): State<Shared>| async move {
            let document = Document::of(&app, part).into_value();
            let answer = Answer::json(StatusCode::OK, &document);
            answer.map_or_else(
                |error| crate::web::answer::error(&error, app.settings.switches.errors),
                Response::from,
            )
        };
        router = router.route(part.path(), get(answer));
    }
    router
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::{Value, json};
    use svc_sdk::Operation;

    use super::*;
    use crate::settings::Settings;

    fn describe(settings: &Settings, part: Part) -> Value {
        Document::new(settings, "http://127.0.0.1:4080".to_owned(), true, part).into_value()
    }

    /// Method and path of everything in a description.
    fn rows(document: &Value) -> BTreeSet<(String, String)> {
        let paths = document["paths"].as_object().expect("paths");
        let row = |path: &String, method: &String| (method.to_uppercase(), path.clone());
        let rows = paths.iter().flat_map(|(path, methods)| {
            let methods = methods.as_object().expect("methods");
            methods.keys().map(move |method| row(path, method))
        });
        rows.collect()
    }

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let documented = Operation::ALL
            .iter()
            .map(|operation| (operation.method().as_str().to_owned(), operation.path().to_owned()));
        let control = crate::control::rows();
        let control =
            control.iter().map(|(method, path)| ((*method).to_owned(), (*path).to_owned()));
        let served: BTreeSet<_> = documented.chain(control).collect();
        let settings = Settings::default();
        assert_eq!(rows(&describe(&settings, Part::All)), served);
        let parts = [Part::Email, Part::Extraction, Part::Control];
        let parts = parts.iter().flat_map(|part| rows(&describe(&settings, *part)));
        assert_eq!(parts.collect::<BTreeSet<_>>(), served);
    }

    #[test]
    fn every_row_says_what_it_is() {
        let document = describe(&Settings::default(), Part::All);
        let mut ids = BTreeSet::new();
        for (method, path) in rows(&document) {
            let row = &document["paths"][&path][method.to_lowercase()];
            for field in ["operationId", "summary", "tags", "responses"] {
                assert!(!row[field].is_null(), "{method} {path} has no {field}");
            }
            assert!(ids.insert(row["operationId"].to_string()), "{method} {path}");
            let answers = row["responses"].as_object().expect("answers");
            let good = answers.keys().filter(|status| status.starts_with('2'));
            assert_eq!(good.count(), 1, "{method} {path}");
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        for part in Part::ALL {
            let document = describe(&Settings::default(), part);
            let text = document.to_string();
            for reference in text.split(r##""$ref":"#"##).skip(1) {
                let pointer = reference.split('"').next().expect("a pointer");
                assert!(document.pointer(pointer).is_some(), "{part:?}: {pointer}");
            }
        }
    }

    /// Requests and answers share the names of their schemas.
    #[test]
    fn no_schema_hides_another() {
        let settings = Settings::default();
        let document = Document::new(&settings, "/".to_owned(), false, Part::All);
        let (requests, answers) = document.definitions();
        for (name, schema) in requests {
            assert!(answers.get(name).is_none_or(|other| other == schema), "{name}");
        }
        let names: BTreeMap<_, _> = requests.iter().chain(answers).collect();
        for name in names.keys() {
            // Two types of one name are told apart by a number, which says nothing.
            assert!(!name.ends_with(|last: char| last.is_ascii_digit()), "{name}");
            assert!(!["New", "View", "Update"].contains(&name.as_str()), "{name}");
        }
    }

    #[test]
    fn the_documents_limits_are_in_it() {
        let document = describe(&Settings::default(), Part::Email);
        let email = &document["components"]["schemas"]["NewEmail"];
        assert_eq!(email["required"], json!(["from", "to", "subject"]));
        assert_eq!(email["properties"]["to"]["anyOf"][1]["maxItems"], 50);
        assert_eq!(email["properties"]["subject"]["maxLength"], 998);
        assert_eq!(email["properties"]["attachments"]["maxItems"], 20);
        let send = &document["paths"]["/api/v1/emails"]["post"];
        assert_eq!(send["security"], json!([{"emailKey": ["emails:send"]}]));
    }

    #[test]
    fn switches_change_what_they_change() {
        let mut settings = Settings::default();
        for switch in [
            "create-status=200",
            "list-shape=wrapped",
            "error-format=problem",
            "idempotency=ignored",
            "resource-shape=wrapped",
        ] {
            settings.switches.set(switch).expect("a switch");
        }
        for switch in ["key-header=X-Api-Key", "contact-pages=zero-based", "test-status-field=code"]
        {
            settings.switches.set(switch).expect("a switch");
        }
        let document = describe(&settings, Part::All);
        let schemes = &document["components"]["securitySchemes"];
        assert_eq!(
            (&schemes["emailKey"]["in"], &schemes["emailKey"]["name"]),
            (&json!("header"), &json!("x-api-key"))
        );
        let paths = &document["paths"];
        let schema = |path: &str, method: &str| {
            paths[path][method]["responses"]["200"]["content"]["application/json"]["schema"].clone()
        };
        let create = &paths["/api/v1/audiences"]["post"];
        assert_eq!(create["parameters"], Value::Null, "no Idempotency-Key");
        assert_eq!(
            schema("/api/v1/audiences", "post")["properties"]["data"]["$ref"],
            "#/components/schemas/Audience"
        );
        assert_eq!(schema("/api/v1/audiences", "get")["properties"]["data"]["type"], "array");
        assert_eq!(schema("/api/v1/webhooks/{id}/test", "post")["required"], json!(["code"]));
        let pages = &paths["/api/v1/audiences/{audienceId}/contacts"]["get"]["parameters"];
        assert_eq!(pages[1]["schema"]["minimum"], 0);
        let unauthorized = |path: &str| {
            let reference = &paths[path]["get"]["responses"]["401"]["$ref"];
            let pointer = reference.as_str().expect("a reference").trim_start_matches('#');
            let types = document.pointer(pointer).expect("an answer")["content"].clone();
            types.as_object().expect("types").keys().next().expect("a type").clone()
        };
        assert_eq!(unauthorized("/api/v1/audiences"), "application/problem+json");
        assert_eq!(unauthorized("/v1/me"), "application/json", "as the documents show it");
        assert_eq!(unauthorized("/_sandbox/health"), "application/json");
    }
}
