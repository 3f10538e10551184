//! [`App`]: what the handlers of requests share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use tokio::sync::Semaphore;

use crate::delivery::Delivery;
use crate::engine::EngineHandle;
use crate::engine::activity::Activity;
use crate::mail::dns::{Resolver, Zone};
use crate::model::addresses::Addresses;
use crate::model::clock::Clock;
use crate::model::compatibility::ErrorFormat;
use crate::model::limit::Limit;
use crate::model::metrics::Metrics;
use crate::model::stop::Stop;
use crate::settings::Settings;
use crate::store::Store;
use crate::store::domains::VerifiedDomains;
use crate::store::faults::Faults;
use crate::store::keys::Keys;
use crate::store::request_log::RequestLog;
use crate::store::webhooks::Webhooks;

pub(crate) type Shared = Arc<App>;

pub(crate) struct App {
    pub(crate) settings: Settings,
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) webhooks: Arc<Webhooks>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) zone: Arc<Zone>,
    pub(crate) verified: Arc<VerifiedDomains>,
    pub(crate) resolver: Arc<Resolver>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) activity: Arc<Activity>,
    pub(crate) stop: Arc<Stop>,
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) engine: EngineHandle,
    /// The templates that are rendered or checked at the same time.
    pub(crate) templates: Limit,
    /// The keys of new domains that are generated at the same time.
    pub(crate) domain_keys: Limit,
    /// The opens and clicks that may be recorded at the same time.
    pub(crate) tracked: Semaphore,
    /// The newest requests to the documented operations.
    pub(crate) requests: RequestLog,
    /// By key ID.
    pub(crate) rate_limits: Mutex<HashMap<String, TokenBucket>>,
    /// Set once the sockets are bound.
    pub(crate) addresses: OnceLock<Addresses>,
    /// Required for `/_sandbox/` if the server listens beyond loopback.
    pub(crate) control_token: Option<String>,
}

/// The state of one key's rate limit (`--rate-limit`), in real time.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    pub(crate) tokens: f64,
    pub(crate) updated: Instant,
}

impl App {
    /// The error format for a path. No setting changes that of the control interface.
    pub(crate) fn error_format(&self, path: &str) -> ErrorFormat {
        if path.starts_with("/_sandbox/") {
            ErrorFormat::Nested
        } else {
            self.settings.compatibility.error_format
        }
    }
}
