//! Contacts of audiences.

use svc_sdk::email::Contact;

use crate::control::{Cursor, Endpoint, Page, requests};

requests! {
    /// Lists the contacts of an audience, oldest first.
    LIST: fn contacts(audience) -> Page<Contact> = Endpoint::list(
        "sandboxAudiencesListContacts",
        "/_sandbox/audiences/{id}/contacts",
        "List the contacts of an audience",
        Cursor::Id,
    );
}
