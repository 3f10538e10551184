//! What is due later, by the server's clock.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::client::{Client, Request};
use super::endpoint::{Cursor, Endpoint, POST, Page};
use crate::model::timestamp::Timestamp;

pub(crate) const LIST: Endpoint<(), Page<Due>> =
    Endpoint::list("/_sandbox/due", "List what is due next", Cursor::Text);
pub(crate) const RUN: Endpoint<(), ()> = Endpoint::new(
    POST,
    "/_sandbox/due/{id}/run",
    "Run what is due later about an email, a message or a delivery now",
);

/// Something that is due.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Due {
    /// When, by the server's clock.
    pub at: Timestamp,
    /// What it is.
    pub kind: DueKind,
    /// The ID of the email, of the message or of the delivery; the key of an expiry.
    pub subject: String,
    /// What happens, to whom and why, as a sentence.
    pub description: String,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[non_exhaustive]
pub enum DueKind {
    /// An email is sent.
    Email,
    /// A delayed recipient gets an email.
    Recipient,
    /// An email goes to the relay.
    Relay,
    /// A received message is announced.
    Message,
    /// An attempt of a webhook delivery is made.
    Delivery,
    /// An idempotency key expires.
    Expiry,
}

impl Client {
    /// Lists what is due, earliest first.
    pub fn due(&self) -> Request<Page<Due>> {
        self.call(&LIST, &[])
    }

    /// Runs what is due later about an email, a message or a delivery now.
    pub fn run_due(&self, id: &str) -> Request<()> {
        self.call(&RUN, &[id])
    }
}
