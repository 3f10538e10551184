//! The server's clock, and what is due by it (`docs/control-interface.md#the-clock`).

#[cfg(feature = "server")]
pub(crate) mod clock_api;
pub(crate) mod clock_wire;
