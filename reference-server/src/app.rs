//! [`App`]: what the parts of a server share.

pub(crate) mod activity;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use activity::Activity;
use url::{Position, Url};

use crate::http::request_log::RequestLog;
use crate::jobs::clock::Clock;
use crate::jobs::{Command, EngineHandle};
use crate::mail::dns::{Resolver, Zone};
use crate::mail::relay::Relay;
use crate::model::{Addresses, Code, Result};
use crate::net::outbound::Outbound;
use crate::runtime::limit::Limit;
use crate::runtime::stop::Stop;
use crate::settings::Settings;
use crate::store::{Store, Tx};

pub(crate) type Shared = Arc<App>;

pub(crate) struct App {
    pub(crate) settings: Settings,
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<Clock>,
    /// Whether a fault may affect a request.
    pub(crate) has_faults: AtomicBool,
    pub(crate) zone: Arc<Zone>,
    pub(crate) resolver: Resolver,
    pub(crate) outbound: Outbound,
    /// The SMTP server for outgoing mail, if one is configured.
    pub(crate) relay: Option<Relay>,
    /// The number of jobs that the server gave up because of a defect.
    pub(crate) set_aside: AtomicU64,
    pub(crate) activity: Arc<Activity>,
    pub(crate) stop: Arc<Stop>,
    pub(crate) engine: EngineHandle,
    /// The templates that are rendered or checked at the same time.
    pub(crate) templates: Limit,
    /// The newest requests to the documented operations.
    pub(crate) requests: RequestLog,
    /// Until when the requests of each key take its rate limit (`--rate-limit`), in real time.
    pub(crate) paid_until: Mutex<HashMap<String, Instant>>,
    pub(crate) addresses: Addresses,
}

impl App {
    /// The base URL of the pixels and links in an email that was sent to this `host`, at which its
    /// readers probably reach the server, too.
    pub(crate) fn base_url_for(&self, host: Option<&str>) -> String {
        // Parsing leaves nothing in it that HTML could misread.
        let asked = host.and_then(|host| Url::parse(&format!("http://{host}")).ok());
        match asked.filter(|_| self.settings.public_url.is_none()) {
            Some(url) => url[Position::BeforeScheme..Position::BeforePath].to_owned(),
            None => self.settings.base_url(self.addresses.http),
        }
    }

    /// Stores what has happened outside of this server, and must not happen again. If the disk is
    /// full, waits until there is room, or the server stops.
    pub(crate) async fn record(
        &self,
        write: impl Fn(&mut Tx<'_>) -> Result<()> + Clone + Send + 'static,
    ) -> Result<()> {
        loop {
            let error = match self.store.write_relaxed(write.clone()).await {
                Err(error)
                    if matches!(error.code(), Code::StorageFull | Code::Unavailable)
                        && !self.stop.is_requested() =>
                {
                    error
                }
                recorded => return recorded,
            };
            tracing::warn!("an outcome waits for the database");
            self.engine.tell(Command::FailAdvances(error));
            tokio::select! {
                () = tokio::time::sleep(RECORD_PAUSE) => {}
                () = self.stop.requested() => {}
            }
        }
    }
}

const RECORD_PAUSE: Duration = Duration::from_millis(200);
