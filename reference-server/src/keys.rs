//! API keys of both services.

#[cfg(feature = "server")]
pub(crate) mod key_api;
#[cfg(feature = "server")]
pub(crate) mod key_rows;
pub(crate) mod key_wire;
