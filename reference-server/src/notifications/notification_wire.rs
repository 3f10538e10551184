//! Changes on the server, as they happen.

use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::control::{Client, Endpoint, GET, Request};
use crate::deliveries::delivery_wire::{Attempt, Delivery};
use crate::emails::email_wire::EmailSummary;
use crate::messages::message_wire::MessageSummary;
use crate::model::Timestamp;
use crate::requests::request_wire::RequestHandled;

pub(crate) const STREAM: Endpoint<(), Bytes, StartQuery> = Endpoint::content(
    "sandboxEventsWatch",
    "/_sandbox/events",
    "Watch what changes, as server-sent events",
    "text/event-stream",
);
pub(crate) const WAIT: Endpoint<(), NotificationPage, StartQuery> = Endpoint::new(
    GET,
    "sandboxEventsWait",
    "/_sandbox/events/wait",
    "Wait for what changes",
)
.waits(20, 60);

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartQuery {
    /// The `id` of the last event that was received, or the `next` of the last response. Without it,
    /// they begin now. A stream prefers the header `Last-Event-ID`.
    pub(crate) after: Option<String>,
}

/// A change on the server.
// The schemas of the variants are inline: a reference would be to an object without `type`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Notification {
    /// The first one of a stream. What is fetched after it is as new as what follows.
    #[non_exhaustive]
    Ready {
        /// The time of the server's clock.
        now: Timestamp,
    },
    /// Fetch everything again.
    #[non_exhaustive]
    Reset {
        /// Why.
        reason: ResetReason,
    },
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
    #[non_exhaustive]
    Change {
        /// The first part of the path after `/_sandbox/`, such as `faults`.
        resource: String,
        /// The method of the request.
        method: String,
    },
}

impl Notification {
    /// The `type` of the notification.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Ready { .. } => "ready",
            Self::Reset { .. } => "reset",
            Self::Request(_) => "request",
            Self::Email(_) => "email",
            Self::Message(_) => "message",
            Self::Delivery(_) => "delivery",
            Self::Attempt(_) => "attempt",
            Self::Change { .. } => "change",
        }
    }

    /// Whether the organization has another number from here on.
    pub(crate) const fn is_last(&self) -> bool {
        matches!(
            self,
            Self::Reset {
                reason: ResetReason::Deleted
            }
        )
    }
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
    /// Returns what has changed on the server after a position, the `next` of the last response, or
    /// waits for a change in real time, at most 60 seconds. Without a position, the changes begin
    /// now: it returns `Ready` at once.
    ///
    /// If the server does not have all of them any more, or was restarted, the response has a
    /// `Reset`.
    pub fn notifications(
        &self,
        after: Option<&str>,
        timeout: Duration,
    ) -> Request<NotificationPage> {
        let start = StartQuery {
            after: after.map(str::to_owned),
        };
        self.select(&WAIT, &[], &start).timeout(timeout)
    }
}
