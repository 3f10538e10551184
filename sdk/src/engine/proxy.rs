//! Decides whether requests go through a proxy: `ProxyChoice::route` takes the choice of the
//! builder or the environment, and returns the `Route` with which `connections.rs` builds its
//! clients. `NO_PROXY` and `proxy_except` are read here. Every entry is parsed, also after one that
//! matches, so that a mistake is an error when the client is built, and not when its host is used.

use std::net::IpAddr;

use ipnet::IpNet;
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
        // As reqwest reads them.
        let names: &[&str] = match base.scheme() {
            "https" => &["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"],
            _ => &["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"],
        };
        let (proxy, is_bypassed) = match self {
            Self::None => return Ok(Route::Direct),
            Self::Url(url) => (Some(url.clone()), bypasses(except, "proxy_except", base)?),
            Self::Environment => {
                let list = first_set(&["NO_PROXY", "no_proxy"]).unwrap_or_default();
                let proxy = first_set(names).map(Secret::from);
                (proxy, bypasses(&list, "NO_PROXY", base)?)
            }
        };
        Ok(match proxy.filter(|_| !is_bypassed) {
            Some(url) => Route::Proxy(url),
            None => Route::Direct,
        })
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
    Network(IpNet),
}

impl Exception {
    fn parse(entry: &str) -> Option<Self> {
        let (host, port) = if entry.contains('/') {
            (entry, None)
        } else {
            split_port(entry)?
        };
        let address = || host.parse::<IpAddr>().map(IpNet::from);
        let network = host.parse::<IpNet>().or_else(|_| address());
        let hosts = match network {
            Ok(network) => Hosts::Network(network),
            Err(_) if entry == "*" => Hosts::All,
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
        let is_below = |domain: &str| {
            let rest = host_of(url).strip_suffix(domain);
            rest.is_some_and(|rest| rest.ends_with('.'))
        };
        match &self.hosts {
            Hosts::All => true,
            Hosts::Domain(domain) => host_of(url) == domain || is_below(domain),
            Hosts::Subdomains(domain) => is_below(domain),
            Hosts::Network(network) => match url.host() {
                Some(Host::Ipv4(address)) => network.contains(&IpAddr::from(address)),
                Some(Host::Ipv6(address)) => network.contains(&IpAddr::from(address)),
                _ => false,
            },
        }
    }
}

fn host_of(url: &Url) -> &str {
    url.host_str().unwrap_or_default().trim_end_matches('.')
}

/// Splits `host`, `host:port`, `[v6]`, `[v6]:port` or an address without brackets.
fn split_port(entry: &str) -> Option<(&str, Option<u16>)> {
    if entry.parse::<IpAddr>().is_ok() {
        return Some((entry, None));
    }

    let (host, port) = match entry.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => entry.split_at(entry.find(':').unwrap_or(entry.len())),
    };
    if port.is_empty() {
        return Some((host, None));
    }

    let port = port.strip_prefix(':')?.parse().ok()?;
    Some((host, Some(port)))
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
