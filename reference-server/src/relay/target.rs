//! Where mail is relayed to: `smtp://user:password@host:port`.

use std::fmt;
use std::net::IpAddr;

use percent_encoding::percent_decode_str;
use url::{Host, Url};

/// A relay's address, and the credentials for it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RelayTarget {
    pub(super) host: String,
    pub(super) port: u16,
    /// TLS from the first byte (`smtps`); otherwise `STARTTLS` where it is offered.
    pub(super) implicit_tls: bool,
    pub(super) credentials: Option<(String, String)>,
    loopback: bool,
}

impl RelayTarget {
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidRelay> {
        let url = Url::parse(text).map_err(|_| InvalidRelay)?;
        let (implicit_tls, default_port) = match url.scheme() {
            "smtp" => (false, 25),
            "smtps" => (true, 465),
            _ => return Err(InvalidRelay),
        };
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(InvalidRelay);
        }
        // The host of a scheme that `url` does not know is not looked into.
        let host = match url.host().ok_or(InvalidRelay)? {
            Host::Domain(name) => name.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        let address = host.parse::<IpAddr>();
        let loopback = address.is_ok_and(|ip| ip.is_loopback()) || host == "localhost";
        let decode = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let credentials = match (url.username(), url.password()) {
            ("", None) => None,
            (user, password) => Some((decode(user), decode(password.unwrap_or_default()))),
        };
        Ok(Self {
            port: url.port().unwrap_or(default_port),
            host,
            implicit_tls,
            credentials,
            loopback,
        })
    }

    /// Whether a password may go there without TLS.
    pub(super) fn is_loopback(&self) -> bool {
        self.loopback
    }
}

impl fmt::Debug for RelayTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.implicit_tls { "smtps" } else { "smtp" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

/// The text is no relay's address. It is not repeated: it may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a relay is written as smtp://[user:password@]host[:port], or smtps:// for TLS from the start"
)]
#[non_exhaustive]
pub struct InvalidRelay;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relays_are_read_and_passwords_not_shown() {
        let relay = RelayTarget::parse("smtp://ada%40x:s%3Acret@mail.test:587").expect("valid");
        assert_eq!(
            (relay.host.as_str(), relay.port, relay.implicit_tls),
            ("mail.test", 587, false)
        );
        assert_eq!(relay.credentials, Some(("ada@x".into(), "s:cret".into())));
        assert_eq!(format!("{relay:?}"), "smtp://mail.test:587");
        assert!(!relay.is_loopback());

        let relay = RelayTarget::parse("smtps://[::1]/").expect("valid");
        assert_eq!((relay.host.as_str(), relay.port, relay.implicit_tls), ("::1", 465, true));
        assert!(relay.is_loopback() && relay.credentials.is_none());
        assert!(RelayTarget::parse("smtp://127.0.0.1:1025").expect("valid").is_loopback());

        for bad in
            ["", "mail.test", "http://mail.test", "smtp://", "smtp://a/b", "smtp://a?x", "smtp:a"]
        {
            assert_eq!(RelayTarget::parse(bad), Err(InvalidRelay), "{bad}");
        }
    }
}
