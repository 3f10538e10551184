//! Audiences.

use svc_sdk::email::Audience;

use crate::control::{Cursor, Endpoint, Page, requests};

// A seed file may give an audience any ID.
requests! {
    /// Lists the audiences as the email service has them, oldest first.
    LIST: fn audiences() -> Page<Audience> = Endpoint::list(
        "sandboxAudiencesList",
        "/_sandbox/audiences",
        "List the audiences",
        Cursor::Text,
    );
}
