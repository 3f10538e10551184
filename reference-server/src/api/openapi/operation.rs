//! One operation of a description: what follows from its route, the types of its handler and
//! the operation table.

use schemars::Schema;
use serde_json::{Map, Value, json};
use svc_sdk::{Operation, ScopeRule, Service};

use super::document::{Document, headers};
use super::errors;
use crate::api::control::guard::PROBES;
use crate::api::framework::auth;
use crate::api::framework::control::describe_common;
use crate::api::framework::route::{Route, Target};
use crate::control::endpoint::Subject;
use crate::model::compatibility::ErrorFormat;
use crate::model::dns::RecordKind;
use crate::model::error::Code;
use crate::store::organizations::SANDBOX;

pub(super) fn describe(document: &mut Document<'_>, route: &Route) -> Value {
    let (compatibility, declared) = (&document.settings.compatibility, &route.declared);
    let mut value = Map::new();
    let mut set = |name: &str, part: Value| value.insert(name.to_owned(), part);
    set("operationId", route.id().into());
    set("tags", json!([route.tag]));
    set("summary", declared.summary.into());
    let (mut parameters, mut codes) = path_parameters(declared.path);
    let query = (route.query)(compatibility);
    if !query.is_empty() {
        codes.push(Code::ValidationFailed);
    }
    codes.extend(route.errors);
    // The error format of the control interface is fixed, and so is that of the extraction
    // service's 401.
    let (format, fixed_unauthorized);
    match route.target {
        Target::Documented(operation, _) => {
            let (security, description, required) = authorization(operation);
            set("security", security);
            set("description", description.into());
            codes.extend(required);
            parameters.extend(query);
            if !operation.is_idempotent() && !compatibility.ignores_idempotency_keys {
                parameters.push(idempotency_key());
                codes.extend([Code::IdempotencyMismatch, Code::ValidationFailed]);
            }
            format = compatibility.error_format;
            fixed_unauthorized = operation.service() == Service::Extraction;
        }
        Target::Control(_) => {
            codes.extend([Code::WrongHost, Code::Forbidden, Code::ValidationFailed]);
            if document.has_control_token() && !PROBES.contains(&declared.path) {
                set("security", json!([{"controlToken": []}]));
                codes.push(Code::Unauthorized);
            }
            if declared.subject != Subject::Server {
                parameters.push(organization(document.settings.seed));
                codes.extend([Code::NotFound, Code::Conflict]);
            }
            parameters.extend(query);
            parameters.extend(describe_common(declared));
            (format, fixed_unauthorized) = (ErrorFormat::Nested, false);
        }
    }
    if !parameters.is_empty() {
        set("parameters", parameters.into());
    }
    if let Some(schema) = (route.body)(&mut document.requests) {
        let mut content = json!({"application/json": {"schema": schema}});
        if let Some(also) = declared.also_accepts {
            content[also] = json!({"schema": {"type": "string"}});
        }
        set("requestBody", json!({"required": !declared.has_optional_body, "content": content}));
        codes.extend([
            Code::InvalidJson,
            Code::PayloadTooLarge,
            Code::UnsupportedMediaType,
            Code::ValidationFailed,
        ]);
    }
    let (status, schema) = (route.reply)(compatibility, &mut document.responses);
    let description = description(document, schema.as_ref());
    let mut response = json!({"description": description, "headers": headers()});
    if let Some(schema) = schema {
        response["content"] = json!({declared.produces: {"schema": schema}});
    }
    let mut responses = Map::new();
    responses.insert(status.as_str().to_owned(), response);
    responses.extend(errors::describe(document, &codes, format, fixed_unauthorized));
    set("responses", responses.into());
    value.into()
}

/// Describes a response by its type.
fn description(document: &Document<'_>, schema: Option<&Schema>) -> String {
    let Some(schema) = schema else { return "Done. There is no content.".to_owned() };
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
    let named = name.and_then(|name| document.responses.definitions().get(name));
    let described = named.unwrap_or(schema.as_value()).get("description").and_then(Value::as_str);
    described.unwrap_or("The content.").to_owned()
}

/// Errors that every request can get: malformed requests and server failures.
const COMMON_CODES: [Code; 5] = [
    Code::InvalidRequest,
    Code::RequestTimeout,
    Code::Internal,
    Code::Unavailable,
    Code::StorageFull,
];

/// The names of the parameters in a path.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn path_parameters(path: &str) -> (Vec<Value>, Vec<Code>) {
    let mut codes = COMMON_CODES.to_vec();
    let parameter = |name| {
        let (description, mut schema) = match name {
            "audienceId" => ("The ID of the audience.", json!({})),
            "contactId" => ("The ID of the contact.", json!({})),
            "domain" => ("The name or the ID of the domain.", json!({})),
            "record" => (
                "The kind of the DNS record.",
                json!({"enum": RecordKind::ALL.map(RecordKind::as_str)}),
            ),
            _ => ("The ID of the resource.", json!({})),
        };
        schema["type"] = "string".into();
        schema["minLength"] = 1.into();
        codes.push(Code::NotFound);
        json!({
            "name": name,
            "in": "path",
            "description": description,
            "required": true,
            "schema": schema,
        })
    };
    let parameters = names(path).map(parameter).collect();
    (parameters, codes)
}

/// The security requirement of a documented operation, its description, and the errors.
fn authorization(operation: Operation) -> (Value, String, Vec<Code>) {
    let scheme = match operation.service() {
        Service::Email => "emailKey",
        _ => "extractionKey",
    };
    // The wrong host is for the keys of the sandbox.
    let mut codes = vec![Code::Unauthorized, Code::RateLimited, Code::WrongHost];
    let Some(scope) = auth::required_scope(operation) else {
        let description = "Any API key of the service may call this operation.".to_owned();
        return (json!([{scheme: []}]), description, codes);
    };
    codes.push(Code::InsufficientScope);
    let description = if operation.scope_rule() == ScopeRule::NotDocumented {
        format!("Requires the scope `{scope}` on this server; the service's reference names none.")
    } else {
        format!("Requires the scope `{scope}`.")
    };
    (json!([{scheme: [scope.as_str()]}]), description, codes)
}

/// The query parameter that selects the organization.
fn organization(has_seed: bool) -> Value {
    let mut parameter = json!({
        "name": "organization",
        "in": "query",
        "description": "The ID or the name of the organization.",
        "schema": {"type": "string"},
    });
    if has_seed {
        parameter["schema"]["default"] = SANDBOX.into();
    }
    parameter
}

fn idempotency_key() -> Value {
    json!({
        "name": "Idempotency-Key",
        "in": "header",
        "description": "For 24 hours, a repeated request with the same key returns the first \
                        response and has no further effect.",
        "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
    })
}
