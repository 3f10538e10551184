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
use crate::api::framework::route::{Route, Routes};
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
    r.documented(O::Me, me::get).doc("Get the organization and the scope of the API key");

    r.tag("Webhook endpoints");
    r.documented(O::ExtractionWebhooksCreate, endpoints::create).doc("Register a webhook endpoint");
    r.documented(O::ExtractionWebhooksList, endpoints::list).doc("List the webhook endpoints");
    r.documented(O::ExtractionWebhooksDelete, delete_webhook).doc("Remove a webhook endpoint");

    r.tag("Audiences");
    r.documented(O::AudiencesCreate, audiences::create).doc("Create an audience");
    r.documented(O::AudiencesList, audiences::list).doc("List the audiences");
    r.documented(O::AudiencesGet, audiences::get).doc("Get an audience");
    r.documented(O::AudiencesDelete, audiences::delete).doc("Delete an audience");

    r.tag("Contacts");
    r.documented(O::ContactsCreate, contacts::create)
        .doc("Add a contact to an audience")
        .errors(&[Code::Conflict]);
    r.documented(O::ContactsList, contacts::list)
        .doc("List the contacts of an audience")
        .query(Page::parameters);
    r.documented(O::ContactsUpdate, contacts::update).doc("Update a contact");
    r.documented(O::ContactsDelete, contacts::delete).doc("Delete a contact");

    r.tag("Domains");
    r.documented(O::DomainsList, domains::list).doc("List the sending domains");
    r.documented(O::DomainsCreate, domains::create)
        .doc("Add a sending domain")
        .errors(&[Code::Conflict]);
    r.documented(O::DomainsVerify, domains::verify)
        .doc("Verify the DNS records of a domain")
        .errors(&[Code::PayloadTooLarge]);
    r.documented(O::DomainsDelete, domains::delete).doc("Delete a domain");

    r.tag("Emails");
    r.documented(O::EmailsSend, emails::send)
        .doc("Send an email")
        .errors(&[Code::DomainNotVerified]);
    r.documented(O::EmailsSendBatch, batch::send).doc("Send up to 100 emails");
    r.documented(O::EmailsGet, emails::get).doc("Get an email with its status");
    r.documented(O::EmailsCancel, emails::cancel)
        .doc("Cancel a scheduled email")
        .errors(&[Code::NotCancellable]);

    r.tag("Webhooks");
    r.documented(O::WebhooksCreate, webhooks::create).doc("Create a webhook");
    r.documented(O::WebhooksList, webhooks::list).doc("List the webhooks");
    r.documented(O::WebhooksUpdate, webhooks::update).doc("Update a webhook");
    r.documented(O::WebhooksDelete, delete_webhook).doc("Delete a webhook");
    r.documented(O::WebhooksTest, webhooks::test)
        .doc("Send a test event to a webhook")
        .errors(&[Code::Conflict, Code::PayloadTooLarge]);
}
