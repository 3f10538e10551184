//! Decides whether requests go through a proxy: `ProxyChoice::route` takes the choice of the
//! builder or the environment, and returns the `Route` with which `connections.rs` builds its
//! clients. `NO_PROXY` and `proxy_except` are read here. Every entry is parsed, also after one that
//! matches, so that a mistake is an error when the client is built, and not when its host is used.

use std::net::IpAddr;

use url::{Host, Url};

use crate::error::Error;
use crate::secret::Secret;

#[derive(Clone, Debug, Default)]
pub(super) enum ProxyChoice {
    /// `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`.
    #[default]
    Environment,
    None,
    Url(Secret),
}

/// How requests reach the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Direct,
    /// Through the proxy with this URL.
    Proxy(Secret),
}

impl ProxyChoice {
    /// `except` are the hosts that bypass the proxy of a builder.
    pub(super) fn route(&self, base: &Url, except: &str) -> Result<Route, Error> {
        match self {
            Self::None => Ok(Route::Direct),
            Self::Url(url) => {
                if bypasses(except, "proxy_except", base)? {
                    return Ok(Route::Direct);
                }
                Ok(Route::Proxy(url.clone()))
            }
            Self::Environment => {
                let list = first_set(&["NO_PROXY", "no_proxy"]).unwrap_or_default();
                if bypasses(&list, "NO_PROXY", base)? {
                    return Ok(Route::Direct);
                }
                // As reqwest reads them.
                let names: &[&str] = match base.scheme() {
                    "https" => &["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"],
                    _ => &["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"],
                };
                Ok(match first_set(names) {
                    Some(url) => Route::Proxy(url.into()),
                    None => Route::Direct,
                })
            }
        }
    }
}

/// The first of these variables that is set and not empty.
fn first_set(names: &[&str]) -> Option<String> {
    let values = names.iter().filter_map(|name| std::env::var(name).ok());
    values
        .map(|value| value.trim().to_owned())
        .find(|value| !value.is_empty())
}

/// Whether a list in the format of `NO_PROXY` contains the host. Everything in it is read, so that a
/// mistake does not go unnoticed until its host is used.
fn bypasses(list: &str, source: &str, url: &Url) -> Result<bool, Error> {
    let mut bypasses = false;
    for entry in list.split(|c: char| c == ',' || c.is_whitespace()) {
        if entry.is_empty() {
            continue;
        }
        let exception = Exception::parse(entry).ok_or_else(|| {
            Error::config(format!(
                "{source}: {entry:?} is none of `host`, `.domain`, `*.domain`, `host:port`, an IP \
                 address, `address/bits` and `*`"
            ))
        })?;
        bypasses |= exception.matches(url);
    }
    Ok(bypasses)
}

/// An entry of `NO_PROXY`.
struct Exception {
    hosts: Hosts,
    port: Option<u16>,
}

enum Hosts {
    All,
    /// A domain with its subdomains.
    Domain(String),
    Subdomains(String),
    Network {
        address: IpAddr,
        bits: u32,
    },
}

impl Exception {
    fn parse(entry: &str) -> Option<Self> {
        if entry == "*" {
            return Some(Self {
                hosts: Hosts::All,
                port: None,
            });
        }
        if let Some((address, bits)) = entry.split_once('/') {
            let hosts = Hosts::network(address.parse().ok()?, bits.parse().ok()?)?;
            return Some(Self { hosts, port: None });
        }

        let (host, port) = split_port(entry)?;
        let hosts = match host.parse::<IpAddr>() {
            Ok(address) => Hosts::network(address, bits_of(address))?,
            Err(_) => match host.strip_prefix("*.") {
                Some(domain) => Hosts::Subdomains(domain_of(domain)?),
                None => Hosts::Domain(domain_of(host.strip_prefix('.').unwrap_or(host))?),
            },
        };
        Some(Self { hosts, port })
    }

    fn matches(&self, url: &Url) -> bool {
        if self.port.is_some() && self.port != url.port_or_known_default() {
            return false;
        }
        match (&self.hosts, url.host()) {
            (Hosts::All, _) => true,
            (Hosts::Domain(domain), Some(Host::Domain(host))) => {
                let host = host.trim_end_matches('.');
                host == domain || is_subdomain(host, domain)
            }
            (Hosts::Subdomains(domain), Some(Host::Domain(host))) => {
                is_subdomain(host.trim_end_matches('.'), domain)
            }
            (Hosts::Network { address, bits }, Some(Host::Ipv4(host))) => {
                are_in_one_network(*address, host.into(), *bits)
            }
            (Hosts::Network { address, bits }, Some(Host::Ipv6(host))) => {
                are_in_one_network(*address, host.into(), *bits)
            }
            _ => false,
        }
    }
}

impl Hosts {
    fn network(address: IpAddr, bits: u32) -> Option<Self> {
        (bits <= bits_of(address)).then_some(Self::Network { address, bits })
    }
}

/// Splits `host`, `host:port`, `[v6]`, `[v6]:port` or an address without brackets.
fn split_port(entry: &str) -> Option<(&str, Option<u16>)> {
    if entry.parse::<IpAddr>().is_ok() {
        return Some((entry, None));
    }
    if let Some((address, rest)) = entry
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        let port = match rest.strip_prefix(':') {
            Some(port) => Some(port.parse().ok()?),
            None if rest.is_empty() => None,
            None => return None,
        };
        return Some((address, port));
    }
    match entry.split_once(':') {
        Some((host, port)) => Some((host, Some(port.parse().ok()?))),
        None => Some((entry, None)),
    }
}

/// A domain as it stands in URLs.
fn domain_of(text: &str) -> Option<String> {
    if text.contains('*') {
        return None;
    }
    match Host::parse(text.trim_end_matches('.')) {
        Ok(Host::Domain(domain)) if !domain.is_empty() => Some(domain),
        _ => None,
    }
}

fn is_subdomain(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain)
        .is_some_and(|rest| rest.ends_with('.'))
}

fn bits_of(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn are_in_one_network(a: IpAddr, b: IpAddr, bits: u32) -> bool {
    let differing = match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => u128::from(a.to_bits() ^ b.to_bits()) << 96,
        (IpAddr::V6(a), IpAddr::V6(b)) => a.to_bits() ^ b.to_bits(),
        _ => return false,
    };
    differing.leading_zeros() >= bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_hosts_domains_ports_and_networks() {
        for (list, url, expected) in [
            ("*", "https://x.test", true),
            ("x.test", "https://x.test", true),
            ("X.Test.", "https://api.x.test", true),
            ("x.test", "https://ax.test", false),
            (".x.test", "https://x.test", true),
            ("*.x.test", "https://api.x.test", true),
            ("*.x.test", "https://x.test", false),
            ("bücher.test", "https://xn--bcher-kva.test", true),
            ("x.test:443", "https://x.test", true),
            ("x.test:8443", "https://x.test", false),
            ("*.x.test:8443", "https://api.x.test:8443", true),
            ("10.0.0.0/8", "http://10.1.2.3", true),
            ("10.0.0.0/8", "http://11.1.2.3", false),
            ("0.0.0.0/0", "http://11.1.2.3", true),
            ("0.0.0.0/0", "http://[::1]", false),
            ("10.0.0.1:80", "http://10.0.0.1", true),
            ("::1", "http://[::1]", true),
            ("[::1]:8080", "http://[::1]:8080", true),
            ("fe80::/10", "http://[fe80::1]", true),
            ("a.test, b.test x.test", "http://x.test", true),
            ("", "http://x.test", false),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(
                bypasses(list, "NO_PROXY", &url).unwrap(),
                expected,
                "{list} {url}"
            );
        }
    }

    #[test]
    fn what_cannot_be_honoured_is_an_error() {
        let url = Url::parse("https://x.test").unwrap();
        for list in [
            "a*.test",
            "x.*",
            "http://x.test",
            "10.0.0.0/33",
            "10.0.0/8",
            "fe80::/129",
            "x.test:port",
            "x.test:",
            "[::1",
            "[::1]8080",
            "x.test,ok.test,no?pe",
        ] {
            let error = bypasses(list, "NO_PROXY", &url).unwrap_err();
            assert!(
                error.to_string().starts_with("NO_PROXY: "),
                "{list}: {error}"
            );
        }
    }
}
