//! Outgoing connections that are not mail: webhook attempts, and TLS for all.

pub(crate) mod outbound;
pub(crate) mod tls;
