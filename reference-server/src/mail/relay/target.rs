//! Parses where the relay sends mail (`RelayTarget`, from a URL such as
//! `smtp://user:password@host:port`) and who may get it (`RelayTo`). The URL may hold a password,
//! so neither the target's `Debug` (there is none) nor an error shows it. Passwords may be sent
//! without TLS only to a loopback address. `relay.rs` connects and sends.

use std::net::IpAddr;

use percent_encoding::percent_decode_str;
use url::{Host, Url};

use crate::model::address::{Address, DomainName};

/// Host, port and credentials of a relay. It has no `Debug`: they are secret.
#[derive(Clone)]
pub(crate) struct RelayTarget {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: Tls,
    pub(super) credentials: Option<(String, String)>,
}

/// When the connection becomes encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tls {
    /// `smtp`: with `STARTTLS` if the server offers it.
    IfOffered,
    /// `smtp+starttls`: with `STARTTLS`, or there is no connection.
    Upgrade,
    /// `smtps`.
    FromStart,
}

impl RelayTarget {
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidRelay> {
        let url = Url::parse(text).map_err(|_| InvalidRelay)?;
        let (tls, default_port) = match url.scheme() {
            "smtp" => (Tls::IfOffered, 25),
            "smtp+starttls" => (Tls::Upgrade, 587),
            "smtps" => (Tls::FromStart, 465),
            _ => return Err(InvalidRelay),
        };
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(InvalidRelay);
        }

        // The `url` crate does not parse IPv4 addresses in URLs with this scheme.
        let host = match url.host().ok_or(InvalidRelay)? {
            Host::Domain(name) => name.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        let decode = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let credentials = match (url.username(), url.password()) {
            ("", None) => None,
            (user, password) => Some((decode(user), decode(password.unwrap_or_default()))),
        };
        Ok(Self {
            port: url.port().unwrap_or(default_port),
            host,
            tls,
            credentials,
        })
    }

    /// Whether the host is a loopback address, to which passwords may be sent without
    /// TLS.
    pub(super) fn is_loopback(&self) -> bool {
        let address = self.host.parse::<IpAddr>();
        address.is_ok_and(|ip| ip.is_loopback()) || self.host == "localhost"
    }
}

/// Who may get relayed mail.
#[derive(Clone)]
pub(crate) enum RelayTo {
    Anyone,
    /// In lower case, with or without the local part.
    Address(String),
    Domain(DomainName),
}

impl RelayTo {
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidRelayTo> {
        if text == "*" {
            return Ok(Self::Anyone);
        }
        match text
            .trim_start_matches('*')
            .strip_prefix('@')
            .unwrap_or(text)
        {
            address if address.contains('@') => Address::parse(address)
                .map(|address| Self::Address(address.as_str().to_lowercase()))
                .map_err(|_| InvalidRelayTo),
            domain => DomainName::parse(domain)
                .map(Self::Domain)
                .map_err(|_| InvalidRelayTo),
        }
    }

    pub(super) fn allows(&self, recipient: &Address) -> bool {
        match self {
            Self::Anyone => true,
            Self::Address(address) => *address == recipient.as_str().to_lowercase(),
            Self::Domain(domain) => domain == recipient.domain(),
        }
    }
}

/// The text names nobody who may get relayed mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a recipient of relayed mail: write an address, a domain, or * for anyone")]
#[non_exhaustive]
pub struct InvalidRelayTo;

/// The text is not a valid relay URL. The message does not repeat it, because it may
/// contain a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a relay URL: write smtp://[user:password@]host[:port], smtp+starttls:// to demand STARTTLS, or smtps:// for TLS from the start"
)]
#[non_exhaustive]
pub struct InvalidRelay;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_is_named_gets_mail() {
        let address = |text| Address::parse(text).expect("an address");
        for (allowed, recipient, expected) in [
            ("*", "ada@a.test", true),
            ("ada@A.test", "Ada@a.test", true),
            ("ada@a.test", "bo@a.test", false),
            ("a.test", "bo@A.test", true),
            ("@a.test", "bo@a.test", true),
            ("*@a.test", "bo@a.test", true),
            ("a.test", "bo@b.a.test", false),
            ("a.test", "bo@xa.test", false),
        ] {
            let allowed = RelayTo::parse(allowed).expect("valid");
            assert_eq!(allowed.allows(&address(recipient)), expected, "{recipient}");
        }
        for bad in ["", "@", "**", "a b"] {
            assert_eq!(RelayTo::parse(bad).err(), Some(InvalidRelayTo), "{bad}");
        }
    }

    #[test]
    fn parses_relay_urls() {
        let relay = RelayTarget::parse("smtp://ada%40x:s%3Acret@mail.test:587").expect("valid");
        assert_eq!(
            (relay.host.as_str(), relay.port, relay.tls),
            ("mail.test", 587, Tls::IfOffered)
        );
        assert_eq!(relay.credentials, Some(("ada@x".into(), "s:cret".into())));
        assert!(!relay.is_loopback());

        let relay = RelayTarget::parse("smtps://[::1]/").expect("valid");
        assert_eq!(
            (relay.host.as_str(), relay.port, relay.tls),
            ("::1", 465, Tls::FromStart)
        );
        assert!(relay.is_loopback() && relay.credentials.is_none());
        assert!(
            RelayTarget::parse("smtp://127.0.0.1:1025")
                .expect("valid")
                .is_loopback()
        );
        let relay = RelayTarget::parse("smtp+starttls://mail.test").expect("valid");
        assert_eq!((relay.port, relay.tls), (587, Tls::Upgrade));

        for bad in [
            "",
            "mail.test",
            "http://mail.test",
            "smtp://",
            "smtp://a/b",
            "smtp://a?x",
            "smtp:a",
        ] {
            assert_eq!(RelayTarget::parse(bad).err(), Some(InvalidRelay), "{bad}");
        }
    }
}
