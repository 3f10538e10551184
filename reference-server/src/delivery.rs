//! Deliveries: what is built, signed, attempted and tried again. Mail goes to the relay or
//! into a mailbox of this server, events go to webhooks.

pub(crate) mod authentication;
pub(crate) mod emit;
pub(crate) mod events;
pub(crate) mod inbound;
pub(crate) mod local;
pub(crate) mod payload;
pub(crate) mod relaying;
pub(crate) mod source;
pub(crate) mod webhook;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::mail::dns::Resolver;
use crate::mail::relay::Relay;
use crate::model::clock::Clock;
use crate::model::error::{ApiError, Code};
use crate::model::metrics::Metrics;
use crate::model::stop::Stop;
use crate::net::outbound::Outbound;
use crate::store::domains::VerifiedDomains;
use crate::store::webhooks::Webhooks;
use crate::store::{Store, Tx};

/// What deliveries need of the server.
pub(crate) struct Delivery {
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) webhooks: Arc<Webhooks>,
    pub(crate) verified: Arc<VerifiedDomains>,
    pub(crate) resolver: Arc<Resolver>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stop: Arc<Stop>,
    pub(crate) outbound: Outbound,
    /// The memory that the bodies of attempts may take together, in KiB.
    pub(crate) body_memory: Semaphore,
    /// Whether a message is sent again if the relay did not confirm it.
    pub(crate) relay_again: bool,
    /// The SMTP server for outgoing mail, if one is configured.
    pub(crate) relay: Option<Relay>,
    /// Whether clients beyond this machine can reach the server.
    pub(crate) is_exposed: bool,
}

/// The value of [`Delivery::body_memory`].
pub(crate) const BODY_MEMORY: usize = 128 << 10;

impl Delivery {
    /// Stores what has happened outside of this server, and must not happen again. If the disk is
    /// full, waits until there is room, or the server stops.
    pub(crate) async fn record(
        &self,
        write: impl Fn(&mut Tx<'_>) -> Result<(), ApiError> + Clone + Send + 'static,
    ) -> Result<(), ApiError> {
        loop {
            match self.store.write_relaxed(write.clone()).await {
                Err(error)
                    if matches!(error.code(), Code::StorageFull | Code::Unavailable)
                        && !self.stop.is_requested() => {}
                recorded => return recorded,
            }
            tracing::warn!("an outcome waits for the database");
            tokio::select! {
                () = tokio::time::sleep(RECORD_PAUSE) => {}
                () = self.stop.requested() => {}
            }
        }
    }
}

const RECORD_PAUSE: Duration = Duration::from_millis(200);
