//! The 25 documented operations.

use serde_json::{Value, json};
use svc_sdk::{Operation, ScopeRule, Service};

use super::parts::{Parts, body, path_parameters, query, refer, success};
use crate::email::{audiences, batch, contacts, domains, emails, pages, request, stored, webhooks};
use crate::extraction;
use crate::switches::{ContactPages, CreatedStatus, Switches, Wrapping};

/// What is particular to an operation.
struct Own {
    summary: &'static str,
    body: Option<Value>,
    status: u16,
    answer: Option<Value>,
    /// Errors beyond those that every operation may answer with.
    errors: &'static [u16],
}

/// Errors that any operation may answer with.
const ANY: [u16; 6] = [401, 403, 429, 500, 503, 507];
/// Errors of an operation that reads a body.
const BODY: [u16; 5] = [400, 408, 413, 415, 422];

pub(super) fn describe(operation: Operation, switches: &Switches, parts: &mut Parts) -> Value {
    let own = own(operation, switches, parts);
    let mut parameters = path_parameters(operation.path());
    if operation == Operation::ContactsList {
        let first = i64::from(switches.contact_pages != ContactPages::ZeroBased);
        let page =
            json!({"type": "integer", "minimum": first, "maximum": i32::MAX, "default": first});
        parameters.push(query("page", "Which page.", &page));
        let size = json!({"type": "integer", "minimum": 1, "maximum": 100, "default": 20});
        parameters.push(query("pageSize", "Contacts on a page.", &size));
    }
    if own.body.is_some() && operation.method().as_str() == "POST" {
        parameters.push(json!({
            "name": "Idempotency-Key",
            "in": "header",
            "description": "The same key with the same body gets the first answer again, for 24 hours.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
        }));
    }
    let mut responses = json!({});
    responses[own.status.to_string()] = success(own.summary, own.answer.as_ref());
    refer(&mut responses, &ANY);
    refer(&mut responses, own.errors);
    if own.body.is_some() {
        refer(&mut responses, &BODY);
        if operation.method().as_str() == "POST" {
            refer(&mut responses, &[409]);
        }
    }
    let scheme = match operation.service() {
        Service::Email => "emailKey",
        Service::Extraction => "extractionKey",
    };
    let scopes: Vec<&str> = match operation.scope_rule() {
        ScopeRule::Needs(scope) => vec![scope.as_str()],
        ScopeRule::AnyKey => Vec::new(),
        ScopeRule::NotDocumented => vec![svc_sdk::Scope::EmailsSend.as_str()],
    };
    let mut described = json!({
        "operationId": format!("{}.{}", operation.service(), operation.name()),
        "tags": [operation.service().as_str()],
        "summary": own.summary,
        "security": [{scheme: scopes}],
        "parameters": parameters,
        "responses": responses,
    });
    if let Some(schema) = &own.body {
        described["requestBody"] = body(schema, true);
    }
    described
}

fn own(operation: Operation, switches: &Switches, parts: &mut Parts) -> Own {
    let created = |status| match switches.created_status {
        CreatedStatus::Created => status,
        CreatedStatus::Ok => 200,
    };
    let wrapped = |wrapping, schema: Value| match wrapping {
        Wrapping::Bare => schema,
        Wrapping::Wrapped => {
            json!({"type": "object", "properties": {"data": schema}, "required": ["data"]})
        }
    };
    let one = |schema| Some(wrapped(switches.resources, schema));
    let many = |schema| {
        let list = json!({"type": "array", "items": schema});
        Some(wrapped(switches.lists, list))
    };
    let new = |summary, body, status, answer, errors| Own {
        summary,
        body: Some(body),
        status: created(status),
        answer: one(answer),
        errors,
    };
    let read = |summary, answer, errors| Own { summary, body: None, status: 200, answer, errors };
    let gone = |summary| Own { summary, body: None, status: 204, answer: None, errors: &[404] };
    match operation {
        Operation::Me => read(
            "The key's organization and scope",
            Some(parts.output::<extraction::me::Me>()),
            &[],
        ),
        Operation::ExtractionWebhooksCreate => {
            let input = parts.input::<extraction::webhooks::New>();
            let output = parts.output::<extraction::webhooks::View<'_>>();
            new("Registers an endpoint", input, 201, output, &[])
        }
        Operation::ExtractionWebhooksList => {
            let output = parts.output::<extraction::webhooks::View<'_>>();
            read("The organization's endpoints", many(output), &[])
        }
        Operation::ExtractionWebhooksDelete => gone("Removes an endpoint"),
        Operation::AudiencesCreate => {
            let input = parts.input::<audiences::New>();
            new("Creates an audience", input, 201, parts.output::<audiences::Audience>(), &[])
        }
        Operation::AudiencesList => {
            read("The audiences", many(parts.output::<audiences::Audience>()), &[])
        }
        Operation::AudiencesGet => {
            read("An audience", one(parts.output::<audiences::Audience>()), &[404])
        }
        Operation::AudiencesDelete => gone("Deletes an audience with its contacts"),
        Operation::ContactsCreate => {
            let input = parts.input::<contacts::New>();
            new("Adds a contact", input, 201, parts.output::<contacts::Contact>(), &[404])
        }
        Operation::ContactsList => {
            let answer = match switches.contact_pages {
                ContactPages::Array => {
                    json!({"type": "array", "items": parts.output::<contacts::Contact>()})
                }
                ContactPages::Object | ContactPages::ZeroBased => {
                    parts.output::<pages::Paged<'_, contacts::Contact>>()
                }
            };
            read("A page of an audience's contacts", Some(answer), &[404, 422])
        }
        Operation::ContactsUpdate => Own {
            summary: "Updates a contact",
            body: Some(parts.input::<contacts::Update>()),
            status: 200,
            answer: one(parts.output::<contacts::Contact>()),
            errors: &[404],
        },
        Operation::ContactsDelete => gone("Deletes a contact"),
        Operation::DomainsList => {
            read("The domains", many(parts.output::<domains::View<'_>>()), &[])
        }
        Operation::DomainsCreate => {
            let input = parts.input::<domains::New>();
            let summary = "Adds a domain and says which DNS records to publish";
            new(summary, input, 201, parts.output::<domains::View<'_>>(), &[])
        }
        Operation::DomainsVerify => {
            let output = one(parts.output::<domains::View<'_>>());
            read("Looks for the domain's DNS records", output, &[400, 404, 408, 413])
        }
        Operation::DomainsDelete => {
            let ok = json!({"type": "object", "properties": {"ok": {"const": true}}, "required": ["ok"]});
            read("Removes a domain and all mailboxes under it", Some(ok), &[404])
        }
        Operation::EmailsSend => {
            let input = parts.input::<request::NewEmail>();
            new("Accepts an email", input, 202, parts.output::<stored::View<'_>>(), &[])
        }
        Operation::EmailsSendBatch => {
            let email = parts.input::<request::NewEmail>();
            let list = json!({"type": "array", "items": email, "minItems": 1, "maxItems": 100});
            let object =
                json!({"type": "object", "properties": {"emails": list}, "required": ["emails"]});
            Own {
                summary: "Accepts up to 100 emails, each on its own",
                body: Some(json!({"oneOf": [list, object]})),
                status: 200,
                answer: Some(parts.output::<batch::Results>()),
                errors: &[],
            }
        }
        Operation::EmailsGet => {
            read("An email with its status", one(parts.output::<emails::Full<'_>>()), &[404])
        }
        Operation::EmailsCancel => {
            let output = one(parts.output::<stored::View<'_>>());
            read("Cancels an email that waits for its date", output, &[404, 409])
        }
        Operation::WebhooksCreate => {
            let input = parts.input::<webhooks::New>();
            new("Creates a webhook", input, 201, parts.output::<webhooks::View<'_>>(), &[])
        }
        Operation::WebhooksList => {
            read("The webhooks", many(parts.output::<webhooks::View<'_>>()), &[])
        }
        Operation::WebhooksUpdate => Own {
            summary: "Updates, enables or disables a webhook",
            body: Some(parts.input::<webhooks::Update>()),
            status: 200,
            answer: one(parts.output::<webhooks::View<'_>>()),
            errors: &[404],
        },
        Operation::WebhooksDelete => gone("Deletes a webhook"),
        Operation::WebhooksTest => {
            let answer = json!({
                "type": "object",
                "properties": {
                    &switches.test_field: {"type": ["integer", "null"]},
                    "durationMs": {"type": "integer"},
                    "error": {"type": "string"},
                },
                "required": [&switches.test_field],
            });
            let summary = "Sends a signed test event and says what the endpoint answered";
            read(summary, Some(answer), &[400, 404, 408, 409, 413, 422])
        }
    }
}
