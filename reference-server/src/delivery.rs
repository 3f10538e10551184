//! Deliveries: what is built, signed, attempted and tried again. Mail goes to the relay or
//! into a mailbox of this server, events go to webhooks.

pub(crate) mod authentication;
pub(crate) mod emit;
pub(crate) mod events;
pub(crate) mod inbound;
pub(crate) mod local;
pub(crate) mod payload;
pub(crate) mod relaying;
pub(crate) mod sending;
pub(crate) mod source;
pub(crate) mod webhook;
