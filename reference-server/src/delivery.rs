//! Deliveries: what is built, signed, attempted and tried again.

pub(crate) mod inbound;
pub(crate) mod local;
pub(crate) mod payload;
pub(crate) mod post;
pub(crate) mod relaying;
mod sign;
pub(crate) mod source;
pub(crate) mod webhook_worker;
