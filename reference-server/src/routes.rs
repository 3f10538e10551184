//! Every route of the services and of the control interface: its handler, and what the
//! handler's types do not say about it. The router and the OpenAPI description follow from
//! this list.

mod dispatch;
mod recording;

use std::sync::LazyLock;

use svc_sdk::Operation as O;

use crate::api::control::{
    audiences as lists, clock, deliveries, dns, domains as senders, emails as sent, endpoints as e,
    events, extractions, faults, health, inbound, keys, lease, live, messages, metrics,
    organizations, requests, reset, templates,
};
use crate::api::email::pages::Page;
use crate::api::email::{audiences, batch, contacts, domains, emails, webhooks};
use crate::api::extraction::{me, webhooks as endpoints};
use crate::api::framework::route::{ID, Route, Routes};
use crate::api::openapi::parameters;
use crate::api::webhooks::delete as delete_webhook;
use crate::model::error::Code;

pub(crate) use dispatch::router;

pub(crate) static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let mut routes = Routes::default();
    services(&mut routes);
    control(&mut routes);
    routes.into_vec()
});

fn services(r: &mut Routes) {
    r.tag("Organization");
    r.documented(O::Me, me::get).doc(
        "Get the organization and the scope of the API key",
        "The organization and the authentication context.",
    );

    r.tag("Webhook endpoints");
    r.documented(O::ExtractionWebhooksCreate, endpoints::create)
        .doc("Register a webhook endpoint", "The endpoint with its signing secret.")
        .errors(&[Code::Conflict])
        .links(ID, "/v1/webhooks/{");
    r.documented(O::ExtractionWebhooksList, endpoints::list)
        .doc("List the webhook endpoints", "All endpoints, oldest first.");
    r.documented(O::ExtractionWebhooksDelete, delete_webhook).doc(
        "Remove a webhook endpoint",
        "The endpoint is removed, and its pending deliveries are dropped.",
    );

    r.tag("Audiences");
    r.documented(O::AudiencesCreate, audiences::create)
        .doc("Create an audience", "The audience.")
        .errors(&[Code::Conflict])
        .links(ID, "/api/v1/audiences/{");
    r.documented(O::AudiencesList, audiences::list)
        .doc("List the audiences", "All audiences, oldest first.");
    r.documented(O::AudiencesGet, audiences::get).doc("Get an audience", "The audience.");
    r.documented(O::AudiencesDelete, audiences::delete)
        .doc("Delete an audience", "The audience and its contacts are deleted.");

    r.tag("Contacts");
    r.documented(O::ContactsCreate, contacts::create)
        .doc("Add a contact to an audience", "The contact.")
        .errors(&[Code::Conflict])
        .links(ID, "/api/v1/contacts/{");
    r.documented(O::ContactsList, contacts::list)
        .doc(
            "List the contacts of an audience",
            "A page of contacts, oldest first; empty after the last page.",
        )
        .query(Page::parameters);
    r.documented(O::ContactsUpdate, contacts::update)
        .doc("Update a contact", "The updated contact.");
    r.documented(O::ContactsDelete, contacts::delete)
        .doc("Delete a contact", "The contact is deleted.");

    r.tag("Domains");
    r.documented(O::DomainsList, domains::list)
        .doc("List the sending domains", "All domains, oldest first.");
    r.documented(O::DomainsCreate, domains::create)
        .doc("Add a sending domain", "The domain with the DNS records to publish.")
        .errors(&[Code::Conflict])
        .links(ID, "/api/v1/domains/{");
    r.documented(O::DomainsVerify, domains::verify)
        .doc("Verify the DNS records of a domain", "The domain with the result of each check.");
    r.documented(O::DomainsDelete, domains::delete)
        .doc("Delete a domain", "The domain and its mailboxes are deleted.");

    r.tag("Emails");
    r.documented(O::EmailsSend, emails::send)
        .doc("Send an email", "The accepted email.")
        .errors(&[Code::DomainNotVerified])
        .links(ID, "/api/v1/emails/{");
    r.documented(O::EmailsSendBatch, batch::send)
        .doc("Send up to 100 emails", "The result of each email.");
    r.documented(O::EmailsGet, emails::get)
        .doc("Get an email with its status", "The email with the status of each recipient.");
    r.documented(O::EmailsCancel, emails::cancel)
        .doc("Cancel a scheduled email", "The cancelled email.")
        .errors(&[Code::NotCancellable]);

    r.tag("Webhooks");
    r.documented(O::WebhooksCreate, webhooks::create)
        .doc("Create a webhook", "The webhook with its signing secret.")
        .errors(&[Code::Conflict])
        .links(ID, "/api/v1/webhooks/{");
    r.documented(O::WebhooksList, webhooks::list)
        .doc("List the webhooks", "All webhooks, oldest first.");
    r.documented(O::WebhooksUpdate, webhooks::update)
        .doc("Update a webhook", "The updated webhook.");
    r.documented(O::WebhooksDelete, delete_webhook)
        .doc("Delete a webhook", "The webhook is deleted, and its pending deliveries are dropped.");
    r.documented(O::WebhooksTest, webhooks::test)
        .doc(
            "Send a test event to a webhook",
            "The status that the endpoint returned, or the error.",
        )
        .errors(&[Code::Conflict]);
}

fn control(r: &mut Routes) {
    r.tag("Sandbox server");
    r.control(e::HEALTH, health::get)
        .doc("Get the status, the time and the addresses of the server", "The server is running.");
    r.control(e::LEASE, lease::get)
        .doc(
            "Keep an embedded server running while this response is open",
            "A line feed every second, without end.",
        )
        .produces("text/plain");
    r.control(e::METRICS, metrics::get)
        .doc("Get metrics in the Prometheus text format", "The metrics.")
        .produces("text/plain");
    r.control(e::READY, metrics::ready)
        .doc("Check whether the server is ready", "The server is ready.");
    r.control(e::CLOCK, clock::get).doc("Get the clock", "The clock.");
    r.control(e::CLOCK_CHANGE, clock::set)
        .doc("Freeze, advance or resume the clock", "The clock, after all due work is done.");
    r.control(e::RESET, reset::reset).doc(
        "Delete the data of an organization, or of the whole server if none is given",
        "The data is deleted, and the seed data created again.",
    );

    r.tag("Sandbox organizations and keys");
    r.control(e::ORGANIZATIONS_CREATE, organizations::create)
        .doc(
            "Create an organization with keys that have all scopes",
            "The organization and its keys.",
        )
        .errors(&[Code::Conflict]);
    r.control(e::ORGANIZATIONS, organizations::list)
        .doc("List the organizations", "All organizations, oldest first.");
    r.control(e::KEYS_CREATE, keys::create)
        .doc("Create a key", "The key with its secret, which no other response contains.")
        .errors(&[Code::Conflict])
        .links(ID, "/_sandbox/keys/{");
    r.control(e::KEYS, keys::list).doc("List the keys", "All keys, without their secrets.");
    r.control(e::KEYS_DELETE, keys::delete)
        .doc("Revoke a key", "The key is revoked with immediate effect.");

    r.tag("Sandbox templates");
    r.control(e::TEMPLATES, templates::list)
        .doc("List the templates", "Templates without their content, by ID.")
        .query(parameters::templates);
    r.control(e::TEMPLATES_PUT, templates::put)
        .doc("Create or replace a template", "The template.")
        .links("$request.path.id", "/_sandbox/templates/{");
    r.control(e::TEMPLATES_GET, templates::get).doc("Get a template", "The template.");
    r.control(e::TEMPLATES_DELETE, templates::delete)
        .doc("Delete a template", "The template is deleted.");
    r.control(e::TEMPLATES_RENDER, templates::render)
        .doc(
            "Render a template without sending an email",
            "The parts of the template with the values of the variables.",
        )
        .changes_nothing();

    r.tag("Sandbox domains and audiences");
    r.control(e::DOMAINS, senders::list)
        .doc("List the sending domains", "Domains, oldest first.")
        .query(parameters::domains);
    r.control(e::AUDIENCES, lists::list)
        .doc("List the audiences", "Audiences, oldest first.")
        .query(parameters::audiences)
        .links("$response.body#/data/0/id", "/_sandbox/audiences/{");
    r.control(e::AUDIENCES_CONTACTS, lists::contacts)
        .doc("List the contacts of an audience", "Contacts, oldest first.")
        .query(parameters::contacts);

    r.tag("Sandbox DNS");
    r.control(e::DNS_PUBLISH, dns::publish).doc(
        "Publish the DNS records of a sending domain in the built-in zone",
        "The published records.",
    );
    r.control(e::DNS_WITHDRAW, dns::withdraw)
        .doc("Withdraw all DNS records of a domain", "The records are withdrawn.");
    r.control(e::DNS_WITHDRAW_RECORD, dns::withdraw)
        .doc("Withdraw one DNS record of a domain", "The record is withdrawn.");

    r.tag("Sandbox messages");
    r.control(e::MESSAGES, messages::list)
        .doc("List delivered and received messages", "Messages, newest first.")
        .query(parameters::messages);
    r.control(e::MESSAGES_WAIT, messages::wait)
        .doc("Wait for a message", "The newest matching message, or the first one to arrive.")
        .query(parameters::waiting)
        .links(ID, "/_sandbox/messages/{");
    r.control(e::MESSAGES_GET, messages::get).doc("Get a message", "The message with its content.");
    r.control(e::MESSAGES_RAW, messages::raw)
        .doc("Get the source of a message", "The message in RFC 5322 format.")
        .produces("message/rfc822");
    r.control(e::MESSAGES_HTML, messages::html)
        .doc(
            "Get the HTML of a message",
            "The HTML part, with scripts disabled by a content security policy.",
        )
        .produces("text/html");
    r.control(e::MESSAGES_LINKS, messages::links).doc(
        "Get the links and the one-time codes of a message",
        "The links in order, and the codes.",
    );

    r.control(e::MESSAGES_ATTACHMENT, messages::attachment)
        .doc(
            "Get an attachment of a message; the first is 1",
            "The bytes, with the content type that the message declares.",
        )
        .produces("*/*");

    r.tag("Sandbox emails");
    r.control(e::EMAILS, sent::list)
        .doc("List the emails in every status", "Emails, newest first.")
        .query(parameters::emails)
        .links("$response.body#/data/0/id", "/_sandbox/emails/{");
    r.control(e::EMAILS_STORY, sent::story).doc(
        "Get what happened to an email",
        "Its request, its changes, its messages, and its deliveries with their attempts.",
    );

    r.tag("Sandbox requests");
    r.control(e::REQUESTS, requests::list)
        .doc(
            "List the newest requests to the documented operations",
            "Requests with the beginning of their bodies, newest first.",
        )
        .query(parameters::requests)
        .links("$response.body#/data/0/id", "/_sandbox/requests/{");
    r.control(e::REQUESTS_GET, requests::get).doc("Get a request", "The request.");

    r.tag("Sandbox events");
    r.control(e::EVENTS, live::stream)
        .doc(
            "Watch what changes, as server-sent events",
            "The events of the organization, without end; each is one of `LiveEvent`.",
        )
        .query(parameters::stream)
        .produces("text/event-stream");
    r.control(e::EVENTS_WAIT, live::wait)
        .doc(
            "Wait for what changes",
            "The events after a position, at once or when there is one; none after the timeout.",
        )
        .query(parameters::changes);
    r.control(e::EMAILS_EVENT, events::create)
        .doc("Simulate an event of an email", "The updated email.");
    r.control(e::INBOUND, inbound::create)
        .doc(
            "Receive a message as if it had arrived over SMTP",
            "One message for each local recipient.",
        )
        .query(parameters::inbound)
        .also_accepts("message/rfc822")
        .links("$response.body#/messages/0/id", "/_sandbox/messages/{");
    r.control(e::EXTRACTIONS, extractions::create)
        .doc("Simulate a completed or failed extraction", "The deliveries are queued.");

    r.tag("Sandbox deliveries");
    r.control(e::DELIVERIES, deliveries::list)
        .doc("List webhook deliveries", "Deliveries with their attempts, newest first.")
        .query(parameters::deliveries);
    r.control(e::DELIVERIES_GET, deliveries::get)
        .doc("Get a delivery", "The delivery with its body and the responses to its attempts.");
    r.control(e::DELIVERIES_REPLAY, deliveries::replay)
        .doc(
            "Attempt a delivery again, with the same event ID and the current secret",
            "The attempt is queued.",
        )
        .links(ID, "/_sandbox/deliveries/{");

    r.tag("Sandbox faults");
    r.control(e::FAULTS, faults::list)
        .doc("List the faults", "All faults, with the requests that they affected.");
    r.control(e::FAULTS_CREATE, faults::create)
        .doc("Add a fault that affects the next matching requests", "The fault.")
        .errors(&[Code::Conflict])
        .links(ID, "/_sandbox/faults/{");
    r.control(e::FAULTS_CLEAR, faults::clear).doc("Remove all faults", "The faults are removed.");
    r.control(e::FAULTS_GET, faults::get)
        .doc("Get a fault", "The fault, with the requests that it affected.");
    r.control(e::FAULTS_DELETE, faults::delete).doc("Remove a fault", "The fault is removed.");
}
