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

pub use crate::control::client::{Client, Error, Request};
pub use crate::control::clock::{Clock, Due};
pub use crate::control::deliveries::{Attempt, Delivery, DeliveryFilter, State as DeliveryState};
pub use crate::control::domains::Published;
pub use crate::control::emails::{
    EmailChange, EmailEvent, EmailFilter, EmailStory, EmailSummary, MissingDelivery,
};
pub use crate::control::endpoint::Page;
pub use crate::control::extractions::Extraction;
pub use crate::control::faults::{DropPoint, Fault, FaultHit, NewFault, SmtpStep};
pub use crate::control::inbound::{InboundMessage, Received, ReceivedMessage};
pub use crate::control::keys::{Key, KeyMode, KeyService, NewKey};
pub use crate::control::messages::{
    Authentication, Direction, DkimResult, DkimVerdict, Link, Message, MessageAttachment,
    MessageCount, MessageFilter, MessageLinks, MessageSummary, Release, Released, SpfVerdict,
};
pub use crate::control::notifications::{Notification, NotificationPage, ResetReason};
pub use crate::control::organizations::{
    NewOrganization, Organization, OrganizationSummary, Tenant,
};
pub use crate::control::requests::{LoggedRequest, RecordedBody, RequestFilter, RequestHandled};
pub use crate::control::server::{Health, HealthAddresses, RetryDelays};
pub use crate::control::templates::{NewTemplate, RenderedTemplate, Template, TemplateSummary};
pub use crate::control::webhooks::Webhook;
pub use crate::model::dns::{Record as DnsRecord, RecordKind, RecordType};
pub use crate::model::one_or_many::OneOrMany;
pub use crate::model::status::{RecipientState, Status as EmailStatus};
pub use crate::model::timestamp::Timestamp;
