//! Types and operations of the
//! [document-extraction service](https://github.com/svc-tools/svc/blob/main/docs/extraction-service/README.md).

pub(crate) mod client;
pub(crate) mod me;
pub(crate) mod webhooks;

pub use me::{Auth, Me, Organization};
pub use webhooks::{Webhook, Webhooks};

pub use crate::webhook::{Event, NewWebhook};
