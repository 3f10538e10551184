//! Types and operations of the email-sending service (`docs/email-service/README.md`), one
//! module per resource.

pub(crate) mod attachment;
mod audiences;
mod batch;
mod contact_pages;
mod contacts;
mod domains;
mod email_record;
mod emails;
mod limits;
pub(crate) mod message;
mod recipients;
mod webhooks;
pub use attachment::Attachment;
pub use audiences::Audiences;
pub use audiences::{Audience, NewAudience};
pub(crate) use batch::BatchPlan;
pub use batch::{BatchItem, BatchOutcome, BatchResponse, BatchShape, Refusal};
pub use contacts::{Contact, ContactUpdate, NewContact};
pub use contacts::{ContactPages, ContactStream, Contacts};
pub use domains::Domains;
pub use domains::{DnsRecord, Domain, NewDomain, Verification};
pub use email_record::{EmailRecord, EmailStatus};
pub use emails::Emails;
pub(crate) use limits::check_extra;
pub use message::{Email, ScheduledAt};
pub use recipients::Recipients;
pub use webhooks::Webhooks;
pub use webhooks::{Event, NewWebhook, Webhook, WebhookTest, WebhookUpdate};
