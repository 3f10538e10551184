//! Templates, which the `templateId` of an email refers to
//! (`docs/undocumented/services.md#templates`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::control::{Client, Cursor, DELETE, Endpoint, GET, POST, PUT, Page, Request, requests};
use crate::messages::message_wire::{CheckedPrograms, HtmlCheck};
use crate::model::Timestamp;

requests! {
    /// Lists the templates of emails without their content, by ID.
    LIST: fn templates() -> Page<TemplateSummary> = Endpoint::list(
        "sandboxTemplatesList",
        "/_sandbox/templates",
        "List the templates",
        Cursor::Text,
    );

    /// Returns a template.
    TEMPLATE: fn template(id) -> Template = Endpoint::new(
        GET,
        "sandboxTemplatesGet",
        "/_sandbox/templates/{id}",
        "Get a template",
    );

    /// Deletes a template.
    REMOVE: fn delete_template(id) -> () = Endpoint::new(
        DELETE,
        "sandboxTemplatesDelete",
        "/_sandbox/templates/{id}",
        "Delete a template",
    );
}

pub(crate) const PUT_TEMPLATE: Endpoint<NewTemplate, Template> = Endpoint::new(
    PUT,
    "sandboxTemplatesCreate",
    "/_sandbox/templates/{id}",
    "Create or replace a template",
);
pub(crate) const RENDER: Endpoint<Variables, RenderedTemplate> = Endpoint::new(
    POST,
    "sandboxTemplatesRender",
    "/_sandbox/templates/{id}/render",
    "Render a template without sending an email",
)
.optional_body()
.changes_nothing();

pub(crate) const HTML_CHECK: Endpoint<Variables, HtmlCheck, CheckedPrograms> = Endpoint::new(
    POST,
    "sandboxTemplatesCheckHtml",
    "/_sandbox/templates/{id}/html-check",
    "Get what the HTML of a rendered template uses that mail programs do not support",
)
.optional_body()
.changes_nothing();

/// The content of a template. Each part may contain variables, such as `{{ name }}`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CreateTemplate")]
pub struct NewTemplate {
    /// The organization, by ID or name. Default: that of the client; set it only on a client of none.
    pub organization: Option<String>,
    /// The subject.
    pub subject: Option<String>,
    /// The HTML part.
    pub html: Option<String>,
    /// The text part.
    pub text: Option<String>,
}

/// A template of emails.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Template {
    /// The ID, which the `templateId` of an email names.
    pub id: String,
    /// The subject.
    pub subject: Option<String>,
    /// The HTML part.
    pub html: Option<String>,
    /// The text part.
    pub text: Option<String>,
    /// When it was first stored.
    pub created_at: Timestamp,
    /// When it was last stored.
    pub updated_at: Timestamp,
}

/// A template in a list.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TemplateSummary {
    /// The ID, which the `templateId` of an email names.
    pub id: String,
    /// The subject.
    pub subject: Option<String>,
    /// Whether it has an HTML part.
    pub has_html: bool,
    /// Whether it has a text part.
    pub has_text: bool,
    /// When it was first stored.
    pub created_at: Timestamp,
    /// When it was last stored.
    pub updated_at: Timestamp,
}

/// The variables of a template.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TemplateVariables")]
pub(crate) struct Variables {
    pub(crate) organization: Option<String>,
    /// Their values, by name.
    pub(crate) variables: Option<Map<String, Value>>,
}

/// A template with the values of its variables.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RenderedTemplate {
    /// The subject. An email with the template has a subject of its own instead.
    pub subject: Option<String>,
    /// The HTML part.
    pub html: Option<String>,
    /// The text part.
    pub text: Option<String>,
}

impl Client {
    /// Creates or replaces a template.
    pub fn put_template(&self, id: &str, template: &NewTemplate) -> Request<Template> {
        self.send(&PUT_TEMPLATE, &[id], template)
    }

    /// Renders a template as an email with it would be, and sends nothing.
    pub fn render_template(
        &self,
        id: &str,
        variables: Map<String, Value>,
    ) -> Request<RenderedTemplate> {
        let body = Variables {
            organization: None,
            variables: Some(variables),
        };
        self.send(&RENDER, &[id], &body)
    }

    /// Checks which features of the HTML of a rendered template mail programs do not support: all of
    /// them that the server knows.
    pub fn check_template(&self, id: &str, variables: Map<String, Value>) -> Request<HtmlCheck> {
        let body = Variables {
            organization: None,
            variables: Some(variables),
        };
        self.send(&HTML_CHECK, &[id], &body)
    }
}
