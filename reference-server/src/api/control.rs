//! The handlers of the control interface under `/_sandbox/`: what tests need beyond the documented
//! services (`docs/control-interface.md`). `control/` declares its requests.

mod clock;
mod deliveries;
pub(crate) mod dns;
mod domains;
mod emails;
mod extractions;
mod faults;
pub(crate) mod guard;
mod health;
mod inbound;
mod keys;
mod lease;
mod messages;
mod notifications;
pub(crate) mod organizations;
mod requests;
mod reset;
pub(crate) mod seed;
mod templates;
mod webhooks;

use crate::api::framework::route::Routes;
use crate::control::server;

/// Adds the routes of the control interface.
pub(crate) fn routes(r: &mut Routes) {
    r.tag("Sandbox server");
    r.control(server::HEALTH, health::get);
    r.control(server::SEED, seed::export::get);
    r.control(server::LEASE, lease::get);
    r.control(server::READY, health::ready);
    r.control(server::RESET, reset::reset);
    clock::routes(r);
    organizations::routes(r);
    keys::routes(r);
    templates::routes(r);
    domains::routes(r);
    dns::routes(r);
    messages::routes(r);
    emails::routes(r);
    inbound::routes(r);
    extractions::routes(r);
    requests::routes(r);
    notifications::routes(r);
    webhooks::routes(r);
    deliveries::routes(r);
    faults::routes(r);
}
