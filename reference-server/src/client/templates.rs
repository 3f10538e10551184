//! Templates of emails.

use serde_json::{Map, Value};

use super::connection::Client;
use super::request::Request;
use crate::api::control::Page;
use crate::api::control::endpoints as e;
use crate::api::control::templates::{
    NewTemplate, RenderedTemplate, Template, TemplateSummary, Variables,
};

impl Client {
    /// The templates of emails.
    pub fn templates(&self) -> Templates<'_> {
        Templates(self)
    }
}

/// Requests for templates; see [`Client::templates`].
#[derive(Clone, Copy, Debug)]
pub struct Templates<'a>(&'a Client);

impl Templates<'_> {
    /// Lists the templates without their content, by ID.
    pub fn list(&self) -> Request<Page<TemplateSummary>> {
        self.0.json(&e::TEMPLATES, &[])
    }

    /// Creates or replaces a template.
    pub fn put(&self, id: &str, template: &NewTemplate) -> Request<Template> {
        self.0.json(&e::TEMPLATES_PUT, &[id]).with_body(&e::TEMPLATES_PUT, template)
    }

    /// Returns a template.
    pub fn get(&self, id: &str) -> Request<Template> {
        self.0.json(&e::TEMPLATES_GET, &[id])
    }

    /// Renders a template as an email with it would be, and sends nothing.
    pub fn render(&self, id: &str, variables: Map<String, Value>) -> Request<RenderedTemplate> {
        let body = Variables { organization: None, variables: Some(variables) };
        let request = self.0.json(&e::TEMPLATES_RENDER, &[id]);
        request.with_body(&e::TEMPLATES_RENDER, &body)
    }

    /// Deletes a template.
    pub fn delete(&self, id: &str) -> Request<()> {
        self.0.empty(&e::TEMPLATES_DELETE, &[id])
    }
}
