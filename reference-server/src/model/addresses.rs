//! Where a server listens.

use std::net::SocketAddr;

/// The listen addresses of a [`Server`](crate::Server).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Addresses {
    /// Both services and the control interface.
    pub http: SocketAddr,
    /// The built-in DNS server, on UDP and TCP.
    pub dns: SocketAddr,
    /// The SMTP listener, if the server has one.
    pub smtp: Option<SocketAddr>,
}
