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
    r.documented(
        O::Me,
        "Get the organization and the scope of the API key",
        me::get,
    );

    r.tag("Webhook endpoints");
    r.documented(
        O::ExtractionWebhooksCreate,
        "Register a webhook endpoint",
        endpoints::create,
    );
    r.documented(
        O::ExtractionWebhooksList,
        "List the webhook endpoints",
        endpoints::list,
    );
    r.documented(
        O::ExtractionWebhooksDelete,
        "Remove a webhook endpoint",
        delete_webhook,
    );

    r.tag("Audiences");
    r.documented(O::AudiencesCreate, "Create an audience", audiences::create);
    r.documented(O::AudiencesList, "List the audiences", audiences::list);
    r.documented(O::AudiencesGet, "Get an audience", audiences::get);
    r.documented(O::AudiencesDelete, "Delete an audience", audiences::delete);

    r.tag("Contacts");
    r.documented(
        O::ContactsCreate,
        "Add a contact to an audience",
        contacts::create,
    )
    .errors = &[Code::Conflict];
    let list = r.documented(
        O::ContactsList,
        "List the contacts of an audience",
        contacts::list,
    );
    list.query = Page::parameters;
    r.documented(O::ContactsUpdate, "Update a contact", contacts::update);
    r.documented(O::ContactsDelete, "Delete a contact", contacts::delete);

    r.tag("Domains");
    r.documented(O::DomainsList, "List the sending domains", domains::list);
    r.documented(O::DomainsCreate, "Add a sending domain", domains::create)
        .errors = &[Code::Conflict];
    r.documented(
        O::DomainsVerify,
        "Verify the DNS records of a domain",
        domains::verify,
    );
    r.documented(O::DomainsDelete, "Delete a domain", domains::delete);

    r.tag("Emails");
    r.documented(O::EmailsSend, "Send an email", emails::send)
        .errors = &[Code::DomainNotVerified];
    r.documented(O::EmailsSendBatch, "Send up to 100 emails", batch::send);
    r.documented(O::EmailsGet, "Get an email with its status", emails::get);
    r.documented(O::EmailsCancel, "Cancel a scheduled email", emails::cancel)
        .errors = &[Code::NotCancellable];

    r.tag("Webhooks");
    r.documented(O::WebhooksCreate, "Create a webhook", webhooks::create);
    r.documented(O::WebhooksList, "List the webhooks", webhooks::list);
    r.documented(O::WebhooksUpdate, "Update a webhook", webhooks::update);
    r.documented(O::WebhooksDelete, "Delete a webhook", delete_webhook);
    let test = r.documented(
        O::WebhooksTest,
        "Send a test event to a webhook",
        webhooks::test,
    );
    test.reply = webhooks::describe_test;
    test.errors = &[Code::Conflict, Code::PayloadTooLarge];
}
