//! The webhook deliveries.

use super::connection::Client;
use super::request::Request;
use crate::api::control::Page;
use crate::api::control::deliveries::Delivery;
use crate::api::control::deliveries::State as DeliveryState;
use crate::api::control::endpoints as e;

impl Client {
    /// The webhook deliveries with their attempts.
    pub fn deliveries(&self) -> Deliveries<'_> {
        Deliveries(self)
    }
}

/// Requests for webhook deliveries; see [`Client::deliveries`].
#[derive(Clone, Copy, Debug)]
pub struct Deliveries<'a>(&'a Client);

impl Deliveries<'_> {
    /// Lists the deliveries with their attempts, newest first.
    pub fn list(&self) -> Request<Page<Delivery>> {
        self.0.json(&e::DELIVERIES, &[])
    }

    /// Returns a delivery with its body and the responses to its attempts.
    pub fn get(&self, id: &str) -> Request<Delivery> {
        self.0.json(&e::DELIVERIES_GET, &[id])
    }

    /// Makes one more attempt, with the same event ID and the current secret.
    pub fn replay(&self, id: &str) -> Request<Delivery> {
        self.0.json(&e::DELIVERIES_REPLAY, &[id])
    }
}

impl Request<Page<Delivery>> {
    /// Selects the deliveries to this webhook.
    pub fn webhook(self, id: impl AsRef<str>) -> Self {
        self.query("webhook", id)
    }

    /// Selects the deliveries of this event, such as `email.bounced`.
    pub fn event(self, event: impl AsRef<str>) -> Self {
        self.query("event", event)
    }

    /// Selects the deliveries in this state.
    pub fn state(self, state: DeliveryState) -> Self {
        self.query("state", state.as_str())
    }
}
