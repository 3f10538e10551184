//! The webhook deliveries.

use super::{Client, Delivery, DeliveryState, Page, Request, e};

/// Requests for webhook deliveries; see [`Client::deliveries`].
#[derive(Clone, Copy, Debug)]
pub struct Deliveries<'a>(pub(super) &'a Client);

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
