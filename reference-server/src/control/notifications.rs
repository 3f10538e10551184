//! What changes on the server, as it changes.

use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::client::{Client, Request};
use super::deliveries::{Attempt, Delivery};
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
pub(crate) const WAIT: Endpoint<(), NotificationPage, WaitQuery> =
    Endpoint::new(GET, "/_sandbox/events/wait", "Wait for what changes");

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamQuery {
    /// The `id` of the last event that was received, unless the header `Last-Event-ID` has it.
    pub(crate) after: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitQuery {
    /// The `next` of the last response. Without it, they begin now.
    pub(crate) after: Option<String>,
    /// How long to wait, in real time, at most `60s`. Default: `20s`.
    pub(crate) timeout: Option<Timeout<60>>,
}

/// A change on the server.
// The schemas of the variants are inline: a reference would be to an object without `type`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Notification {
    /// The first one of a stream. What is fetched after it is as new as what follows.
    Ready(Ready),
    /// Fetch everything again.
    Reset(Reset),
    /// A request to a documented operation was handled.
    Request(RequestHandled),
    /// An email was accepted or changed.
    #[schemars(with = "EmailSummary")]
    Email(EmailSummary),
    /// A message arrived in a local mailbox.
    Message(MessageSummary),
    /// A webhook delivery was created or changed.
    Delivery(Delivery),
    /// An attempt of a delivery was made.
    Attempt(Attempt),
    /// A request to the control interface changed something.
    Change(ControlChange),
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
    /// The server does not have the missed ones any more.
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
pub struct ControlChange {
    /// The first part of the path after `/_sandbox/`, such as `faults`.
    pub resource: String,
    /// The method of the request.
    pub method: String,
}

/// The notifications of a wait.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct NotificationPage {
    /// The notifications, oldest first; empty if nothing changed.
    pub data: Vec<Notification>,
    /// The `after` of the next wait.
    pub next: String,
}

impl Client {
    /// What changes on the server, as it changes.
    pub fn notifications(&self) -> Notifications<'_> {
        Notifications(self)
    }
}

/// Requests for changes; see [`Client::notifications`].
#[derive(Clone, Copy, Debug)]
pub struct Notifications<'a>(&'a Client);

/// How long a wait takes by default.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(20);

impl Notifications<'_> {
    /// Returns the changes from now on: `Ready` at once.
    pub fn begin(&self) -> Request<NotificationPage> {
        self.0.call(&WAIT, &[])
    }

    /// Returns the changes after a position, the `next` of the last response, or waits up to
    /// 20 seconds for one.
    ///
    /// If the server does not have all of them any more, or was restarted, the response has a
    /// `Reset`.
    pub fn after(&self, position: impl AsRef<str>) -> Request<NotificationPage> {
        self.0.call(&WAIT, &[]).query("after", position).waits(DEFAULT_TIMEOUT)
    }
}

impl Request<NotificationPage> {
    /// Sets how long to wait for a change, in real time, at most 60 seconds. Default: 20 seconds.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.query("timeout", duration_text(timeout)).waits(timeout)
    }
}
