//! What a server was started with.

use std::net::SocketAddr;
use std::time::Duration;

use crate::relay::RelayTarget;
use crate::smtp::Certificate;
use crate::store::Location;
use crate::switches::Switches;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) addr: SocketAddr,
    pub(crate) location: Location,
    pub(crate) seed: bool,
    pub(crate) dns: SocketAddr,
    pub(crate) resolver: Option<SocketAddr>,
    pub(crate) relay: Option<RelayTarget>,
    /// Where mail is taken, if it is.
    pub(crate) smtp: Option<SocketAddr>,
    /// What the SMTP listener encrypts with; its own where none was given.
    pub(crate) smtp_certificate: Option<Certificate>,
    /// Bound beyond loopback for others to use: stricter about targets and keys.
    pub(crate) public: bool,
    /// Whether others on this machine find it by its data directory.
    pub(crate) announced: bool,
    /// Requests a second for each key.
    pub(crate) rate_limit: Option<u32>,
    pub(crate) switches: Switches,
    pub(crate) limits: Limits,
}

/// What a peer may take of the server, in real time and bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For a request's head to arrive, idle time before it included.
    pub(crate) head_time: Duration,
    /// The longest pause within a body.
    pub(crate) body_pause: Duration,
    /// All of a body.
    pub(crate) body_time: Duration,
    pub(crate) body_bytes: usize,
    /// How long a stop waits for requests that are under way.
    pub(crate) stop_time: Duration,
    pub(crate) connections: usize,
    /// Bytes that the database may grow to; as far as the disk goes where not set.
    pub(crate) database_bytes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_time: Duration::from_secs(30),
            body_pause: Duration::from_secs(10),
            body_time: Duration::from_secs(120),
            body_bytes: 64 << 20,
            stop_time: Duration::from_secs(10),
            connections: 10_000,
            database_bytes: None,
        }
    }
}

impl Settings {
    /// Whether others than programs of this machine may use the server: keys that
    /// everybody knows are then worth nothing.
    pub(crate) fn is_open(&self) -> bool {
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
            smtp: None,
            smtp_certificate: None,
            public: false,
            announced: true,
            rate_limit: None,
            switches: Switches::default(),
            limits: Limits::default(),
        }
    }
}
