//! The server as a whole: its health, leases that keep it running, and its reset.

#[cfg(feature = "server")]
pub(crate) mod sandbox_api;
pub(crate) mod sandbox_wire;
