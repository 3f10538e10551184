//! [`Network`]: who can reach a server, and what it allows them.

use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};

/// Who can reach a server. The defaults for its listen address, its keys, its control interface
/// and its webhooks follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Network {
    /// Only this machine. The default.
    ///
    /// The server listens on a loopback address and has seed data. Webhooks reach loopback addresses
    /// only. Requests for a foreign `Host`
    /// cannot use the control interface or the seeded keys, because a web page could send them
    /// through the browser of a developer.
    #[default]
    Loopback,
    /// A network whose machines trust each other: containers, services of a CI job, a team.
    ///
    /// The server listens on all addresses and has seed data. A `Host` is an address, a name without
    /// dots, one below `.test`, `.internal` or `.local`, or one of
    /// [`Builder::allow_host`](crate::Builder::allow_host). Webhooks may use all addresses,
    /// and `http` for private addresses and such names.
    Trusted,
    /// A network with others in it. The listen address must be given.
    ///
    /// Nothing is seeded, the seeded keys are rejected, the control interface requires a token,
    /// and webhooks reach public addresses only, those of the email service over `https`.
    Public,
}

impl Network {
    /// All values, in the order of the documentation.
    pub const ALL: [Self; 3] = [Self::Loopback, Self::Trusted, Self::Public];

    /// The name, as `--network` takes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Trusted => "trusted",
            Self::Public => "public",
        }
    }

    /// The IP address to listen on by default; `None` if it must be given.
    pub const fn default_ip(self) -> Option<IpAddr> {
        match self {
            Self::Loopback => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            Self::Trusted => Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            Self::Public => None,
        }
    }
}

names!(Network);
