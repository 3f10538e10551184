//! Where a server listens.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

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

/// The address at which this machine reaches a listener.
pub(crate) fn reachable(addr: SocketAddr) -> SocketAddr {
    let ip = match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, addr.port())
}
