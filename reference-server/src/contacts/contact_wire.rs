//! Contacts of audiences.

use svc_sdk::email::Contact;

use crate::control::{Client, Cursor, Endpoint, Page, Request};

pub(crate) const LIST: Endpoint<(), Page<Contact>> = Endpoint::list(
    "sandboxAudiencesListContacts",
    "/_sandbox/audiences/{id}/contacts",
    "List the contacts of an audience",
    Cursor::Id,
);

impl Client {
    /// Lists the contacts of an audience, oldest first.
    pub fn contacts(&self, audience: &str) -> Request<Page<Contact>> {
        self.call(&LIST, &[audience])
    }
}
