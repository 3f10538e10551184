//! A typed client of the control interface, for tests and tools, see
//! <https://github.com/svc-tools/svc/blob/main/docs/control-interface.md>.
//!
//! The types of requests and responses are those of the server's handlers.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use svc_reference_server::Server;
//! use svc_reference_server::client::NewFault;
//! use svc_sdk::email::Email;
//!
//! let server = Server::start().await?;
//! let (client, sandbox) = (server.email_client()?, server.client()?);
//!
//! // A failure: the client repeats what certainly was not processed.
//! let (operation, status) = (Some("emails.send".to_owned()), Some(429));
//! sandbox.add_fault(&NewFault { operation, status, ..NewFault::default() }).await?;
//! let email = Email::new("hello@sandbox.test", "ada@example.test", "Hi").text("Code: 123456");
//! client.emails().send(&email).await?;
//!
//! let message = sandbox.wait_for("ada@example.test").await?;
//! assert_eq!(message.codes, ["123456"]);
//! server.stop().await;
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```
//!
//! A [`Client`] sends its requests about one organization: the seeded one, or that of a
//! [`Tenant`].

pub use crate::clock::clock_wire::{Clock, Due};
pub use crate::control::client::{Client, Error, Request};
pub use crate::control::endpoint::Page;
pub use crate::deliveries::delivery_wire::{
    Attempt, Delivery, DeliveryFilter, State as DeliveryState,
};
pub use crate::domains::domain_wire::Published;
pub use crate::emails::email_wire::{
    EmailChange, EmailEvent, EmailFilter, EmailStory, EmailSummary, MissingDelivery,
};
pub use crate::extractions::extraction_wire::Extraction;
pub use crate::faults::fault_wire::{DropPoint, Fault, FaultHit, NewFault, SmtpStep};
pub use crate::inbound::inbound_wire::{InboundMessage, Received, ReceivedMessage};
pub use crate::keys::key_wire::{Key, KeyMode, KeyService, NewKey};
pub use crate::messages::message_wire::{
    Authentication, Direction, DkimResult, DkimVerdict, HtmlCheck, HtmlFeature, Link, Message,
    MessageAttachment, MessageCount, MessageFilter, MessageLinks, MessageSummary, Release,
    Released, SpfVerdict,
};
pub use crate::model::dns::{Record as DnsRecord, RecordKind, RecordType};
pub use crate::model::one_or_many::OneOrMany;
pub use crate::model::status::{RecipientState, Status as EmailStatus};
pub use crate::model::timestamp::Timestamp;
pub use crate::notifications::notification_wire::{Notification, NotificationPage, ResetReason};
pub use crate::organizations::organization_wire::{
    NewOrganization, NewOrganizationWebhook, Organization, OrganizationSummary, Tenant,
};
pub use crate::requests::request_wire::{
    LoggedRequest, RecordedBody, RequestFilter, RequestHandled,
};
pub use crate::sandbox::sandbox_wire::{Health, HealthAddresses, RetryDelays};
pub use crate::templates::template_wire::{
    NewTemplate, RenderedTemplate, Template, TemplateSummary,
};
pub use crate::webhooks::webhook_wire::Webhook;
