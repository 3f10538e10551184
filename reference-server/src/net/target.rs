//! Decides which addresses and hosts belong to a `Network`: to which addresses webhooks may be sent
//! (`check`, `check_url`), and which names and URLs are of this machine or its network (`is_local`,
//! `is_internal`, `is_in_network`). In what is refused, an IPv4 address inside of an IPv6 address counts, too. Names
//! say nothing about where they lead, so `outbound.rs` checks the resolved addresses again.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use url::{Host, Url};

use crate::model::Network;

/// Checks an address before connecting to it. Only in a trusted network every address is allowed: on
/// a developer's machine, others may be those of the metadata services of clouds, or of a VPN.
pub(crate) fn check(network: Network, address: IpAddr) -> Result<(), RefusedTarget> {
    let embedded = embedded_v4(address).map(IpAddr::V4);
    let range = RANGES.iter().find(|(_, range)| {
        let is_within = |address| contains(range, address) == Some(true);
        is_within(address) || embedded.is_some_and(is_within)
    });
    let is_refused = match network {
        Network::Public => range.is_some(),
        Network::Loopback => !is_loopback(address),
        Network::Trusted => false,
    };
    if !is_refused {
        return Ok(());
    }

    Err(RefusedTarget {
        address,
        range: range.copied(),
        network,
    })
}

/// Whether a connection to an address stays on this machine. One to an address that only has such an
/// address embedded, for a translator, leaves it.
fn is_loopback(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || address.is_unspecified()
}

/// Checks the host of a URL, if it is an address or a name of this machine. Other names are checked
/// when they are resolved.
pub(crate) fn check_url(network: Network, url: &Url) -> Result<(), RefusedTarget> {
    match url.host() {
        Some(Host::Ipv4(address)) => check(network, address.into()),
        Some(Host::Ipv6(address)) => check(network, address.into()),
        Some(Host::Domain(name)) if is_local(name) => check(network, Ipv4Addr::LOCALHOST.into()),
        _ => Ok(()),
    }
}

/// Whether a name is one of this machine: `localhost`, or below it.
pub(crate) fn is_local(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}

/// Whether a name belongs to a private network: one without dots, as Docker and Kubernetes give, or
/// below a domain that the public DNS does not have. A web page cannot be served under such a name
/// from elsewhere.
pub(crate) fn is_internal(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_below = |domain: &str| {
        name.strip_suffix(domain)
            .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
    };
    !name.contains('.') || ["test", "internal", "local"].into_iter().any(is_below)
}

/// Whether a URL is of this machine or, in a trusted network, of that network: there is nobody in
/// between who could read what is sent without TLS.
pub(crate) fn is_in_network(network: Network, url: &Url) -> bool {
    let is_near = |address: IpAddr| {
        let mut ranges = RANGES
            .iter()
            .filter(|(name, _)| ["private", "link-local"].contains(name));
        ranges.any(|(_, range)| contains(range, address.to_canonical()) == Some(true))
    };
    let is_local_address = |address: IpAddr| match network {
        Network::Loopback => is_loopback(address),
        Network::Trusted => is_loopback(address) || is_near(address),
        Network::Public => false,
    };
    match url.host() {
        Some(Host::Ipv4(address)) => is_local_address(address.into()),
        Some(Host::Ipv6(address)) => is_local_address(address.into()),
        Some(Host::Domain(name)) => match network {
            Network::Loopback => is_local(name),
            Network::Trusted => is_local(name) || is_internal(name),
            Network::Public => false,
        },
        None => false,
    }
}

/// Webhooks may not reach an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefusedTarget {
    address: IpAddr,
    /// The name of its range, and the range.
    range: Option<(&'static str, &'static str)>,
    network: Network,
}

impl std::error::Error for RefusedTarget {}

impl fmt::Display for RefusedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address, network, ..
        } = self;
        match self.range {
            Some((name, range)) => write!(f, "{address} is a {name} address ({range})")?,
            None => write!(f, "{address} is a public address")?,
        }
        write!(f, "; with --network {network}, webhooks do not reach it")
    }
}

/// Whether a network such as `10.0.0.0/8`, or an address, contains the address. `None` if it is
/// neither.
pub(crate) fn contains(network: &str, address: IpAddr) -> Option<bool> {
    let (base, prefix) = network.split_once('/').unwrap_or((network, "128"));
    let prefix: u32 = prefix.parse().ok()?;
    let same_bits = match (base.parse().ok()?, address) {
        (IpAddr::V4(base), IpAddr::V4(address)) => {
            (base.to_bits() ^ address.to_bits()).leading_zeros()
        }
        (IpAddr::V6(base), IpAddr::V6(address)) => {
            (base.to_bits() ^ address.to_bits()).leading_zeros()
        }
        _ => return Some(false),
    };
    Some(same_bits >= prefix.min(if address.is_ipv4() { 32 } else { 128 }))
}

/// The IPv4 address embedded in an IPv6 address: mapped, compatible, translated, NAT64
/// or 6to4.
fn embedded_v4(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else {
        return None;
    };

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

/// The ranges that are not public. Narrow ranges come before the wide ranges that contain them.
const RANGES: [(&str, &str); 23] = [
    ("link-local", "169.254.0.0/16"),
    ("link-local", "fe80::/10"),
    ("loopback", "127.0.0.0/8"),
    ("loopback", "::1/128"),
    ("loopback", "0.0.0.0/8"),
    ("loopback", "::/128"),
    ("private", "10.0.0.0/8"),
    ("private", "172.16.0.0/12"),
    ("private", "192.168.0.0/16"),
    ("private", "100.64.0.0/10"),
    ("private", "fc00::/7"),
    ("private", "fec0::/10"),
    // The metadata service of Azure; those of other clouds are in the other ranges.
    ("private", "168.63.129.16/32"),
    ("reserved", "192.0.0.0/24"),
    ("documentation", "192.0.2.0/24"),
    ("documentation", "198.51.100.0/24"),
    ("documentation", "203.0.113.0/24"),
    ("documentation", "2001:db8::/32"),
    ("reserved", "198.18.0.0/15"),
    ("reserved", "224.0.0.0/3"),
    ("reserved", "ff00::/8"),
    ("reserved", "2001::/32"),
    ("reserved", "64:ff9b:1::/48"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(network: Network, address: &str) -> Option<String> {
        let refused = check(network, address.parse().expect("an address")).err()?;
        let (name, range) = refused.range.unwrap_or(("public", "address"));
        Some(format!("{name} {range}"))
    }

    #[test]
    fn addresses_that_are_not_public_are_in_a_range() {
        for (address, range) in [
            ("127.0.0.1", "loopback 127.0.0.0/8"),
            ("::1", "loopback ::1/128"),
            ("::ffff:127.0.0.1", "loopback 127.0.0.0/8"),
            ("::7f00:1", "loopback 127.0.0.0/8"),
            ("64:ff9b::a00:1", "private 10.0.0.0/8"),
            ("2002:c0a8:1::", "private 192.168.0.0/16"),
            ("10.255.255.255", "private 10.0.0.0/8"),
            ("172.31.0.1", "private 172.16.0.0/12"),
            ("192.168.1.1", "private 192.168.0.0/16"),
            ("100.64.0.1", "private 100.64.0.0/10"),
            ("0.0.0.0", "loopback 0.0.0.0/8"),
            ("::", "loopback ::/128"),
            ("fd12::1", "private fc00::/7"),
            ("198.19.0.1", "reserved 198.18.0.0/15"),
            ("250.0.0.1", "reserved 224.0.0.0/3"),
            ("fe80::1", "link-local fe80::/10"),
            ("64:ff9b:1::1", "reserved 64:ff9b:1::/48"),
        ] {
            assert_eq!(
                refused(Network::Public, address).as_deref(),
                Some(range),
                "{address}"
            );
            assert_eq!(refused(Network::Trusted, address), None, "{address}");
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
            assert_eq!(refused(Network::Public, address), None, "{address}");
        }
    }

    #[test]
    fn loopback_is_this_machine_alone() {
        for address in [
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "::ffff:127.0.0.1",
            "0.0.0.0",
        ] {
            assert_eq!(refused(Network::Loopback, address), None, "{address}");
        }
        for address in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "fe80::1",
            "fd00:ec2::254",
            "100.100.100.200",
            "168.63.129.16",
            "0.1.2.3",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::1",
            "10.0.0.1",
            "192.168.0.1",
            "1.1.1.1",
            "2606:4700::1",
            "0.1.2.3",
            "2002:7f00:1::1",
            "64:ff9b::7f00:1",
            "::ffff:0:127.0.0.1",
            "::127.0.0.1",
        ] {
            assert!(refused(Network::Loopback, address).is_some(), "{address}");
        }
    }

    #[test]
    fn recognizes_names_of_this_machine() {
        for (url, local) in [
            ("http://localhost:3000/x", true),
            ("http://app.localhost./", true),
            ("http://2130706433/", true),
            ("http://[::ffff:127.0.0.1]/", true),
            ("http://localhost.example.com/", false),
            ("http://notlocalhost/", false),
        ] {
            let checked = check_url(Network::Public, &Url::parse(url).expect("a URL"));
            assert_eq!(checked.is_err(), local, "{url}");
        }
    }
}
