//! Types and operations of the document-extraction service
//! (`docs/extraction-service/README.md`).

mod me;
mod webhooks;

pub use me::{Auth, KeyScope, Me, Organization};

pub use webhooks::Webhooks;
pub use webhooks::{Event, NewWebhook, Webhook};
