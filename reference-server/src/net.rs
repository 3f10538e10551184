//! Outgoing connections that are not mail: webhook attempts; and for all, TLS and the name
//! servers.

pub(crate) mod certificate;
pub(crate) mod name_servers;
pub(crate) mod outbound;
pub(crate) mod target;
pub(crate) mod tls;
