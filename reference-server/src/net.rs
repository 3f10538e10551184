//! Connections: those to the listeners, webhook attempts; and for all, TLS and the name servers.

pub(crate) mod accept;
pub(crate) mod certificate;
pub(crate) mod name_servers;
pub(crate) mod outbound;
pub(crate) mod target;
pub(crate) mod tls;
