//! The newest requests to the documented operations.

#[cfg(feature = "server")]
pub(crate) mod request_api;
pub(crate) mod request_wire;
