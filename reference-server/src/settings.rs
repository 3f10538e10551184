//! The options that a server was started with.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use svc_sdk::{Dialect, Secret};
use url::{Host, Url};

use crate::control::seed_file::SeedFile;
use crate::mail::relay::RelayTarget;
use crate::model::addresses::reachable;
use crate::model::network::Network;
use crate::net::certificate::Certificate;
use crate::net::target::is_local;
use crate::store::keys::SEEDED;
use crate::store::request_log::OnRequest;

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) network: Network,
    /// `None` for a free port on the address of the network.
    pub(crate) addr: Option<SocketAddr>,
    /// Where clients and mail readers reach the server, if not at its address.
    pub(crate) public_url: Option<Url>,
    /// `None` for data in memory.
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) seed: bool,
    /// What each start creates.
    pub(crate) seed_file: Option<Arc<SeedFile>>,
    /// The keys of the seeded organization, by service.
    pub(crate) email_key: Secret,
    pub(crate) extraction_key: Secret,
    /// Required by the control interface. A public server without one generates it.
    pub(crate) control_token: Option<Secret>,
    pub(crate) dns: SocketAddr,
    pub(crate) resolver: Option<SocketAddr>,
    pub(crate) relay: Option<RelayTarget>,
    /// Listen address for incoming mail, if any.
    pub(crate) smtp: Option<SocketAddr>,
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
    /// How many emails, and how many received messages, are kept; `None` for all.
    pub(crate) keep: Option<u32>,
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
            keep: None,
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

    /// Whether a request may name this host, with or without a port.
    ///
    /// On loopback, only `localhost`, IP addresses and the host of the public URL: any other name
    /// may be that of a web page that reaches the server through the browser of a developer (DNS
    /// rebinding).
    pub(crate) fn accepts_host(&self, host: &str) -> bool {
        // No browser sends an empty name.
        if self.network != Network::Loopback || host.is_empty() || host.starts_with(':') {
            return true;
        }
        let Ok(url) = Url::parse(&format!("http://{host}")) else {
            return false;
        };
        match url.host() {
            Some(Host::Domain(name)) => {
                is_local(name) || self.public_url.as_ref().and_then(Url::host_str) == Some(name)
            }
            address => address.is_some(),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            network: Network::default(),
            addr: None,
            public_url: None,
            data_dir: None,
            seed: true,
            seed_file: None,
            email_key: Secret::new(SEEDED[0]),
            extraction_key: Secret::new(SEEDED[1]),
            control_token: None,
            dns: loopback,
            resolver: None,
            relay: None,
            smtp: None,
            smtp_certificate: None,
            announce_in: None,
            rate_limit: None,
            dialect: Dialect::default(),
            on_request: None,
            limits: Limits::default(),
        }
    }
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
            let trusted = Settings {
                network: Network::Trusted,
                ..Settings::default()
            };
            assert!(trusted.accepts_host(host), "{host}");
        }
    }
}
