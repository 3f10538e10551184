//! Types and operations of the email-sending service (`docs/email-service/README.md`), one
//! module per resource.

mod attachment;
mod audiences;
mod batch;
#[cfg(feature = "client")]
mod contact_pages;
mod contacts;
mod domains;
mod email_record;
mod emails;
mod limits;
mod recipients;
mod webhooks;

pub use attachment::Attachment;
#[cfg(feature = "client")]
pub(crate) use attachment::Source;
#[cfg(feature = "client")]
pub use audiences::Audiences;
pub use audiences::{Audience, NewAudience};
#[cfg(feature = "client")]
pub(crate) use batch::BatchPlan;
pub use batch::{BatchItem, BatchOutcome, BatchResponse, BatchShape, Refusal};
pub use contacts::{Contact, ContactUpdate, NewContact};
#[cfg(feature = "client")]
pub use contacts::{ContactPages, ContactStream, Contacts};
#[cfg(feature = "client")]
pub use domains::Domains;
pub use domains::{DnsRecord, Domain, NewDomain, Verification};
pub use email_record::{EmailRecord, EmailStatus};
#[cfg(feature = "client")]
pub use emails::Emails;
#[cfg(feature = "client")]
pub(crate) use emails::Fields;
pub use emails::{Email, ScheduledAt};
#[cfg(feature = "client")]
pub(crate) use limits::check_extra;
pub use recipients::Recipients;
#[cfg(feature = "client")]
pub use webhooks::Webhooks;
pub use webhooks::{Event, NewWebhook, Webhook, WebhookTest, WebhookUpdate};
