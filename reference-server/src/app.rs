//! The state that all tasks of a running server share.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use tokio::sync::{Semaphore, watch};

use crate::clock::Clock;
use crate::dns::{Resolver, Zone};
use crate::email::domains::VerifiedDomains;
use crate::engine::{EngineHandle, Unrecorded};
use crate::faults::Faults;
use crate::keys::Keys;
use crate::metrics::Metrics;
use crate::outbound::Outbound;
use crate::relay::Relay;
use crate::settings::Settings;
use crate::store::Store;
use crate::webhooks::Webhooks;

pub(crate) type Shared = Arc<App>;

pub(crate) struct App {
    pub(crate) settings: Settings,
    pub(crate) store: Store,
    pub(crate) clock: Arc<Clock>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) webhooks: Arc<Webhooks>,
    pub(crate) engine: EngineHandle,
    pub(crate) outbound: Outbound,
    /// The SMTP server for outgoing mail, if one is configured.
    pub(crate) relay: Option<Relay>,
    pub(crate) resolver: Resolver,
    pub(crate) zone: Arc<Zone>,
    pub(crate) verified: Arc<VerifiedDomains>,
    /// By key ID.
    pub(crate) rate_limits: Mutex<HashMap<String, TokenBucket>>,
    pub(crate) faults: Faults,
    pub(crate) metrics: Metrics,
    pub(crate) activity: Activity,
    pub(crate) unrecorded: Unrecorded,
    /// KiB that the bodies of requests in progress may still take.
    pub(crate) bodies: Arc<Semaphore>,
    /// KiB that messages in transfer over SMTP may still take.
    pub(crate) transfers: Arc<Semaphore>,
    /// Set once the sockets are bound.
    pub(crate) addresses: OnceLock<Addresses>,
    /// Required for `/_sandbox/` if the server listens beyond loopback.
    pub(crate) control_token: Option<String>,
    /// Becomes `true` when the server is asked to stop.
    pub(crate) stopping: watch::Sender<bool>,
}

/// The listen addresses of a [`Server`](crate::Server).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Addresses {
    /// Both services and the control interface.
    pub http: SocketAddr,
    /// The built-in DNS server, on UDP and TCP.
    pub dns: SocketAddr,
    /// The SMTP listener, if the server has one.
    pub smtp: Option<SocketAddr>,
}

/// The state of one key's rate limit (`--rate-limit`), in real time.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    pub(crate) tokens: f64,
    pub(crate) updated: Instant,
}

/// Counts the requests in progress and the open leases.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    requests: AtomicUsize,
    leases: AtomicUsize,
    /// No more leases are granted.
    closing: AtomicBool,
    changed: tokio::sync::Notify,
}

/// Counts as one request or one lease until it is dropped.
pub(crate) struct ActivityGuard {
    app: Shared,
    lease: bool,
}

impl ActivityGuard {
    pub(crate) fn request(app: &Shared) -> Self {
        Self::new(app, false)
    }

    /// Returns `None` if the server is about to stop.
    pub(crate) fn lease(app: &Shared) -> Option<Self> {
        // Count first, then check `closing`. `close_when_idle` does it in the opposite
        // order, so at least one of the two sees the other.
        let lease = Self::new(app, true);
        let closing = app.activity.closing.load(std::sync::atomic::Ordering::SeqCst);
        (!closing && !*app.stopping.borrow()).then_some(lease)
    }

    fn new(app: &Shared, lease: bool) -> Self {
        app.activity.counter(lease).fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Self { app: Arc::clone(app), lease }
    }
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        let activity = &self.app.activity;
        activity.counter(self.lease).fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
        activity.changed.notify_waiters();
    }
}

impl Activity {
    fn counter(&self, lease: bool) -> &AtomicUsize {
        if lease { &self.leases } else { &self.requests }
    }

    fn is_idle(&self) -> bool {
        use std::sync::atomic::Ordering::SeqCst;
        self.requests.load(SeqCst) == 0 && self.leases.load(SeqCst) == 0
    }
}

impl App {
    /// Completes when the server is asked to stop.
    pub(crate) async fn stopped(&self) {
        // The sender lives as long as the app does.
        let _ = self.stopping.subscribe().wait_for(|stop| *stop).await;
    }

    /// Waits until no request is in progress, no lease is open, and no work is due.
    pub(crate) async fn until_idle(&self) {
        loop {
            let changed = self.activity.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if !self.activity.is_idle() {
                changed.await;
                continue;
            }
            self.engine.settled().await;
            if self.activity.is_idle() {
                return;
            }
        }
    }

    /// Waits until the server is idle, and grants no lease from then on.
    pub(crate) async fn close_when_idle(&self) {
        let set_closing =
            |closing| self.activity.closing.store(closing, std::sync::atomic::Ordering::SeqCst);
        loop {
            self.until_idle().await;
            set_closing(true);
            if self.activity.is_idle() {
                return;
            }
            set_closing(false);
        }
    }
}
