//! The handlers of the control interface under `/_sandbox/`: what tests need beyond the documented
//! services (`docs/control-interface.md`). `control/` declares its requests.

mod clock;
mod contacts;
mod deliveries;
pub(crate) mod dns;
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
mod rows;
pub(crate) mod seed;
mod templates;

use crate::api::framework::route::Routes;
use crate::control as declared;
use crate::control::faults::Fault;
use crate::control::keys::Key;
use crate::control::messages::MessageSummary;
use crate::control::templates::Template;
use crate::control::webhooks::Webhook;
use crate::model::error::Code;
use crate::store::audiences::Audience;
use crate::store::domains::Domain;

/// Adds the routes of the control interface: each request with its handler.
pub(crate) fn routes(r: &mut Routes) {
    r.tag("Sandbox server");
    r.control(declared::server::HEALTH, health::get);
    r.control(declared::server::SEED, seed::export::get);
    r.control(declared::server::LEASE, lease::get);
    r.control(declared::server::READY, health::ready);
    r.control(declared::server::RESET, reset::reset);
    r.control(declared::clock::CLOCK, clock::get);
    r.control(declared::clock::CHANGE, clock::set);
    r.control(declared::clock::SETTLE, clock::settle);
    r.control(declared::clock::DUE, clock::due);
    r.control(declared::clock::RUN, clock::run);

    r.tag("Sandbox organizations");
    r.control(declared::organizations::CREATE, organizations::create)
        .errors = &[Code::Conflict];
    r.control(declared::organizations::LIST, organizations::list);

    r.tag("Sandbox keys");
    r.control(declared::keys::CREATE, keys::create);
    r.control(declared::keys::LIST, rows::list::<Key>);
    r.control(declared::keys::REVOKE, keys::revoke);

    r.tag("Sandbox templates");
    r.control(declared::templates::LIST, templates::list);
    r.control(declared::templates::PUT_TEMPLATE, templates::put);
    r.control(declared::templates::TEMPLATE, rows::get::<Template>);
    r.control(declared::templates::REMOVE, rows::delete::<Template>);
    r.control(declared::templates::RENDER, templates::render);

    r.tag("Sandbox domains and audiences");
    r.control(declared::domains::DOMAINS, |call| {
        rows::page(call, |row: &Domain| &row.id)
    });
    r.control(declared::domains::AUDIENCES, |call| {
        rows::page(call, |row: &Audience| &row.id)
    });
    r.control(declared::domains::CONTACTS, contacts::list);

    r.tag("Sandbox DNS");
    r.control(declared::domains::PUBLISH, dns::publish);
    r.control(declared::domains::WITHDRAW, dns::withdraw);
    r.control(declared::domains::WITHDRAW_RECORD, dns::withdraw);

    r.tag("Sandbox messages");
    r.control(declared::messages::LIST, messages::list);
    r.control(declared::messages::COUNT, messages::count);
    r.control(declared::messages::WAIT, messages::wait);
    r.control(declared::messages::MESSAGE, messages::view::get);
    r.control(declared::messages::DELETE_ALL, messages::delete_all);
    r.control(
        declared::messages::DELETE_ONE,
        rows::delete::<MessageSummary>,
    );
    r.control(declared::messages::RAW, messages::view::raw);
    r.control(declared::messages::HTML, messages::view::html);
    r.control(declared::messages::LINKS, messages::view::links);
    r.control(declared::messages::ATTACHMENT, messages::view::attachment);
    r.control(declared::messages::RELEASE, messages::view::release)
        .errors = &[Code::Conflict];

    r.tag("Sandbox emails");
    r.control(declared::emails::LIST, emails::list);
    r.control(declared::emails::STORY, emails::story);
    r.control(declared::emails::SEND, emails::send_now).errors = &[Code::Conflict];
    r.control(declared::emails::EVENT, emails::simulate);

    r.tag("Sandbox inbound");
    r.control(declared::inbound::RECEIVE, inbound::receive);

    r.tag("Sandbox extractions");
    r.control(declared::extractions::SIMULATE, extractions::simulate);

    r.tag("Sandbox requests");
    r.control(declared::requests::LIST, requests::list);
    r.control(declared::requests::REQUEST, requests::get);

    r.tag("Sandbox events");
    r.control(declared::notifications::STREAM, notifications::stream);
    r.control(declared::notifications::WAIT, notifications::wait);

    r.tag("Sandbox webhooks");
    r.control(declared::webhooks::LIST, rows::list::<Webhook>);

    r.tag("Sandbox deliveries");
    r.control(declared::deliveries::LIST, deliveries::list);
    r.control(declared::deliveries::DELIVERY, deliveries::get);
    r.control(declared::deliveries::REPLAY, deliveries::replay);

    r.tag("Sandbox faults");
    r.control(declared::faults::LIST, rows::list::<Fault>);
    r.control(declared::faults::ADD, faults::add).errors = &[Code::Conflict];
    r.control(declared::faults::CLEAR, faults::clear);
    r.control(declared::faults::FAULT, rows::get::<Fault>);
    r.control(declared::faults::REMOVE, rows::delete::<Fault>);
}
