//! Every route of the services and of the control interface: its handler, and what the
//! handler's types do not say about it. The router and the OpenAPI description follow from
//! this list.

mod dispatch;
mod recording;

use std::sync::LazyLock;

use svc_sdk::Operation as O;

use crate::api::control;
use crate::api::email::pages::Page;
use crate::api::email::{audiences, batch, contacts, domains, emails, webhooks};
use crate::api::extraction::{me, webhooks as endpoints};
use crate::api::framework::route::{ID, Route, Routes};
use crate::api::webhooks::delete as delete_webhook;
use crate::model::error::Code;

pub(crate) use dispatch::router;

pub(crate) static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let mut routes = Routes::default();
    services(&mut routes);
    control::routes(&mut routes);
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
