//! Types and operations of the
//! [email-sending service](https://github.com/svc-tools/svc/blob/main/docs/email-service/README.md),
//! one module per resource.

mod accepted;
mod admission;
pub(crate) mod attachment;
pub(crate) mod audiences;
pub(crate) mod batch;
pub(crate) mod client;
pub(crate) mod contacts;
pub(crate) mod domains;
pub(crate) mod email_record;
pub(crate) mod emails;
mod field_value;
pub(crate) mod message;
mod request_body;
pub(crate) mod webhooks;

pub use attachment::Attachment;
pub use audiences::{Audience, Audiences, NewAudience};
pub use batch::{BatchItem, BatchOutcome, BatchResponse, Refusal};
pub use contacts::{Contact, ContactUpdate, Contacts, NewContact};
pub use domains::{DnsRecord, Domain, Domains, NewDomain};
pub use email_record::{EmailRecord, EmailStatus};
pub use emails::Emails;
pub use field_value::FieldValue;
pub use message::{Email, Recipients, ScheduledAt};
pub use webhooks::{Webhook, WebhookTest, WebhookUpdate, Webhooks};

pub use crate::webhook::{Event, NewWebhook};
