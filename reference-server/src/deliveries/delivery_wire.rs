//! Webhook deliveries in the control interface: the endpoints of `/_sandbox/deliveries`, their
//! types, and the methods of `Client`. A `Delivery` is one event for one webhook, an `Attempt` is
//! one request of it. Bodies, of requests and of responses, are only in the response about a single
//! delivery. `delivery_api.rs` handles the requests; `delivery_rules.rs` stores deliveries.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::control::{ACCEPTED, Client, Cursor, Endpoint, GET, POST, Page, Request, requests};
use crate::model::Timestamp;

pub(crate) const LIST: Endpoint<(), Page<Delivery>, DeliveryFilter> = Endpoint::list(
    "sandboxDeliveriesList",
    "/_sandbox/deliveries",
    "List webhook deliveries",
    Cursor::Id,
);

requests! {
    /// Returns a delivery with its body and the responses to its attempts.
    DELIVERY: fn delivery(id) -> Delivery = Endpoint::new(
        GET,
        "sandboxDeliveriesGet",
        "/_sandbox/deliveries/{id}",
        "Get a delivery",
    );

    /// Makes one more attempt of a delivery, with the same event ID and the current secret.
    REPLAY: fn replay_delivery(id) -> Delivery = Endpoint::new(
        POST,
        "sandboxDeliveriesReplay",
        "/_sandbox/deliveries/{id}/replay",
        "Replay a delivery: one more attempt with the same event ID and the current secret",
    )
    .responds(ACCEPTED);
}

/// Which deliveries to list.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeliveryFilter {
    /// The ID of the webhook.
    pub webhook: Option<String>,
    /// The name of the event, such as `email.sent`.
    pub event: Option<String>,
    /// The state of the delivery.
    #[schemars(with = "State")]
    pub state: Option<State>,
    /// Words, each of which is part of the recipient, the subject, the event, the state, or the ID of
    /// the delivery, the webhook or the email. The newest 5 000 deliveries are searched.
    pub search: Option<String>,
}

/// A webhook delivery.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Delivery {
    /// The event ID, which is the same in the body of every attempt.
    pub id: String,
    /// The ID of the webhook.
    pub webhook: String,
    /// `email` or `extraction`.
    #[schemars(extend("enum" = ["email", "extraction"]))]
    pub service: String,
    /// The name of the event, such as `email.delivered`.
    pub event: String,
    /// The ID of the email that the event is about.
    pub email_id: Option<String>,
    /// The recipient that the event is about; null if it is about none.
    pub recipient: Option<String>,
    /// The subject of the email or of the received message; null if the event is about none.
    pub subject: Option<String>,
    /// Whether the webhook accepted it.
    pub state: State,
    /// The number of attempts so far.
    pub attempt_count: i64,
    /// When the next attempt is due; null if there is none, and of a pending delivery while it waits
    /// for the one before it about the same email.
    pub next_due_at: Option<Timestamp>,
    /// When the event occurred.
    pub created_at: Timestamp,
    /// When the delivery last changed.
    pub updated_at: Timestamp,
    /// The exact request body; null but for a single delivery.
    pub body: Option<String>,
    /// The attempts, oldest first; null in the response to a replay, and in a change.
    pub attempts: Option<Vec<Attempt>>,
}

/// An attempt of a webhook delivery.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Attempt {
    /// The ID of the delivery.
    pub delivery: String,
    /// The number of the attempt; the first is 1.
    pub number: i64,
    /// When it started, by the server's clock.
    pub started_at: Timestamp,
    /// How long it took, in milliseconds of real time.
    pub duration_ms: i64,
    /// The URL of the request.
    pub url: String,
    /// The headers of the request, with the signature.
    pub request_headers: Map<String, Value>,
    /// The status of the response; null if there was none.
    pub status: Option<u16>,
    /// Why there was no response.
    pub error: Option<String>,
    /// The first 4 KiB of the response body; null but for a single delivery.
    pub response_body: Option<String>,
}

/// The state of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "DeliveryState", inline)]
#[non_exhaustive]
pub enum State {
    /// An attempt is in progress or due.
    Pending,
    /// The webhook accepted it.
    Delivered,
    /// The last attempt failed.
    Failed,
    /// The webhook was deleted or deactivated first.
    Dropped,
}

impl State {
    /// `pending`, `delivered`, `failed` or `dropped`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        }
    }
}

names!(State);

impl Client {
    /// Lists the webhook deliveries with their attempts, newest first.
    pub fn deliveries(&self, filter: &DeliveryFilter) -> Request<Page<Delivery>> {
        self.select(&LIST, &[], filter)
    }
}
