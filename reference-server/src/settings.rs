//! [`Settings`]: the options that a server was started with, their defaults, and the limits for
//! clients ([`Limits`]). What follows from several options is decided here: whether others can
//! reach the server (`is_exposed`), which hosts a request may name (`accepts_host`, the guard
//! against DNS rebinding), and the base URL. An exposed server must not accept the seeded keys,
//! which are public. `server/builder.rs` sets the options.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use svc_sdk::{Dialect, Secret};
use url::{Host, Url};

use crate::http::request_log::OnRequest;
use crate::mail::relay::{RelayTarget, RelayTo};
use crate::model::addresses::reachable;
use crate::model::{Millis, Network};
use crate::net::certificate::Certificate;
use crate::net::target::{is_internal, is_local};
use crate::seeds::seed_file::SeedFile;

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) network: Network,
    /// `None` for a free port on the address of the network.
    pub(crate) addr: Option<SocketAddr>,
    /// Where clients and mail readers reach the server, if not at its address.
    pub(crate) public_url: Option<Url>,
    /// Further names that requests may have in `Host`, in lower case.
    pub(crate) allowed_hosts: Vec<String>,
    /// `None` for data in memory.
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) seed: bool,
    /// The file whose content each start creates.
    pub(crate) seed_file: Option<Arc<SeedFile>>,
    /// The keys of the seeded organization, by service.
    pub(crate) email_key: Secret,
    pub(crate) extraction_key: Secret,
    /// Required by the control interface. A public server without one generates it.
    pub(crate) control_token: Option<Secret>,
    pub(crate) dns: SocketAddr,
    pub(crate) resolver: Option<SocketAddr>,
    pub(crate) relay: Option<RelayTarget>,
    /// Who may get relayed mail.
    pub(crate) relay_to: Vec<RelayTo>,
    /// Listen address for incoming mail, if any.
    pub(crate) smtp: Option<SocketAddr>,
    /// Whether a free port does, if another program uses that of `smtp`.
    pub(crate) smtp_may_move: bool,
    /// Certificate for `STARTTLS`, which is not offered without one.
    pub(crate) smtp_certificate: Option<Certificate>,
    /// Where a server without a data directory is found.
    pub(crate) announce_in: Option<PathBuf>,
    /// Requests per second for each key.
    pub(crate) rate_limit: Option<u32>,
    /// How the services behave where their reference is silent.
    pub(crate) dialect: Dialect,
    pub(crate) on_request: Option<OnRequest>,
    pub(crate) limits: Limits,
}

/// The target of a request, below the path of the public URL.
pub(crate) enum Below {
    /// The request does not have that path.
    Same,
    Stripped(Uri),
    /// The request has that path without its final slash.
    Redirect(String),
}

/// Limits for clients. Times are real time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For the request line and the headers, including the idle time before.
    pub header_timeout: Duration,
    /// For a pause within a body.
    pub body_idle_timeout: Duration,
    /// For a whole body.
    pub(crate) body_timeout: Duration,
    pub(crate) max_body_bytes: usize,
    /// For a client that does not read a response.
    pub write_timeout: Duration,
    /// How long a stop waits for what is in progress.
    pub stop_timeout: Duration,
    pub(crate) max_connections: usize,
    /// Maximum size of the database; `None` for no limit.
    pub max_database_bytes: Option<u64>,
    /// How much is kept; everything without a limit.
    pub(crate) keep: Keep,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(30),
            body_idle_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(120),
            max_body_bytes: 64 << 20,
            write_timeout: Duration::from_secs(60),
            stop_timeout: Duration::from_secs(1),
            max_connections: 4096,
            max_database_bytes: None,
            keep: Keep::default(),
        }
    }
}

impl Settings {
    /// Whether others can reach the server. If so, it must not accept the seeded keys, which are
    /// public knowledge.
    pub(crate) fn is_exposed(&self) -> bool {
        self.network == Network::Public
    }

    /// The base URL for clients of a server that listens on this address, without a trailing slash.
    pub(crate) fn base_url(&self, http: SocketAddr) -> String {
        match &self.public_url {
            Some(url) => url.as_str().trim_end_matches('/').to_owned(),
            None => format!("http://{}", reachable(http)),
        }
    }

    /// The URI of a request without the path of the public URL, which a proxy may have left in it.
    pub(crate) fn below(&self, uri: &Uri) -> Below {
        let base = self
            .public_url
            .as_ref()
            .map_or("", Url::path)
            .trim_end_matches('/');
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let Some(rest) = path.strip_prefix(base).filter(|_| !base.is_empty()) else {
            return Below::Same;
        };

        match rest.as_bytes().first() {
            Some(b'/') => rest.parse().map_or(Below::Same, Below::Stripped),
            // Relative URLs of the page need the slash.
            None => Below::Redirect(format!("{base}/")),
            Some(_) => Below::Same,
        }
    }

    /// Whether a request may name this host, with or without a port.
    ///
    /// Any other name may be that of a web page that reaches the server through the browser of a
    /// developer (DNS rebinding). A public server requires its token instead.
    pub(crate) fn accepts_host(&self, host: &str) -> bool {
        // No browser sends an empty name.
        if self.network == Network::Public || host.is_empty() || host.starts_with(':') {
            return true;
        }
        let Ok(url) = Url::parse(&format!("http://{host}")) else {
            return false;
        };

        let name = match url.host() {
            Some(Host::Domain(name)) => name,
            address => return address.is_some(),
        };

        let is_of_network = match self.network {
            Network::Trusted => is_local(name) || is_internal(name),
            _ => is_local(name),
        };
        let is_public_url = self.public_url.as_ref().and_then(Url::host_str) == Some(name);
        let is_allowed = self.allowed_hosts.iter().any(|allowed| allowed == name);
        is_of_network || is_public_url || is_allowed
    }
}

impl Default for Settings {
    fn default() -> Self {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            network: Network::default(),
            addr: None,
            public_url: None,
            allowed_hosts: Vec::new(),
            data_dir: None,
            seed: true,
            seed_file: None,
            email_key: Secret::new(SEEDED[0]),
            extraction_key: Secret::new(SEEDED[1]),
            control_token: None,
            dns: loopback,
            resolver: None,
            relay: None,
            relay_to: Vec::new(),
            smtp: None,
            smtp_may_move: false,
            smtp_certificate: None,
            announce_in: None,
            rate_limit: None,
            dialect: Dialect::default(),
            on_request: None,
            limits: Limits::default(),
        }
    }
}

/// The keys of the email service and of the extraction service that a new server on loopback
/// has. They are public knowledge.
pub(crate) const SEEDED: [&str; 2] = ["mk_test_sandbox", "sk_test_sandbox"];

/// How much is kept of each organization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keep {
    /// The number of the newest emails, received messages, and other deliveries.
    pub(crate) newest: Option<u32>,
    /// How long, in milliseconds of the server's clock.
    pub(crate) duration: Option<Millis>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_loopback_accepts_names_of_this_machine_only() {
        let public_url = Url::parse("https://mail.example").ok();
        let settings = Settings {
            public_url,
            ..Settings::default()
        };
        for host in [
            "127.0.0.1:4080",
            "LOCALHOST:4080",
            "app.localhost",
            "[::1]:4080",
            "[::1]",
            "Mail.Example:443",
            "",
        ] {
            assert!(settings.accepts_host(host), "{host}");
        }

        for host in [
            "evil.test:4080",
            "localhost.evil.test:4080",
            "notlocalhost",
            "mail.example.evil.test",
            "sandbox:4080",
        ] {
            assert!(!settings.accepts_host(host), "{host}");
        }
    }

    #[test]
    fn a_server_in_a_trusted_network_accepts_names_that_the_public_dns_does_not_have() {
        let settings = Settings {
            network: Network::Trusted,
            allowed_hosts: vec!["mail.dev.example".to_owned()],
            ..Settings::default()
        };
        for host in [
            "10.0.0.7:4080",
            "localhost:4080",
            "sandbox:4080",
            "Sandbox.Team.Test",
            "svc.cluster.local:80",
            "build.internal.",
            "MAIL.dev.example:4080",
        ] {
            assert!(settings.accepts_host(host), "{host}");
        }
        for host in [
            "evil.example:4080",
            "test.evil.example",
            "sandbox.test.evil.example",
            "notinternal.com",
            "mail.dev.example.evil.example",
            ".test",
        ] {
            assert!(!settings.accepts_host(host), "{host}");
        }
    }
}
