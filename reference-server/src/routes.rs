//! Every route of the services and of the control interface: its handler, and what the
//! handler's types do not say about it. The router and the OpenAPI description follow from
//! this list.

mod dispatch;
mod recording;

use std::sync::LazyLock;

use svc_sdk::Operation as O;

use crate::audiences::audience_rows::Audience;
use crate::audiences::{audience_api, audience_wire};
use crate::clock::{clock_api, clock_wire};
use crate::contacts::contact_rows::Contact;
use crate::contacts::{contact_api, contact_wire};
use crate::deliveries::{delivery_api, delivery_wire};
use crate::domains::domain_rows::Domain;
use crate::domains::{domain_api, domain_wire};
use crate::emails::{email_api, email_wire};
use crate::extractions::{extraction_api, extraction_wire};
use crate::faults::fault_api;
use crate::faults::fault_wire::{self, Fault};
use crate::http::route::{Route, Routes};
use crate::http::{Call, rows};
use crate::inbound::{inbound_api, inbound_wire};
use crate::keys::key_api;
use crate::keys::key_wire::{self, Key};
use crate::messages::message_api;
use crate::messages::message_wire::{self, MessageSummary};
use crate::model::Code;
use crate::notifications::{notification_api, notification_wire};
use crate::organizations::{organization_api, organization_wire};
use crate::requests::{request_api, request_wire};
use crate::sandbox::{sandbox_api, sandbox_wire};
use crate::seeds::seed_api;
use crate::templates::template_api;
use crate::templates::template_wire::{self, Template};
use crate::webhooks::webhook_api::{self, delete as delete_webhook};
use crate::webhooks::webhook_wire::{self, Webhook};

pub(crate) use dispatch::router;

pub(crate) static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let mut routes = Routes::default();
    services(&mut routes);
    sandbox(&mut routes);
    routes.into_vec()
});

fn services(r: &mut Routes) {
    r.tag("Organization");
    r.documented(
        O::Me,
        "Get the organization and the scope of the API key",
        organization_api::me,
    );

    r.tag("Webhook endpoints");
    r.documented(
        O::ExtractionWebhooksCreate,
        "Register a webhook endpoint",
        webhook_api::create_endpoint,
    );
    r.documented(
        O::ExtractionWebhooksList,
        "List the webhook endpoints",
        webhook_api::list_endpoints,
    );
    r.documented(
        O::ExtractionWebhooksDelete,
        "Remove a webhook endpoint",
        delete_webhook,
    );

    r.tag("Audiences");
    r.documented(
        O::AudiencesCreate,
        "Create an audience",
        audience_api::create,
    );
    r.documented(
        O::AudiencesList,
        "List the audiences",
        rows::list::<Audience, Call>,
    );
    r.documented(
        O::AudiencesGet,
        "Get an audience",
        rows::get::<Audience, Call>,
    );
    r.documented(
        O::AudiencesDelete,
        "Delete an audience",
        rows::delete::<Audience, Call>,
    );

    r.tag("Contacts");
    r.documented(
        O::ContactsCreate,
        "Add a contact to an audience",
        contact_api::create,
    )
    .errors = &[Code::Conflict];
    let list = r.documented(
        O::ContactsList,
        "List the contacts of an audience",
        contact_api::list,
    );
    list.query = contact_api::describe_page;
    r.documented(O::ContactsUpdate, "Update a contact", contact_api::update);
    r.documented(
        O::ContactsDelete,
        "Delete a contact",
        rows::delete::<Contact, Call>,
    );

    r.tag("Domains");
    r.documented(
        O::DomainsList,
        "List the sending domains",
        rows::list::<Domain, Call>,
    );
    r.documented(O::DomainsCreate, "Add a sending domain", domain_api::create)
        .errors = &[Code::Conflict];
    r.documented(
        O::DomainsVerify,
        "Verify the DNS records of a domain",
        domain_api::verify,
    );
    r.documented(O::DomainsDelete, "Delete a domain", domain_api::delete);

    r.tag("Emails");
    r.documented(O::EmailsSend, "Send an email", email_api::send)
        .errors = &[Code::DomainNotVerified];
    r.documented(
        O::EmailsSendBatch,
        "Send up to 100 emails",
        email_api::send_batch,
    );
    r.documented(O::EmailsGet, "Get an email with its status", email_api::get);
    r.documented(
        O::EmailsCancel,
        "Cancel a scheduled email",
        email_api::cancel,
    )
    .errors = &[Code::NotCancellable];

    r.tag("Webhooks");
    r.documented(O::WebhooksCreate, "Create a webhook", webhook_api::create);
    r.documented(O::WebhooksList, "List the webhooks", webhook_api::list);
    r.documented(O::WebhooksUpdate, "Update a webhook", webhook_api::update);
    r.documented(O::WebhooksDelete, "Delete a webhook", delete_webhook);
    let test = r.documented(
        O::WebhooksTest,
        "Send a test event to a webhook",
        webhook_api::test,
    );
    test.reply = webhook_api::describe_test;
    test.errors = &[Code::Conflict, Code::PayloadTooLarge];
}

/// Adds the routes of the control interface: each request with its handler.
fn sandbox(r: &mut Routes) {
    r.tag("Sandbox server");
    r.control(sandbox_wire::HEALTH, sandbox_api::get);
    r.control(sandbox_wire::SEED, seed_api::get);
    r.control(sandbox_wire::LEASE, sandbox_api::lease);
    r.control(sandbox_wire::READY, sandbox_api::ready);
    r.control(sandbox_wire::RESET, sandbox_api::reset);
    r.control(clock_wire::CLOCK, clock_api::get);
    r.control(clock_wire::CHANGE, clock_api::set);
    r.control(clock_wire::SETTLE, clock_api::settle);
    r.control(clock_wire::DUE, clock_api::due);
    r.control(clock_wire::RUN, clock_api::run);

    r.tag("Sandbox organizations");
    r.control(organization_wire::CREATE, organization_api::create)
        .errors = &[Code::Conflict];
    r.control(organization_wire::LIST, organization_api::list);

    r.tag("Sandbox keys");
    r.control(key_wire::CREATE, key_api::create);
    r.control(key_wire::LIST, rows::list::<Key, _>);
    r.control(key_wire::REVOKE, key_api::revoke);

    r.tag("Sandbox templates");
    r.control(template_wire::LIST, template_api::list);
    r.control(template_wire::PUT_TEMPLATE, template_api::put);
    r.control(template_wire::TEMPLATE, rows::get::<Template, _>);
    r.control(template_wire::REMOVE, rows::delete::<Template, _>);
    r.control(template_wire::RENDER, template_api::render);
    r.control(template_wire::HTML_CHECK, template_api::html_check);

    r.tag("Sandbox domains and audiences");
    r.control(domain_wire::DOMAINS, |call| {
        rows::page(call, |row: &Domain| &row.id)
    });
    r.control(audience_wire::LIST, |call| {
        rows::page(call, |row: &Audience| &row.id)
    });
    r.control(contact_wire::LIST, contact_api::list_all);

    r.tag("Sandbox DNS");
    r.control(domain_wire::PUBLISH, domain_api::publish);
    r.control(domain_wire::WITHDRAW, domain_api::withdraw);
    r.control(domain_wire::WITHDRAW_RECORD, domain_api::withdraw);

    r.tag("Sandbox messages");
    r.control(message_wire::LIST, message_api::list);
    r.control(message_wire::COUNT, message_api::count);
    r.control(message_wire::WAIT, message_api::wait);
    r.control(message_wire::MESSAGE, message_api::get);
    r.control(message_wire::DELETE_ALL, message_api::delete_all);
    r.control(message_wire::DELETE_ONE, rows::delete::<MessageSummary, _>);
    r.control(message_wire::RAW, message_api::raw);
    r.control(message_wire::HTML, message_api::html);
    r.control(message_wire::HTML_CHECK, message_api::html_check);
    r.control(message_wire::LINKS, message_api::links);
    r.control(message_wire::ATTACHMENT, message_api::attachment);
    r.control(message_wire::RELEASE, message_api::release)
        .errors = &[Code::Conflict];

    r.tag("Sandbox emails");
    r.control(email_wire::LIST, email_api::list);
    r.control(email_wire::STORY, email_api::story);
    r.control(email_wire::SEND, email_api::send_now).errors = &[Code::Conflict];
    r.control(email_wire::EVENT, email_api::simulate);

    r.tag("Sandbox inbound");
    r.control(inbound_wire::RECEIVE, inbound_api::receive);

    r.tag("Sandbox extractions");
    r.control(extraction_wire::SIMULATE, extraction_api::simulate);

    r.tag("Sandbox requests");
    r.control(request_wire::LIST, request_api::list);
    r.control(request_wire::REQUEST, request_api::get);

    r.tag("Sandbox events");
    r.control(notification_wire::STREAM, notification_api::stream);
    r.control(notification_wire::WAIT, notification_api::wait);

    r.tag("Sandbox webhooks");
    r.control(webhook_wire::LIST, rows::list::<Webhook, _>);

    r.tag("Sandbox deliveries");
    r.control(delivery_wire::LIST, delivery_api::list);
    r.control(delivery_wire::DELIVERY, delivery_api::get);
    r.control(delivery_wire::REPLAY, delivery_api::replay);

    r.tag("Sandbox faults");
    r.control(fault_wire::LIST, rows::list::<Fault, _>);
    r.control(fault_wire::ADD, fault_api::add).errors = &[Code::Conflict];
    r.control(fault_wire::CLEAR, fault_api::clear);
    r.control(fault_wire::FAULT, rows::get::<Fault, _>);
    r.control(fault_wire::REMOVE, rows::delete::<Fault, _>);
}
