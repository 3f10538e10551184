//! Mail that arrives, over SMTP or the control interface.

#[cfg(feature = "server")]
pub(crate) mod inbound_api;
#[cfg(feature = "server")]
pub(crate) mod inbound_rules;
pub(crate) mod inbound_wire;
