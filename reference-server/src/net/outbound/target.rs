//! The policy on target addresses: where webhooks may be sent.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

use crate::model::network::Network;

/// Which address ranges are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// On a developer's machine: loopback and private networks are allowed.
    Development,
    /// In a trusted network: also link-local addresses, which container hosts have.
    Trusted,
    /// The server is reachable by others: only public addresses are allowed.
    Public,
}

impl Policy {
    /// The policy of a server in this network.
    pub(crate) const fn of(network: Network) -> Self {
        match network {
            Network::Loopback => Self::Development,
            Network::Trusted => Self::Trusted,
            Network::Public => Self::Public,
        }
    }

    /// Checks the host of a URL, if it is an address or a name of this machine.
    pub(crate) fn check_url(self, url: &Url) -> Result<(), RefusedTarget> {
        let address: IpAddr = match url.host() {
            Some(Host::Ipv4(address)) => address.into(),
            Some(Host::Ipv6(address)) => address.into(),
            _ if is_loopback(url) => Ipv4Addr::LOCALHOST.into(),
            _ => return Ok(()),
        };
        match self.refused_range(address) {
            Some(range) => Err(RefusedTarget::InRange { address, range }),
            None => Ok(()),
        }
    }

    /// Checks an address before connecting to it.
    pub(crate) fn check(self, address: IpAddr) -> Result<(), RefusedTarget> {
        match self.refused_range(address) {
            Some(_) if self == Self::Public => Err(RefusedTarget::NotPublic),
            Some(range) => Err(RefusedTarget::InRange { address, range }),
            None => Ok(()),
        }
    }

    fn refused_range(self, address: IpAddr) -> Option<&'static Range> {
        let embedded = embedded_v4(address).map(IpAddr::V4);
        RANGES.iter().find(|range| {
            let applies = match self {
                Self::Public => true,
                Self::Trusted => range.never && range.text != CONTAINER_HOSTS,
                Self::Development => range.never,
            };
            applies && (range.contains(address) || embedded.is_some_and(|ip| range.contains(ip)))
        })
    }
}

/// Whether the URL's host is a loopback name or address.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => {
            address.is_loopback() || address.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback())
        }
        None => false,
    }
}

/// The target address is in a range that is not allowed.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum RefusedTarget {
    #[error("the target {address} is in the {} range {}, which webhooks may not reach", range.name, range.text)]
    InRange { address: IpAddr, range: &'static Range },
    /// The message does not tell clients which names a private network has.
    #[error("the host name could not be resolved to a public address")]
    NotPublic,
}

#[derive(Debug)]
pub(crate) struct Range {
    name: &'static str,
    text: &'static str,
    base: IpAddr,
    prefix: u32,
    /// Rejected in development as well.
    never: bool,
}

impl Range {
    fn contains(&self, address: IpAddr) -> bool {
        match (self.base, address) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                (base.to_bits() ^ address.to_bits()).leading_zeros() >= self.prefix
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => {
                (base.to_bits() ^ address.to_bits()).leading_zeros() >= self.prefix
            }
            _ => false,
        }
    }
}

/// The IPv4 address embedded in an IPv6 address: mapped, compatible, translated, NAT64
/// or 6to4.
fn embedded_v4(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    let bits = address.to_bits();
    let low = Ipv4Addr::from_bits(bits as u32);
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, ..]
        | [0, 0, 0, 0, 0xffff, 0, ..]
        | [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(low),
        [0, 0, 0, 0, 0, 0, ..] if bits > 1 => Some(low),
        [0x2002, ..] => Some(Ipv4Addr::from_bits((bits >> 80) as u32)),
        _ => None,
    }
}

const fn v4(name: &'static str, text: &'static str, base: [u8; 4], prefix: u32) -> Range {
    let [a, b, c, d] = base;
    Range { name, text, base: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), prefix, never: false }
}

const fn v6(name: &'static str, text: &'static str, base: [u16; 2], prefix: u32) -> Range {
    let [a, b] = base;
    let base = IpAddr::V6(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0));
    Range { name, text, base, prefix, never: false }
}

const fn never(mut range: Range) -> Range {
    range.never = true;
    range
}

const LOOPBACK_V6: Range = Range {
    name: "loopback",
    text: "::1/128",
    base: IpAddr::V6(Ipv6Addr::LOCALHOST),
    prefix: 128,
    never: false,
};

const LOCAL_NAT64: Range = Range {
    name: "translation",
    text: "64:ff9b:1::/48",
    base: IpAddr::V6(Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0)),
    prefix: 48,
    never: false,
};

/// Link-local addresses, at which some container runtimes reach the machine that they run on.
const CONTAINER_HOSTS: &str = "169.254.0.0/16";

/// Narrow ranges come before the wide ranges that contain them.
static RANGES: [Range; 29] = [
    never(v4("link-local", CONTAINER_HOSTS, [169, 254, 0, 0], 16)),
    never(v6("link-local", "fe80::/10", [0xfe80, 0], 10)),
    // Metadata services of Alibaba, Azure and Oracle. Those of Amazon and Google are at
    // 169.254.169.254 and the last two.
    never(v4("metadata", "100.100.100.200/32", [100, 100, 100, 200], 32)),
    never(v4("metadata", "168.63.129.16/32", [168, 63, 129, 16], 32)),
    never(v4("metadata", "192.0.0.192/32", [192, 0, 0, 192], 32)),
    never(v6("metadata", "fd00:ec2::/32", [0xfd00, 0xec2], 32)),
    never(v6("metadata", "fd20:ce::/32", [0xfd20, 0xce], 32)),
    never(v4("multicast", "224.0.0.0/4", [224, 0, 0, 0], 4)),
    never(v6("multicast", "ff00::/8", [0xff00, 0], 8)),
    never(v4("broadcast", "255.255.255.255/32", [255, 255, 255, 255], 32)),
    v4("loopback", "127.0.0.0/8", [127, 0, 0, 0], 8),
    LOOPBACK_V6,
    v4("unspecified", "0.0.0.0/8", [0, 0, 0, 0], 8),
    v6("unspecified", "::/128", [0, 0], 128),
    v4("private", "10.0.0.0/8", [10, 0, 0, 0], 8),
    v4("private", "172.16.0.0/12", [172, 16, 0, 0], 12),
    v4("private", "192.168.0.0/16", [192, 168, 0, 0], 16),
    v4("shared", "100.64.0.0/10", [100, 64, 0, 0], 10),
    v6("private", "fc00::/7", [0xfc00, 0], 7),
    v6("private", "fec0::/10", [0xfec0, 0], 10),
    v4("protocol", "192.0.0.0/24", [192, 0, 0, 0], 24),
    v4("documentation", "192.0.2.0/24", [192, 0, 2, 0], 24),
    v4("documentation", "198.51.100.0/24", [198, 51, 100, 0], 24),
    v4("documentation", "203.0.113.0/24", [203, 0, 113, 0], 24),
    v6("documentation", "2001:db8::/32", [0x2001, 0xdb8], 32),
    v4("benchmark", "198.18.0.0/15", [198, 18, 0, 0], 15),
    v4("reserved", "240.0.0.0/4", [240, 0, 0, 0], 4),
    v6("tunnel", "2001::/32", [0x2001, 0], 32),
    LOCAL_NAT64,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(policy: Policy, address: &str) -> Option<String> {
        let range = policy.refused_range(address.parse().expect("an address"))?;
        Some(format!("{} range {}", range.name, range.text))
    }

    #[test]
    fn addresses_that_are_not_public_are_in_a_range() {
        for (address, range) in [
            ("127.0.0.1", "loopback range 127.0.0.0/8"),
            ("::1", "loopback range ::1/128"),
            ("::ffff:127.0.0.1", "loopback range 127.0.0.0/8"),
            ("::7f00:1", "loopback range 127.0.0.0/8"),
            ("64:ff9b::a00:1", "private range 10.0.0.0/8"),
            ("2002:c0a8:1::", "private range 192.168.0.0/16"),
            ("10.255.255.255", "private range 10.0.0.0/8"),
            ("172.31.0.1", "private range 172.16.0.0/12"),
            ("192.168.1.1", "private range 192.168.0.0/16"),
            ("100.64.0.1", "shared range 100.64.0.0/10"),
            ("0.0.0.0", "unspecified range 0.0.0.0/8"),
            ("::", "unspecified range ::/128"),
            ("fd12::1", "private range fc00::/7"),
            ("198.19.0.1", "benchmark range 198.18.0.0/15"),
            ("250.0.0.1", "reserved range 240.0.0.0/4"),
            ("fe80::1", "link-local range fe80::/10"),
            ("64:ff9b:1::1", "translation range 64:ff9b:1::/48"),
        ] {
            assert_eq!(refused(Policy::Public, address).as_deref(), Some(range), "{address}");
        }
    }

    #[test]
    fn public_addresses_are_allowed() {
        for address in [
            "1.1.1.1",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1",
            "192.1.0.1",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
        ] {
            assert_eq!(refused(Policy::Public, address), None, "{address}");
        }
    }

    #[test]
    fn development_allows_private_networks_but_not_metadata_services() {
        for address in ["127.0.0.1", "::1", "10.0.0.1", "192.168.0.1", "172.17.0.1", "fd12::1"] {
            assert_eq!(refused(Policy::Development, address), None, "{address}");
        }
        for address in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "fe80::1",
            "::ffff:0:169.254.169.254",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "224.0.0.1",
            "255.255.255.255",
        ] {
            assert!(refused(Policy::Development, address).is_some(), "{address}");
        }
    }

    #[test]
    fn a_trusted_network_includes_the_hosts_of_containers() {
        for address in ["127.0.0.1", "10.0.0.1", "fd12::1", "169.254.1.2"] {
            assert_eq!(refused(Policy::Trusted, address), None, "{address}");
        }
        for address in ["fe80::1", "168.63.129.16", "224.0.0.1"] {
            assert!(refused(Policy::Trusted, address).is_some(), "{address}");
        }
    }

    #[test]
    fn recognizes_loopback_urls() {
        for (url, loopback) in [
            ("http://localhost:3000/x", true),
            ("http://app.localhost/", true),
            ("http://127.1.2.3/", true),
            ("http://2130706433/", true),
            ("http://[::1]:80/", true),
            ("http://[::ffff:127.0.0.1]/", true),
            ("http://localhost.example.com/", false),
            ("http://notlocalhost/", false),
            ("http://10.0.0.1/", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).expect("a URL")), loopback, "{url}");
        }
    }
}
