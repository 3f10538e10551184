//! [`OperationBuilder`]: builds one operation of a description from its request and
//! response types.

use http::StatusCode;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};
use svc_sdk::{Operation, ScopeRule, Service};

use super::document::{Document, headers};
use super::errors;
use crate::api::control::operation::ControlOperation;
use crate::api::framework::auth;
use crate::model::compatibility::{
    Compatibility, CreateStatus, ErrorFormat, Idempotency, Wrapping,
};
use crate::model::dns::RecordKind;
use crate::model::error::Code;
use crate::store::organizations::SANDBOX;

pub(super) struct OperationBuilder<'d, 'a> {
    document: &'d mut Document<'a>,
    value: Map<String, Value>,
    parameters: Vec<Value>,
    responses: Map<String, Value>,
    codes: Vec<Code>,
    links: Map<String, Value>,
    /// The error format of the control interface is fixed.
    is_control: bool,
    /// The format of the extraction service's 401 is documented, so no setting changes it.
    fixed_unauthorized: bool,
}

impl<'d, 'a> OperationBuilder<'d, 'a> {
    /// Starts a documented operation with what follows from the operation table.
    pub(super) fn documented(document: &'d mut Document<'a>, operation: Operation) -> Self {
        let mut builder = Self::new(document, operation.path());
        let name = format!("{operation:?}");
        builder.value.insert("operationId".to_owned(), lower_first(&name).into());
        let scheme = match operation.service() {
            Service::Email => "emailKey",
            _ => "extractionKey",
        };
        let scope = auth::required_scope(operation);
        let scopes: Vec<&str> = scope.iter().map(|scope| scope.as_str()).collect();
        builder.value.insert("security".to_owned(), json!([{scheme: scopes}]));
        let description = match (operation.scope_rule(), scope) {
            (ScopeRule::NotDocumented, Some(scope)) => {
                format!(
                    "Requires the scope `{scope}` on this server; the service's reference names \
                     none."
                )
            }
            (_, Some(scope)) => format!("Requires the scope `{scope}`."),
            (_, None) => "Any API key of the service may call this operation.".to_owned(),
        };
        builder.value.insert("description".to_owned(), description.into());
        builder.fixed_unauthorized = operation.service() == Service::Extraction;
        builder.codes.extend([Code::Unauthorized, Code::RateLimited]);
        // For the keys of the sandbox.
        builder.codes.push(Code::WrongHost);
        if scope.is_some() {
            builder.codes.push(Code::InsufficientScope);
        }
        builder
    }

    /// Starts an operation of the control interface.
    pub(super) fn control(document: &'d mut Document<'a>, operation: ControlOperation) -> Self {
        let mut builder = Self::new(document, operation.path());
        builder.is_control = true;
        builder.value.insert("operationId".to_owned(), control_id(operation).into());
        builder.codes.extend([Code::WrongHost, Code::Forbidden, Code::ValidationFailed]);
        if builder.document.has_control_token() {
            builder.value.insert("security".to_owned(), json!([{"controlToken": []}]));
            builder.codes.push(Code::Unauthorized);
        }
        builder
    }

    fn new(document: &'d mut Document<'a>, path: &str) -> Self {
        let mut builder = Self {
            document,
            value: Map::new(),
            parameters: Vec::new(),
            responses: Map::new(),
            codes: COMMON_CODES.to_vec(),
            links: Map::new(),
            is_control: false,
            fixed_unauthorized: false,
        };
        for name in path.split('/').filter_map(|part| part.strip_prefix('{')) {
            let name = name.trim_end_matches('}');
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
            builder.parameters.push(json!({
                "name": name,
                "in": "path",
                "description": description,
                "required": true,
                "schema": schema,
            }));
            builder.codes.push(Code::NotFound);
        }
        builder
    }

    pub(super) fn summary(mut self, tag: &str, summary: &str) -> Self {
        self.value.insert("tags".to_owned(), json!([tag]));
        self.value.insert("summary".to_owned(), summary.into());
        self
    }

    /// Adds a required JSON body.
    pub(super) fn body<T: JsonSchema>(self) -> Self {
        self.read::<T>(true)
    }

    /// Adds an optional JSON body.
    pub(super) fn optional_body<T: JsonSchema>(self) -> Self {
        self.read::<T>(false)
    }

    /// Adds another content type to the body.
    pub(super) fn alternative_body(mut self, content_type: &str) -> Self {
        if let Some(body) = self.value.get_mut("requestBody") {
            body["content"][content_type] = json!({"schema": {"type": "string"}});
        }
        self
    }

    fn read<T: JsonSchema>(mut self, required: bool) -> Self {
        let schema = self.document.request_schema::<T>();
        let body =
            json!({"required": required, "content": {"application/json": {"schema": schema}}});
        self.value.insert("requestBody".to_owned(), body);
        self.codes.extend([
            Code::InvalidJson,
            Code::PayloadTooLarge,
            Code::UnsupportedMediaType,
            Code::ValidationFailed,
        ]);
        self
    }

    /// Adds the query parameter that selects the organization.
    pub(super) fn scoped_to_organization(mut self) -> Self {
        let mut parameter = json!({
            "name": "organization",
            "in": "query",
            "description": "The ID or the name of the organization.",
            "schema": {"type": "string"},
        });
        if self.document.settings.seed {
            parameter["schema"]["default"] = SANDBOX.into();
        }
        self.parameters.push(parameter);
        self.codes.extend([Code::NotFound, Code::Conflict, Code::ValidationFailed]);
        self
    }

    /// Adds the `Idempotency-Key` header.
    pub(super) fn idempotent(mut self) -> Self {
        if self.document.settings.compatibility.idempotency == Idempotency::Honored {
            self.parameters.push(json!({
                "name": "Idempotency-Key",
                "in": "header",
                "description": "For 24 hours, a repeated request with the same key returns the \
                                first response and has no further effect.",
                "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
            }));
            self.codes.extend([Code::IdempotencyMismatch, Code::ValidationFailed]);
        }
        self
    }

    /// The operation has no body, but a body that was sent is read, up to the size limit.
    pub(super) fn ignored_body(mut self) -> Self {
        self.codes.push(Code::PayloadTooLarge);
        self
    }

    pub(super) fn parameters(mut self, parameters: impl IntoIterator<Item = Value>) -> Self {
        self.parameters.extend(parameters);
        self
    }

    pub(super) fn compatibility(&self) -> &'a Compatibility {
        &self.document.settings.compatibility
    }

    /// Adds error codes.
    pub(super) fn errors(mut self, codes: &[Code]) -> Self {
        self.codes.extend(codes);
        self
    }

    /// Sets the response of a create operation
    /// (`docs/undocumented/both-services.md#create-status`).
    pub(super) fn created<T: JsonSchema>(self, description: &str) -> Self {
        self.created_as::<T>(StatusCode::CREATED, description)
    }

    pub(super) fn created_as<T: JsonSchema>(self, status: StatusCode, description: &str) -> Self {
        let status = match self.document.settings.compatibility.create_status {
            CreateStatus::Created => status,
            CreateStatus::Ok => StatusCode::OK,
        };
        self.resource_as::<T>(status, description)
    }

    /// Sets a resource as the response (`docs/undocumented/both-services.md#resource-shape`).
    pub(super) fn resource<T: JsonSchema>(self, description: &str) -> Self {
        self.resource_as::<T>(StatusCode::OK, description)
    }

    fn resource_as<T: JsonSchema>(self, status: StatusCode, description: &str) -> Self {
        let schema = self.document.response_schema::<T>();
        let schema = wrapped(self.document.settings.compatibility.resource_shape, schema);
        self.response(status, description, &schema)
    }

    /// Sets a list as the response (`docs/undocumented/both-services.md#list-shape`).
    pub(super) fn list<T: JsonSchema>(self, description: &str) -> Self {
        let schema = self.document.response_schema::<Vec<T>>();
        let schema = wrapped(self.document.settings.compatibility.list_shape, schema);
        self.response(StatusCode::OK, description, &schema)
    }

    /// Sets JSON that no compatibility setting changes as the response.
    pub(super) fn json<T: JsonSchema>(self, status: StatusCode, description: &str) -> Self {
        let schema = self.document.response_schema::<T>();
        self.response(status, description, &schema)
    }

    /// Sets a response that is not JSON.
    pub(super) fn non_json(
        mut self,
        status: StatusCode,
        description: &str,
        content_type: &str,
    ) -> Self {
        let response = json!({
            "description": description,
            "headers": headers(),
            "content": {content_type: {"schema": {"type": "string"}}},
        });
        self.responses.insert(status.as_str().to_owned(), response);
        self
    }

    pub(super) fn response(
        mut self,
        status: StatusCode,
        description: &str,
        schema: &Schema,
    ) -> Self {
        let response = json!({
            "description": description,
            "headers": headers(),
            "content": {"application/json": {"schema": schema}},
        });
        self.responses.insert(status.as_str().to_owned(), response);
        self
    }

    pub(super) fn no_content(mut self, description: &str) -> Self {
        let response = json!({"description": description, "headers": headers()});
        self.responses.insert(StatusCode::NO_CONTENT.as_str().to_owned(), response);
        self
    }

    /// Links to operations that take the ID of the returned resource as their first path
    /// parameter.
    pub(super) fn links_to(self, operations: &[Operation]) -> Self {
        let id = match self.document.settings.compatibility.resource_shape {
            Wrapping::Bare => "$response.body#/id",
            Wrapping::Wrapped => "$response.body#/data/id",
        };
        operations.iter().fold(self, |builder, operation| {
            let name = lower_first(&format!("{operation:?}"));
            builder.link(name, operation.path(), id)
        })
    }

    /// Links to operations of the control interface. `value` is the runtime expression of
    /// their first path parameter.
    pub(super) fn links_to_control(self, operations: &[ControlOperation], value: &str) -> Self {
        operations.iter().fold(self, |builder, operation| {
            builder.link(control_id(*operation), operation.path(), value)
        })
    }

    fn link(mut self, operation: String, path: &str, value: &str) -> Self {
        let mut parameters = path.split('/').filter_map(|part| part.strip_prefix('{'));
        let parameter = parameters.next().unwrap_or_default().trim_end_matches('}').to_owned();
        let link = json!({"operationId": operation, "parameters": {parameter: value}});
        self.links.insert(operation, link);
        self
    }

    pub(super) fn finish(mut self) -> Value {
        if !self.links.is_empty()
            && let Some(response) = self.responses.values_mut().next()
        {
            response["links"] = std::mem::take(&mut self.links).into();
        }
        if !self.parameters.is_empty() {
            self.value.insert("parameters".to_owned(), self.parameters.into());
        }
        let format = if self.is_control {
            ErrorFormat::Nested
        } else {
            self.document.settings.compatibility.error_format
        };
        let codes = std::mem::take(&mut self.codes);
        let responses = errors::describe(self.document, &codes, format, self.fixed_unauthorized);
        self.responses.extend(responses);
        self.value.insert("responses".to_owned(), self.responses.into());
        Value::Object(self.value)
    }
}

/// Errors that every request can get: malformed requests and server failures.
const COMMON_CODES: [Code; 6] = [
    Code::InvalidRequest,
    Code::RequestTimeout,
    Code::HeadersTooLarge,
    Code::Internal,
    Code::Unavailable,
    Code::StorageFull,
];

fn wrapped(wrapping: Wrapping, schema: Schema) -> Schema {
    match wrapping {
        Wrapping::Bare => schema,
        Wrapping::Wrapped => schemars::json_schema!({
            "type": "object",
            "properties": {"data": schema},
            "required": ["data"],
        }),
    }
}

fn lower_first(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

fn control_id(operation: ControlOperation) -> String {
    let path = operation.path().trim_start_matches("/_sandbox/");
    camel_case(&format!("{} {path}", operation.method()).to_ascii_lowercase())
}

/// Turns `get messages/{id}/raw` into `sandboxGetMessagesIdRaw`.
fn camel_case(text: &str) -> String {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let mut name = "sandbox".to_owned();
    for word in words.filter(|word| !word.is_empty()) {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        name.extend(first.into_iter().chain(letters));
    }
    name
}
