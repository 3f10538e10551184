//! Audiences.

use svc_sdk::email::Audience;

use crate::control::{Client, Cursor, Endpoint, Page, Request};

// A seed file may give an audience any ID.
pub(crate) const LIST: Endpoint<(), Page<Audience>> = Endpoint::list(
    "sandboxAudiencesList",
    "/_sandbox/audiences",
    "List the audiences",
    Cursor::Text,
);

impl Client {
    /// Lists the audiences as the email service has them, oldest first.
    pub fn audiences(&self) -> Request<Page<Audience>> {
        self.call(&LIST, &[])
    }
}
