//! What changes on the server, as it changes.

use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::client::{Client, Request};
use super::deliveries::{AttemptMade, DeliveryChange};
use super::emails::EmailSummary;
use super::endpoint::{Endpoint, GET};
use super::messages::MessageSummary;
use super::query::Timeout;
use super::requests::RequestHandled;
use crate::model::time::duration_text;
use crate::model::timestamp::Timestamp;

pub(crate) const STREAM: Endpoint<(), Bytes, StreamQuery> = Endpoint::content(
    "/_sandbox/events",
    "Watch what changes, as server-sent events",
    "text/event-stream",
);
pub(crate) const WAIT: Endpoint<(), LiveEvents, WaitQuery> =
    Endpoint::new(GET, "/_sandbox/events/wait", "Wait for what changes");

#[derive(Deserialize, JsonSchema)]
pub(crate) struct StreamQuery {
    /// The `id` of the last event that was received, unless the header `Last-Event-ID` has it.
    pub(crate) after: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct WaitQuery {
    /// The `next` of the last response. Without it, the events begin now.
    pub(crate) after: Option<String>,
    /// How long to wait, in real time, at most `60s`. Default: `20s`.
    pub(crate) timeout: Option<Timeout<60>>,
}

/// A change on the server.
// The schemas of the variants are inline: a reference would be to an object without `type`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum LiveEvent {
    /// The first event of a stream. What is fetched after it is as new as the events.
    Ready(Ready),
    /// Fetch everything again.
    Reset(Reset),
    /// A request to a documented operation was handled.
    Request(RequestHandled),
    /// An email was accepted or changed.
    Email(EmailSummary),
    /// A message arrived in a local mailbox.
    Message(MessageSummary),
    /// A webhook delivery was created or changed.
    Delivery(DeliveryChange),
    /// An attempt of a delivery was made.
    Attempt(AttemptMade),
    /// A request to the control interface changed something.
    Change(Change),
}

/// The beginning of a stream.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[non_exhaustive]
pub struct Ready {
    /// The time of the server's clock.
    pub now: Timestamp,
}

/// What was fetched before may be wrong.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[non_exhaustive]
pub struct Reset {
    /// Why.
    pub reason: ResetReason,
}

/// Why everything has to be fetched again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[non_exhaustive]
pub enum ResetReason {
    /// The server does not have the missed events any more.
    Gap,
    /// The server was started again.
    Restarted,
    /// The data of the organization was deleted.
    Deleted,
}

/// A change by a request to the control interface.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[non_exhaustive]
pub struct Change {
    /// The first part of the path after `/_sandbox/`, such as `faults`.
    pub resource: String,
    /// The method of the request.
    pub method: String,
}

/// The events of a wait.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct LiveEvents {
    /// The events, oldest first; empty if nothing changed.
    pub data: Vec<LiveEvent>,
    /// The `after` of the next wait.
    pub next: String,
}

impl Client {
    /// What changes on the server, as it changes.
    pub fn events(&self) -> Events<'_> {
        Events(self)
    }
}

/// Requests for changes; see [`Client::events`].
#[derive(Clone, Copy, Debug)]
pub struct Events<'a>(&'a Client);

/// How long a wait takes by default.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(20);

impl Events<'_> {
    /// Returns the changes from now on: `Ready` at once.
    pub fn begin(&self) -> Request<LiveEvents> {
        self.0.call(&WAIT, &[])
    }

    /// Returns the changes after a position, the `next` of the last response, or waits up to
    /// 20 seconds for one.
    ///
    /// The server keeps the newest changes for a minute after the last request. Later, or after
    /// its restart, the response has a `Reset`.
    pub fn after(&self, position: impl AsRef<str>) -> Request<LiveEvents> {
        self.0.call(&WAIT, &[]).query("after", position).waits(DEFAULT_TIMEOUT)
    }
}

impl Request<LiveEvents> {
    /// Sets how long to wait for a change, in real time, at most 60 seconds. Default: 20 seconds.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.query("timeout", duration_text(timeout)).waits(timeout)
    }
}
