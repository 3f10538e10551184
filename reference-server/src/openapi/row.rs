//! One operation of a description, put together from what its handler reads
//! and answers.

use http::StatusCode;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};
use svc_sdk::{Operation, ScopeRule, Service};

use super::document::Document;
use super::errors;
use crate::control::organizations::SANDBOX;
use crate::dns::RecordKind;
use crate::error::Code;
use crate::switches::{CreatedStatus, ErrorShape, Idempotency, Switches, Wrapping};
use crate::web::auth;

pub(super) struct Row<'d, 'a> {
    document: &'d mut Document<'a>,
    value: Map<String, Value>,
    parameters: Vec<Value>,
    answers: Map<String, Value>,
    codes: Vec<Code>,
    links: Map<String, Value>,
    /// Whose errors no switch changes: the control interface's.
    is_control: bool,
    /// The documents show the extraction service's 401: no switch changes it.
    fixed_unauthorized: bool,
}

impl<'d, 'a> Row<'d, 'a> {
    /// What is the same for every documented operation, from the table.
    pub(super) fn documented(document: &'d mut Document<'a>, operation: Operation) -> Self {
        let mut row = Self::new(document, operation.path());
        let name = format!("{operation:?}");
        row.value.insert("operationId".to_owned(), lower_first(&name).into());
        let scheme = match operation.service() {
            Service::Email => "emailKey",
            Service::Extraction => "extractionKey",
        };
        let scope = auth::required_scope(operation);
        let scopes: Vec<&str> = scope.iter().map(|scope| scope.as_str()).collect();
        row.value.insert("security".to_owned(), json!([{scheme: scopes}]));
        let about = match (operation.scope_rule(), scope) {
            (ScopeRule::NotDocumented, Some(scope)) => {
                format!("Needs the scope `{scope}` here; the documents name none.")
            }
            (_, Some(scope)) => format!("Needs the scope `{scope}`."),
            (_, None) => "Every key of the service may call it.".to_owned(),
        };
        row.value.insert("description".to_owned(), about.into());
        row.fixed_unauthorized = operation.service() == Service::Extraction;
        row.codes.extend([Code::Unauthorized, Code::RateLimited]);
        if scope.is_some() {
            row.codes.push(Code::InsufficientScope);
        }
        row
    }

    /// What is the same for every row of the control interface.
    pub(super) fn control(document: &'d mut Document<'a>, method: &str, path: &str) -> Self {
        let mut row = Self::new(document, path);
        row.is_control = true;
        row.value.insert("operationId".to_owned(), control_id(method, path).into());
        row.codes.extend([Code::WrongHost, Code::Forbidden]);
        if row.document.has_control_token() {
            row.value.insert("security".to_owned(), json!([{"controlToken": []}]));
            row.codes.push(Code::Unauthorized);
        }
        row
    }

    fn new(document: &'d mut Document<'a>, path: &str) -> Self {
        let mut row = Self {
            document,
            value: Map::new(),
            parameters: Vec::new(),
            answers: Map::new(),
            codes: EVERYWHERE.to_vec(),
            links: Map::new(),
            is_control: false,
            fixed_unauthorized: false,
        };
        for name in path.split('/').filter_map(|part| part.strip_prefix('{')) {
            let name = name.trim_end_matches('}');
            let (about, mut schema) = match name {
                "audienceId" => ("The audience's id.", json!({})),
                "contactId" => ("The contact's id.", json!({})),
                "domain" => ("The domain's name, or its id.", json!({})),
                "record" => ("", json!({"enum": RecordKind::ALL.map(RecordKind::as_str)})),
                _ => ("Its id.", json!({})),
            };
            schema["type"] = "string".into();
            schema["minLength"] = 1.into();
            row.parameters.push(json!({
                "name": name,
                "in": "path",
                "description": about,
                "required": true,
                "schema": schema,
            }));
            row.codes.push(Code::NotFound);
        }
        row
    }

    pub(super) fn summary(mut self, tag: &str, summary: &str) -> Self {
        self.value.insert("tags".to_owned(), json!([tag]));
        self.value.insert("summary".to_owned(), summary.into());
        self
    }

    /// The JSON body that the handler reads.
    pub(super) fn body<T: JsonSchema>(self) -> Self {
        self.read::<T>(true)
    }

    /// Like `body`, but nothing at all is like `{}`.
    pub(super) fn optional_body<T: JsonSchema>(self) -> Self {
        self.read::<T>(false)
    }

    /// Beside JSON, a body of this type.
    pub(super) fn body_too(mut self, content_type: &str) -> Self {
        if let Some(body) = self.value.get_mut("requestBody") {
            body["content"][content_type] = json!({"schema": {"type": "string"}});
        }
        self
    }

    fn read<T: JsonSchema>(mut self, required: bool) -> Self {
        let schema = self.document.request::<T>();
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

    /// Of one organization, which the query can name (of the body, its type says so).
    pub(super) fn of_organization(mut self) -> Self {
        let mut parameter = json!({
            "name": "organization",
            "in": "query",
            "description": "Its id or its name.",
            "schema": {"type": "string"},
        });
        if self.document.settings.seed {
            parameter["schema"]["default"] = SANDBOX.into();
        }
        self.parameters.push(parameter);
        self.codes.extend([Code::NotFound, Code::Conflict, Code::ValidationFailed]);
        self
    }

    /// Done once where it has an `Idempotency-Key` (`web::once`).
    pub(super) fn once(mut self) -> Self {
        if self.document.settings.switches.idempotency == Idempotency::Honoured {
            self.parameters.push(json!({
                "name": "Idempotency-Key",
                "in": "header",
                "description": "For 24 hours, the same request with the same key is answered \
                                as the first one was, and nothing is done again.",
                "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
            }));
            self.codes.extend([Code::IdempotencyMismatch, Code::ValidationFailed]);
        }
        self
    }

    /// A body that is not asked for must still arrive.
    pub(super) fn ignored_body(mut self) -> Self {
        self.codes.push(Code::PayloadTooLarge);
        self
    }

    pub(super) fn parameters(mut self, parameters: impl IntoIterator<Item = Value>) -> Self {
        self.parameters.extend(parameters);
        self
    }

    pub(super) fn switches(&self) -> &'a Switches {
        &self.document.settings.switches
    }

    /// Errors beyond those that follow from the row itself.
    pub(super) fn errors(mut self, codes: &[Code]) -> Self {
        self.codes.extend(codes);
        self
    }

    /// What was created (`docs/undocumented/both-services.md#create-status`, `docs/undocumented/both-services.md#resource-shape`).
    pub(super) fn created<T: JsonSchema>(self, about: &str) -> Self {
        self.created_as::<T>(StatusCode::CREATED, about)
    }

    pub(super) fn created_as<T: JsonSchema>(self, status: StatusCode, about: &str) -> Self {
        let status = match self.document.settings.switches.created_status {
            CreatedStatus::Created => status,
            CreatedStatus::Ok => StatusCode::OK,
        };
        self.resource_as::<T>(status, about)
    }

    /// One resource (`docs/undocumented/both-services.md#resource-shape`).
    pub(super) fn resource<T: JsonSchema>(self, about: &str) -> Self {
        self.resource_as::<T>(StatusCode::OK, about)
    }

    fn resource_as<T: JsonSchema>(self, status: StatusCode, about: &str) -> Self {
        let schema = self.document.answer::<T>();
        let schema = wrapped(self.document.settings.switches.resources, schema);
        self.answer(status, about, &schema)
    }

    /// All of an organization's (`docs/undocumented/both-services.md#list-shape`).
    pub(super) fn list<T: JsonSchema>(self, about: &str) -> Self {
        let schema = self.document.answer::<Vec<T>>();
        let schema = wrapped(self.document.settings.switches.lists, schema);
        self.answer(StatusCode::OK, about, &schema)
    }

    /// JSON that no switch changes.
    pub(super) fn json<T: JsonSchema>(self, status: StatusCode, about: &str) -> Self {
        let schema = self.document.answer::<T>();
        self.answer(status, about, &schema)
    }

    /// Something else than JSON.
    pub(super) fn other(mut self, status: StatusCode, about: &str, content_type: &str) -> Self {
        let answer = json!({
            "description": about,
            "headers": headers(),
            "content": {content_type: {"schema": {"type": "string"}}},
        });
        self.answers.insert(status.as_str().to_owned(), answer);
        self
    }

    pub(super) fn answer(mut self, status: StatusCode, about: &str, schema: &Schema) -> Self {
        let answer = json!({
            "description": about,
            "headers": headers(),
            "content": {"application/json": {"schema": schema}},
        });
        self.answers.insert(status.as_str().to_owned(), answer);
        self
    }

    pub(super) fn no_content(mut self, about: &str) -> Self {
        let answer = json!({"description": about, "headers": headers()});
        self.answers.insert(StatusCode::NO_CONTENT.as_str().to_owned(), answer);
        self
    }

    /// What can be done with the resource that is answered: its id is the
    /// parameter that names it in the path.
    pub(super) fn leads_to(self, operations: &[Operation]) -> Self {
        let id = match self.document.settings.switches.resources {
            Wrapping::Bare => "$response.body#/id",
            Wrapping::Wrapped => "$response.body#/data/id",
        };
        operations.iter().fold(self, |row, operation| {
            let name = lower_first(&format!("{operation:?}"));
            row.link(name, operation.path(), id)
        })
    }

    /// Rows of the control interface, which take what is found there.
    pub(super) fn leads_to_rows(self, rows: &[(&str, &str)], found: &str) -> Self {
        rows.iter()
            .fold(self, |row, (method, path)| row.link(control_id(method, path), path, found))
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
            && let Some(answer) = self.answers.values_mut().next()
        {
            answer["links"] = std::mem::take(&mut self.links).into();
        }
        if !self.parameters.is_empty() {
            self.value.insert("parameters".to_owned(), self.parameters.into());
        }
        let shape = if self.is_control {
            ErrorShape::Nested
        } else {
            self.document.settings.switches.errors
        };
        let codes = std::mem::take(&mut self.codes);
        let answers = errors::describe(self.document, &codes, shape, self.fixed_unauthorized);
        self.answers.extend(answers);
        self.value.insert("responses".to_owned(), self.answers.into());
        Value::Object(self.value)
    }
}

/// What any request can be answered with: one that cannot be read as HTTP, and
/// a server that is not well.
const EVERYWHERE: [Code; 6] = [
    Code::InvalidRequest,
    Code::RequestTimeout,
    Code::HeadersTooLarge,
    Code::Internal,
    Code::Unavailable,
    Code::StorageFull,
];

/// What every answer carries.
pub(super) fn headers() -> Value {
    json!({
        "X-Request-Id": {
            "description": "Names this request in the server's log.",
            "required": true,
            "schema": {"type": "string"},
        },
    })
}

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

fn control_id(method: &str, path: &str) -> String {
    camel_case(&format!("{method} {}", path.trim_start_matches("/_sandbox/")).to_ascii_lowercase())
}

/// `get messages/{id}/raw` as `sandboxGetMessagesIdRaw`.
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
