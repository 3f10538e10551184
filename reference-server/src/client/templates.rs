//! Templates of emails.

use super::{Client, NewTemplate, Request, Template, e};

/// Requests for templates; see [`Client::templates`].
#[derive(Clone, Copy, Debug)]
pub struct Templates<'a>(pub(super) &'a Client);

impl Templates<'_> {
    /// Creates or replaces a template.
    pub fn put(&self, id: &str, template: &NewTemplate) -> Request<Template> {
        self.0.json(&e::TEMPLATES_PUT, &[id]).with_body(&e::TEMPLATES_PUT, template)
    }

    /// Returns a template.
    pub fn get(&self, id: &str) -> Request<Template> {
        self.0.json(&e::TEMPLATES_GET, &[id])
    }

    /// Deletes a template.
    pub fn delete(&self, id: &str) -> Request<()> {
        self.0.empty(&e::TEMPLATES_DELETE, &[id])
    }
}
