//! The options that a server was started with.

use std::net::SocketAddr;
use std::time::Duration;

use crate::mail::relay::RelayTarget;
use crate::model::compatibility::Compatibility;
use crate::smtp::Certificate;
use crate::store::Location;
use crate::store::request_log::OnRequest;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) addr: SocketAddr,
    pub(crate) location: Location,
    pub(crate) seed: bool,
    pub(crate) dns: SocketAddr,
    pub(crate) resolver: Option<SocketAddr>,
    pub(crate) relay: Option<RelayTarget>,
    /// Whether a message is sent again if the relay did not confirm it.
    pub(crate) relay_again: bool,
    /// Names of this server besides its addresses, in lower case.
    pub(crate) hosts: Vec<String>,
    /// Listen address for incoming mail, if any.
    pub(crate) smtp: Option<SocketAddr>,
    /// Certificate for `STARTTLS`; `None` for a generated one.
    pub(crate) smtp_certificate: Option<Certificate>,
    /// Untrusted clients may use the server: restricts webhook URLs and keys.
    pub(crate) public: bool,
    /// Whether `find_running` finds the server.
    pub(crate) discoverable: bool,
    /// Requests per second for each key.
    pub(crate) rate_limit: Option<u32>,
    pub(crate) compatibility: Compatibility,
    pub(crate) on_request: Option<OnRequest>,
    /// Whether the newest requests are kept.
    pub(crate) request_log: bool,
    pub(crate) limits: Limits,
}

/// Limits for clients. Times are real time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For the request line and the headers, including the idle time before.
    pub(crate) header_timeout: Duration,
    /// For a pause within a body.
    pub(crate) body_idle_timeout: Duration,
    /// For a whole body.
    pub(crate) body_timeout: Duration,
    pub(crate) max_body_bytes: usize,
    /// For a client that does not read a response.
    pub(crate) write_timeout: Duration,
    /// How long a stop waits for what is in progress.
    pub(crate) stop_timeout: Duration,
    pub(crate) max_connections: usize,
    /// Maximum size of the database; `None` for no limit.
    pub(crate) max_database_bytes: Option<u64>,
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
            max_connections: 10_000,
            max_database_bytes: None,
        }
    }
}

impl Settings {
    /// Whether clients beyond this machine can reach the server. If so, it must not
    /// accept the seeded keys, which are public knowledge.
    pub(crate) fn is_exposed(&self) -> bool {
        self.public || !self.addr.ip().is_loopback()
    }
}

impl Default for Settings {
    fn default() -> Self {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            addr: loopback,
            location: Location::Memory,
            seed: true,
            dns: loopback,
            resolver: None,
            relay: None,
            relay_again: false,
            hosts: Vec::new(),
            smtp: None,
            smtp_certificate: None,
            public: false,
            discoverable: true,
            rate_limit: None,
            compatibility: Compatibility::default(),
            on_request: None,
            request_log: true,
            limits: Limits::default(),
        }
    }
}
