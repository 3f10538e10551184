//! Deliveries: what is built, signed, attempted and tried again. Mail goes to the relay or
//! into a mailbox of this server, events go to webhooks.

pub(crate) mod authentication;
pub(crate) mod events;
pub(crate) mod inbound;
pub(crate) mod local;
pub(crate) mod payload;
pub(crate) mod post;
pub(crate) mod relaying;
mod shared_bodies;
mod sign;
pub(crate) mod source;
mod unrecorded;
pub(crate) mod webhook_worker;

use std::sync::Arc;

use shared_bodies::SharedBodies;
pub(crate) use unrecorded::Unrecorded;

use crate::mail::dns::Resolver;
use crate::mail::relay::Relay;
use crate::model::clock::Clock;
use crate::model::metrics::Metrics;
use crate::model::stop::Stop;
use crate::net::outbound::Outbound;
use crate::store::Store;
use crate::store::domains::VerifiedDomains;
use crate::store::webhooks::Webhooks;

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
    pub(crate) bodies: SharedBodies,
    pub(crate) unrecorded: Unrecorded,
    /// Whether a message is sent again if the relay did not confirm it.
    pub(crate) relay_again: bool,
    /// The SMTP server for outgoing mail, if one is configured.
    pub(crate) relay: Option<Relay>,
    /// Whether clients beyond this machine can reach the server.
    pub(crate) is_exposed: bool,
}
