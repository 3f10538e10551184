//! What all of a running server shares.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use tokio::sync::watch;

use crate::clock::Clock;
use crate::dns::{Resolver, Zone};
use crate::email::domains::Verified;
use crate::engine::EngineHandle;
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
    /// Where mail goes out, if it does.
    pub(crate) relay: Option<Relay>,
    pub(crate) resolver: Resolver,
    pub(crate) zone: Arc<Zone>,
    pub(crate) verified: Arc<Verified>,
    pub(crate) rates: Mutex<HashMap<String, Bucket>>,
    pub(crate) faults: Faults,
    pub(crate) metrics: Metrics,
    pub(crate) activity: Activity,
    /// Set once the sockets are bound.
    pub(crate) addresses: OnceLock<Addresses>,
    /// Needed for `/_sandbox/` where the server is bound beyond loopback.
    pub(crate) control_token: Option<String>,
    /// Becomes true when the server is to stop.
    pub(crate) stopping: watch::Sender<bool>,
}

/// Where a running server can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Addresses {
    /// Both services and the control interface.
    pub http: SocketAddr,
    /// The built-in DNS server, on UDP and TCP.
    pub dns: SocketAddr,
    /// The SMTP listener, where one was asked for.
    pub smtp: Option<SocketAddr>,
}

/// One key's allowance under `--rate-limit`, in real time.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) tokens: f64,
    pub(crate) filled: Instant,
}

/// Who is using the server at this moment.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    requests: AtomicUsize,
    leases: AtomicUsize,
    /// Nobody gets a lease any more.
    closing: AtomicBool,
    changed: tokio::sync::Notify,
}

/// Counts its holder until it is dropped.
pub(crate) struct Active {
    app: Shared,
    lease: bool,
}

impl Active {
    pub(crate) fn request(app: &Shared) -> Self {
        Self::new(app, false)
    }

    /// `None` where the server is about to end.
    pub(crate) fn lease(app: &Shared) -> Option<Self> {
        // First counted, then looked: `close_when_idle` does it the other way
        // round, so that at least one of the two notices the other.
        let lease = Self::new(app, true);
        let closing = app.activity.closing.load(std::sync::atomic::Ordering::SeqCst);
        (!closing && !*app.stopping.borrow()).then_some(lease)
    }

    fn new(app: &Shared, lease: bool) -> Self {
        app.activity.counter(lease).fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Self { app: Arc::clone(app), lease }
    }
}

impl Drop for Active {
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

    fn is_quiet(&self) -> bool {
        use std::sync::atomic::Ordering::SeqCst;
        self.requests.load(SeqCst) == 0 && self.leases.load(SeqCst) == 0
    }
}

impl App {
    /// Returns when the server is to stop.
    pub(crate) async fn stopped(&self) {
        // The sender lives as long as the app does.
        let _ = self.stopping.subscribe().wait_for(|stop| *stop).await;
    }

    /// Returns when no request is under way, no lease is open, and nothing is
    /// due at that moment.
    pub(crate) async fn until_idle(&self) {
        loop {
            let changed = self.activity.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if !self.activity.is_quiet() {
                changed.await;
                continue;
            }
            self.engine.settled().await;
            if self.activity.is_quiet() {
                return;
            }
        }
    }

    /// Waits until it is idle; from then on nobody gets a lease.
    pub(crate) async fn close_when_idle(&self) {
        let closing = |is| self.activity.closing.store(is, std::sync::atomic::Ordering::SeqCst);
        loop {
            self.until_idle().await;
            closing(true);
            if self.activity.is_quiet() {
                return;
            }
            closing(false);
        }
    }
}
