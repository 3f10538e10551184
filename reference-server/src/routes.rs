//! Every route of the services and of the control interface: its handler, and what the
//! handler's types do not say about it. The router and the OpenAPI description follow from
//! this list.

mod dispatch;

use std::sync::LazyLock;

use http::Method;
use svc_sdk::Operation as O;

use crate::api::control::{
    clock, deliveries, dns, events, extractions, faults, health, inbound, keys, lease, messages,
    metrics, organizations, reset, templates,
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
    const GET: Method = Method::GET;
    const POST: Method = Method::POST;
    const PUT: Method = Method::PUT;
    const DELETE: Method = Method::DELETE;

    r.tag("Sandbox server");
    r.control(GET, "/_sandbox/health", health::get)
        .doc("Get the status, the time and the addresses of the server", "The server is running.");
    r.control(GET, "/_sandbox/lease", lease::get)
        .doc(
            "Keep an embedded server running while this response is open",
            "A line feed every second, without end.",
        )
        .produces("text/plain");
    r.control(GET, "/metrics", metrics::get)
        .doc("Get metrics in the Prometheus text format", "The metrics.")
        .produces("text/plain");
    r.control(GET, "/readyz", metrics::ready)
        .doc("Check whether the server is ready", "The server is ready.");
    r.control(GET, "/_sandbox/clock", clock::get).doc("Get the clock", "The clock.");
    r.control(POST, "/_sandbox/clock", clock::set)
        .doc("Freeze, advance or resume the clock", "The clock, after all due work is done.");
    r.of_organization(POST, "/_sandbox/reset", reset::reset).doc(
        "Delete the data of an organization, or of the whole server if none is given",
        "The data is deleted, and the seed data created again.",
    );

    r.tag("Sandbox organizations and keys");
    r.control(POST, "/_sandbox/organizations", organizations::create)
        .doc(
            "Create an organization with keys that have all scopes",
            "The organization and its keys.",
        )
        .errors(&[Code::Conflict]);
    r.control(GET, "/_sandbox/organizations", organizations::list)
        .doc("List the organizations", "All organizations, oldest first.");
    r.of_organization(POST, "/_sandbox/keys", keys::create)
        .doc("Create a key", "The key with its secret, which no other response contains.")
        .errors(&[Code::Conflict])
        .links(ID, "/_sandbox/keys/{");
    r.of_organization(GET, "/_sandbox/keys", keys::list)
        .doc("List the keys", "All keys, without their secrets.");
    r.of_organization(DELETE, "/_sandbox/keys/{id}", keys::delete)
        .doc("Revoke a key", "The key is revoked with immediate effect.");

    r.tag("Sandbox templates");
    r.of_organization(PUT, "/_sandbox/templates/{id}", templates::put)
        .doc("Create or replace a template", "The template.")
        .links("$request.path.id", "/_sandbox/templates/{");
    r.of_organization(GET, "/_sandbox/templates/{id}", templates::get)
        .doc("Get a template", "The template.");
    r.of_organization(DELETE, "/_sandbox/templates/{id}", templates::delete)
        .doc("Delete a template", "The template is deleted.");

    r.tag("Sandbox DNS");
    r.of_organization(POST, "/_sandbox/dns/{domain}/publish", dns::publish).doc(
        "Publish the DNS records of a sending domain in the built-in zone",
        "The published records.",
    );
    r.of_organization(DELETE, "/_sandbox/dns/{domain}", dns::withdraw)
        .doc("Withdraw all DNS records of a domain", "The records are withdrawn.");
    r.of_organization(DELETE, "/_sandbox/dns/{domain}/{record}", dns::withdraw)
        .doc("Withdraw one DNS record of a domain", "The record is withdrawn.");

    r.tag("Sandbox messages");
    r.of_organization(GET, "/_sandbox/messages", messages::list)
        .doc("List delivered and received messages", "Messages, newest first.")
        .query(parameters::messages);
    r.of_organization(GET, "/_sandbox/messages/wait", messages::wait)
        .doc("Wait for a message", "The newest matching message, or the first one to arrive.")
        .query(parameters::waiting)
        .links(ID, "/_sandbox/messages/{");
    r.of_organization(GET, "/_sandbox/messages/{id}", messages::get)
        .doc("Get a message", "The message with its content.");
    r.of_organization(GET, "/_sandbox/messages/{id}/raw", messages::raw)
        .doc("Get the source of a message", "The message in RFC 5322 format.")
        .produces("message/rfc822");
    r.of_organization(GET, "/_sandbox/messages/{id}/html", messages::html)
        .doc(
            "Get the HTML of a message",
            "The HTML part, with scripts disabled by a content security policy.",
        )
        .produces("text/html");
    r.of_organization(GET, "/_sandbox/messages/{id}/links", messages::links).doc(
        "Get the links and the one-time codes of a message",
        "The links in order, and the codes.",
    );

    r.tag("Sandbox events");
    r.of_organization(POST, "/_sandbox/emails/{id}/events", events::create)
        .doc("Simulate an event of an email", "The updated email.");
    r.of_organization(POST, "/_sandbox/inbound", inbound::create)
        .doc(
            "Receive a message as if it had arrived over SMTP",
            "One message for each local recipient.",
        )
        .query(parameters::inbound)
        .also_accepts("message/rfc822")
        .links("$response.body#/messages/0/id", "/_sandbox/messages/{");
    r.of_organization(POST, "/_sandbox/extractions", extractions::create)
        .doc("Simulate a completed or failed extraction", "The deliveries are queued.");

    r.tag("Sandbox deliveries");
    r.of_organization(GET, "/_sandbox/deliveries", deliveries::list)
        .doc("List webhook deliveries", "Deliveries with their attempts, newest first.")
        .query(parameters::deliveries);
    r.of_organization(GET, "/_sandbox/deliveries/{id}", deliveries::get)
        .doc("Get a delivery", "The delivery with its body and the responses to its attempts.");
    r.of_organization(POST, "/_sandbox/deliveries/{id}/replay", deliveries::replay)
        .doc(
            "Attempt a delivery again, with the same event ID and the current secret",
            "The attempt is queued.",
        )
        .links(ID, "/_sandbox/deliveries/{");

    r.tag("Sandbox faults");
    r.of_organization(GET, "/_sandbox/faults", faults::list)
        .doc("List the faults", "All faults, with the requests that they affected.");
    r.of_organization(POST, "/_sandbox/faults", faults::create)
        .doc("Add a fault that affects the next matching requests", "The fault.")
        .errors(&[Code::Conflict])
        .links(ID, "/_sandbox/faults/{");
    r.of_organization(DELETE, "/_sandbox/faults", faults::clear)
        .doc("Remove all faults", "The faults are removed.");
    r.of_organization(GET, "/_sandbox/faults/{id}", faults::get)
        .doc("Get a fault", "The fault, with the requests that it affected.");
    r.of_organization(DELETE, "/_sandbox/faults/{id}", faults::delete)
        .doc("Remove a fault", "The fault is removed.");
}
