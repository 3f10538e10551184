//! Deliveries: an event for a webhook, stored with its exact body, and the attempts to deliver it.

#[cfg(feature = "server")]
pub(crate) mod delivery_api;
#[cfg(feature = "server")]
pub(crate) mod delivery_rows;
#[cfg(feature = "server")]
pub(crate) mod delivery_rules;
pub(crate) mod delivery_wire;
