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

mod clock;
mod deliveries;
mod dns;
mod emails;
mod error;
mod faults;
mod keys;
mod messages;
mod organizations;
mod request;
mod templates;

use std::fmt;

use svc_sdk::{EmailClient, RawResponse, Secret};

pub use crate::api::control::Page;
pub use crate::api::control::clock::Clock;
pub use crate::api::control::deliveries::{Attempt, Delivery, State as DeliveryState};
pub use crate::api::control::dns::Published;
use crate::api::control::endpoints as e;
pub use crate::api::control::events::EmailEvent;
pub use crate::api::control::extractions::Extraction;
pub use crate::api::control::faults::{DropPoint, Fault, FaultHit, NewFault};
pub use crate::api::control::health::{Health, HealthAddresses};
pub use crate::api::control::inbound::{InboundMessage, Received, ReceivedMessage};
pub use crate::api::control::keys::{Key, NewKey};
pub use crate::api::control::messages::{
    Direction, Message, MessageAttachment, MessageLinks, MessageSummary,
};
pub use crate::api::control::organizations::{Organization, OrganizationSummary};
use crate::api::control::reset::Reset;
pub use crate::api::control::templates::{NewTemplate, Template};
pub use crate::mail::links::Link;
pub use crate::model::dns::{Record as DnsRecord, RecordKind, UnknownRecordKind};
pub use crate::model::timestamp::Timestamp;
pub use clock::ClockControl;
pub use deliveries::Deliveries;
pub use dns::Dns;
pub use emails::{Emails, Extractions, Inbound};
pub use error::Error;
pub use faults::Faults;
pub use keys::Keys;
pub use messages::{Messages, WaitForMessage};
pub use organizations::{Organizations, Tenant};
pub use request::{Request, RequestParts};
pub use templates::Templates;

/// A client of the control interface, for one organization.
///
/// [`Server::client`](crate::Server::client) creates one for a server in this process,
/// [`new`](Self::new) one for a server elsewhere.
#[derive(Clone)]
pub struct Client {
    http: EmailClient,
    organization: Option<String>,
}

impl Client {
    /// A client of the server at a base URL, such as `http://127.0.0.1:4080`, for the seeded
    /// organization.
    ///
    /// # Errors
    ///
    /// If the URL is invalid.
    pub fn new(base_url: impl AsRef<str>) -> Result<Self, Error> {
        Self::with_token(base_url, "none")
    }

    /// As [`new`](Self::new), with the control token that a server with `--public` requires.
    ///
    /// # Errors
    ///
    /// If the URL or the token is invalid.
    pub fn with_token(base_url: impl AsRef<str>, token: impl Into<Secret>) -> Result<Self, Error> {
        let http = EmailClient::builder(base_url.as_ref(), token).no_proxy().build()?;
        Ok(Self::from_http(http))
    }

    /// A client that sends its requests through another one, whose key is the control token,
    /// if the server requires one.
    pub fn from_http(http: EmailClient) -> Self {
        Self { http, organization: None }
    }

    /// A client for another organization, by its ID or name.
    #[must_use]
    pub fn of(&self, organization: impl Into<String>) -> Self {
        Self { http: self.http.clone(), organization: Some(organization.into()) }
    }

    /// The messages that the mail engine delivered, and those that arrived.
    pub fn messages(&self) -> Messages<'_> {
        Messages(self)
    }

    /// The emails of the organization.
    pub fn emails(&self) -> Emails<'_> {
        Emails(self)
    }

    /// Emails from elsewhere.
    pub fn inbound(&self) -> Inbound<'_> {
        Inbound(self)
    }

    /// Simulated extractions.
    pub fn extractions(&self) -> Extractions<'_> {
        Extractions(self)
    }

    /// The webhook deliveries with their attempts.
    pub fn deliveries(&self) -> Deliveries<'_> {
        Deliveries(self)
    }

    /// The clock, which all organizations of the server share.
    pub fn clock(&self) -> ClockControl<'_> {
        ClockControl(self)
    }

    /// The faults of the next requests.
    pub fn faults(&self) -> Faults<'_> {
        Faults(self)
    }

    /// The records of sending domains in the built-in DNS zone.
    pub fn dns(&self) -> Dns<'_> {
        Dns(self)
    }

    /// The API keys of both services.
    pub fn keys(&self) -> Keys<'_> {
        Keys(self)
    }

    /// The templates of emails.
    pub fn templates(&self) -> Templates<'_> {
        Templates(self)
    }

    /// The organizations of the server.
    pub fn organizations(&self) -> Organizations<'_> {
        Organizations(self)
    }

    /// The state of the server.
    pub fn health(&self) -> Request<Health> {
        self.json(&e::HEALTH, &[])
    }

    /// Deletes the data of an organization, whose keys stay valid.
    pub fn reset_organization(&self, id_or_name: impl Into<String>) -> Request<()> {
        let body = Reset { organization: Some(id_or_name.into()) };
        self.reset().with_body(&e::RESET, &body)
    }

    /// Deletes all data of the server, and restores the seed data.
    pub fn reset(&self) -> Request<()> {
        self.server_wide().empty(&e::RESET, &[])
    }

    /// Without an organization in the query.
    fn server_wide(&self) -> Self {
        Self { http: self.http.clone(), organization: None }
    }
}

/// Omits the control token.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("organization", &self.organization).finish_non_exhaustive()
    }
}

fn text(response: &RawResponse) -> Result<String, svc_sdk::Error> {
    Ok(response.text().into_owned())
}
