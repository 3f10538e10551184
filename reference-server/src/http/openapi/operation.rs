//! One operation of a description: what follows from its route, the types of its handler and
//! the operation table.

use http::StatusCode;
use serde_json::{Value, json};
use svc_sdk::{Operation, Point, Scope, ScopeRule, Service};

use crate::control::Subject;
use crate::http::auth;
use crate::http::auth::PROBES;
use crate::http::control::describe_common;
use crate::http::openapi::document::{Document, headers, parameter};
use crate::http::openapi::errors;
use crate::http::response::success;
use crate::http::route::{Route, Target};
use crate::model::{Code, RecordKind};
use crate::store::SANDBOX;

pub(super) fn describe(document: &mut Document<'_>, route: &Route) -> Value {
    let dialect = &document.settings.dialect;
    let declared = &route.declared;
    let mut value = json!({
        "operationId": route.id(),
        "tags": [route.tag],
        "summary": declared.summary,
    });
    let mut codes = [&COMMON_CODES, route.errors].concat();
    let mut parameters = path_parameters(declared.path);
    if !parameters.is_empty() {
        codes.push(Code::NotFound);
    }
    let schema = (route.reply)(&mut document.responses);
    let status;
    match route.target {
        Target::Documented(operation, _) => {
            status = success(operation, dialect);
            authorize(operation, &mut value, &mut codes);
            if !operation.is_idempotent() && dialect.is(Point::Idempotency, "honored") {
                parameters.push(idempotency_key());
                codes.extend([Code::IdempotencyMismatch, Code::ValidationFailed]);
            }
        }
        Target::Control(_) => {
            let has_content = schema.is_some();
            status = if has_content {
                declared.success
            } else {
                StatusCode::NO_CONTENT
            };
            codes.extend([Code::WrongHost, Code::Forbidden, Code::ValidationFailed]);
            if document.settings.control_token.is_some() && !PROBES.contains(&declared.path) {
                value["security"] = json!([{"controlToken": []}]);
                codes.push(Code::Unauthorized);
            }
            if declared.subject != Subject::Server {
                parameters.push(organization(document.settings.seed));
                codes.extend([Code::NotFound, Code::Conflict]);
            }
            parameters.extend(describe_common(declared));
        }
    }

    let query = (route.query)(dialect);
    if !query.is_empty() {
        codes.push(Code::ValidationFailed);
        parameters.extend(query);
    }
    if !parameters.is_empty() {
        value["parameters"] = parameters.into();
    }
    if let Some(schema) = (route.body)(&mut document.requests) {
        let mut content = json!({"application/json": {"schema": schema}});
        if let Some(also) = declared.also_accepts {
            content[also] = json!({"schema": {"type": "string"}});
        }
        value["requestBody"] = json!({"required": !declared.has_optional_body, "content": content});
        codes.extend([
            Code::InvalidJson,
            Code::PayloadTooLarge,
            Code::UnsupportedMediaType,
            Code::ValidationFailed,
        ]);
    }

    let mut response = json!({"description": status.canonical_reason(), "headers": headers()});
    if let Some(data) = schema {
        response["content"] = json!({declared.produces: {"schema": data}});
    }
    value["responses"] = json!({status.as_str(): response});
    errors::describe(document, declared.path, codes, &mut value["responses"]);
    value
}

/// Errors that every request can get: malformed requests and server failures.
const COMMON_CODES: [Code; 5] = [
    Code::InvalidRequest,
    Code::RequestTimeout,
    Code::Internal,
    Code::Unavailable,
    Code::StorageFull,
];

fn path_parameters(path: &str) -> Vec<Value> {
    let names = path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let describe = |name| {
        let description = match name {
            "audienceId" => "The ID of the audience.",
            "contactId" => "The ID of the contact.",
            "domain" => "The name or the ID of the domain.",
            "record" => "The kind of the DNS record.",
            _ => "The ID of the resource.",
        };
        let mut schema = json!({"type": "string", "minLength": 1});
        if name == "record" {
            schema["enum"] = json!(RecordKind::ALL);
        }
        parameter("path", name, true, description, &schema)
    };
    names.map(describe).collect()
}

/// Adds the security requirement of a documented operation, its description, and the errors.
fn authorize(operation: Operation, value: &mut Value, codes: &mut Vec<Code>) {
    let scheme = match operation.service() {
        Service::Email => "emailKey",
        _ => "extractionKey",
    };
    // The wrong host is for the keys of the sandbox.
    codes.extend([Code::Unauthorized, Code::RateLimited, Code::WrongHost]);
    let scope = auth::required_scope(operation);
    value["security"] = json!([{scheme: Vec::from_iter(scope.map(Scope::as_str))}]);
    let description = match scope {
        None => "Any API key of the service may call this operation.".to_owned(),
        Some(scope) if operation.scope_rule() == ScopeRule::NotDocumented => format!(
            "Requires the scope `{scope}` on this server; the service's reference names none."
        ),
        Some(scope) => format!("Requires the scope `{scope}`."),
    };
    value["description"] = description.into();
    codes.extend(scope.map(|_| Code::InsufficientScope));
}

/// The query parameter that selects the organization.
fn organization(has_seed: bool) -> Value {
    let schema = if has_seed {
        json!({"type": "string", "default": SANDBOX})
    } else {
        json!({"type": "string"})
    };
    parameter(
        "query",
        "organization",
        false,
        "The ID or the name of the organization.",
        &schema,
    )
}

fn idempotency_key() -> Value {
    let description = "For 24 hours, a repeated request with the same key returns the first \
                       response and has no further effect.";
    let schema = json!({"type": "string", "pattern": "^[!-~]{1,255}$"});
    parameter("header", "Idempotency-Key", false, description, &schema)
}
