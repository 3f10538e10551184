//! Whatever changes, as it changes, for clients that watch.

#[cfg(feature = "server")]
pub(crate) mod notification_api;
pub(crate) mod notification_wire;
