//! A typed client of the control interface (`docs/control-interface.md`), for tests and tools.
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
//! sandbox.faults().add(&NewFault::new().operation("emails.send").status(429)).await?;
//! let email = Email::new("hello@sandbox.test", "ada@example.test", "Hi").text("Code: 123456");
//! client.emails().send(&email).await?;
//!
//! let message = sandbox.messages().wait_for("ada@example.test").await?;
//! assert_eq!(message.codes, ["123456"]);
//! server.stop().await;
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```
//!
//! A [`Client`] sends its requests about one organization: the seeded one, or that of a
//! [`Tenant`].

mod audiences;
mod clock;
mod connection;
mod deliveries;
mod dns;
mod domains;
mod emails;
mod error;
mod events;
mod faults;
mod keys;
mod messages;
mod organizations;
mod request;
mod requests;
mod server;
mod templates;

pub use crate::api::control::Page;
pub use crate::api::control::clock::Clock;
pub use crate::api::control::deliveries::{Attempt, Delivery, State as DeliveryState};
pub use crate::api::control::dns::Published;
pub use crate::api::control::emails::{EmailChange, EmailStory};
pub use crate::api::control::events::EmailEvent;
pub use crate::api::control::extractions::Extraction;
pub use crate::api::control::faults::{DropPoint, Fault, FaultHit, NewFault};
pub use crate::api::control::health::{Health, HealthAddresses};
pub use crate::api::control::inbound::{InboundMessage, Received, ReceivedMessage};
pub use crate::api::control::keys::{Key, NewKey};
pub use crate::api::control::live::{Change, LiveEvent, LiveEvents, Ready, Reset, ResetReason};
pub use crate::api::control::messages::{
    Direction, Message, MessageAttachment, MessageLinks, MessageSummary,
};
pub use crate::api::control::organizations::{Organization, OrganizationSummary};
pub use crate::api::control::requests::{LoggedRequest, RecordedBody, RequestHandled};
pub use crate::api::control::templates::{
    NewTemplate, RenderedTemplate, Template, TemplateSummary,
};
pub use crate::delivery::authentication::Authentication;
pub use crate::mail::dkim::DkimVerdict;
pub use crate::mail::dns::{DmarcVerdict, SpfVerdict};
pub use crate::mail::links::Link;
pub use crate::model::dns::{Record as DnsRecord, RecordKind, UnknownRecordKind};
pub use crate::model::status::{RecipientState, Status as EmailStatus};
pub use crate::model::timestamp::Timestamp;
pub use crate::store::deliveries::AttemptMade;
pub use crate::store::deliveries::DeliveryChange;
pub use crate::store::emails::EmailSummary;
pub use audiences::Audiences;
pub use clock::ClockControl;
pub use connection::Client;
pub use deliveries::Deliveries;
pub use dns::Dns;
pub use domains::Domains;
pub use emails::{Emails, Extractions, Inbound};
pub use error::Error;
pub use events::Events;
pub use faults::Faults;
pub use keys::Keys;
pub use messages::{Messages, WaitForMessage};
pub use organizations::{Organizations, Tenant};
pub use request::{Request, RequestParts};
pub use requests::Requests;
pub use templates::Templates;
