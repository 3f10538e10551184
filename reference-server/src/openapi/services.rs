//! The operations of both services: what each reads and answers. What follows
//! from the operation table is in `row`.

use http::StatusCode;
use svc_sdk::Operation;

use super::row::Row;
use crate::email::{audiences, batch, contacts, domains, emails, pages, request, stored, webhooks};
use crate::error::Code;
use crate::extraction;
use crate::switches::ContactPages;

const AUDIENCES: &str = "Audiences";
const CONTACTS: &str = "Contacts";
const DOMAINS: &str = "Domains";
const EMAILS: &str = "Emails";
const WEBHOOKS: &str = "Webhooks";
const ORGANIZATION: &str = "Organization";
const ENDPOINTS: &str = "Webhook endpoints";

pub(super) fn describe<'d, 'a>(operation: Operation, row: Row<'d, 'a>) -> Row<'d, 'a> {
    match operation {
        Operation::Me => row
            .summary(ORGANIZATION, "Show the organization and the scope of the key")
            .json::<extraction::me::Me>(StatusCode::OK, "The organization and the key."),
        Operation::ExtractionWebhooksCreate => row
            .summary(ENDPOINTS, "Register a webhook endpoint")
            .body::<extraction::webhooks::New>()
            .once()
            .created::<extraction::webhooks::View<'_>>("The endpoint, with its secret.")
            .leads_to(&[Operation::ExtractionWebhooksDelete]),
        Operation::ExtractionWebhooksList => {
            row.summary(ENDPOINTS, "List the webhook endpoints")
                .list::<extraction::webhooks::View<'_>>("Every endpoint, the newest last.")
        }
        Operation::ExtractionWebhooksDelete => row
            .summary(ENDPOINTS, "Remove a webhook endpoint")
            .no_content("It is removed; what was to be delivered to it is dropped."),

        Operation::AudiencesCreate => row
            .summary(AUDIENCES, "Create an audience")
            .body::<audiences::New>()
            .once()
            .created::<audiences::Audience>("The new audience.")
            .leads_to(&[
                Operation::AudiencesGet,
                Operation::AudiencesDelete,
                Operation::ContactsCreate,
                Operation::ContactsList,
            ]),
        Operation::AudiencesList => row
            .summary(AUDIENCES, "List the audiences")
            .list::<audiences::Audience>("Every audience, the newest last."),
        Operation::AudiencesGet => row
            .summary(AUDIENCES, "Show an audience")
            .resource::<audiences::Audience>("The audience."),
        Operation::AudiencesDelete => row
            .summary(AUDIENCES, "Delete an audience")
            .no_content("It is deleted, and its contacts with it."),

        Operation::ContactsCreate => row
            .summary(CONTACTS, "Add a contact to an audience")
            .body::<contacts::New>()
            .once()
            .errors(&[Code::Conflict])
            .created::<contacts::Contact>("The new contact.")
            .leads_to(&[Operation::ContactsUpdate, Operation::ContactsDelete]),
        Operation::ContactsList => contact_pages(row),
        Operation::ContactsUpdate => row
            .summary(CONTACTS, "Change a contact")
            .body::<contacts::Update>()
            .resource::<contacts::Contact>("The contact as it is now."),
        Operation::ContactsDelete => {
            row.summary(CONTACTS, "Delete a contact").no_content("It is deleted.")
        }

        Operation::DomainsList => row
            .summary(DOMAINS, "List the sending domains")
            .list::<domains::View<'_>>("Every domain, the newest last."),
        Operation::DomainsCreate => row
            .summary(DOMAINS, "Add a sending domain")
            .body::<domains::New>()
            .once()
            .errors(&[Code::Conflict])
            .created::<domains::View<'_>>("The domain, with the DNS records to publish.")
            .leads_to(&[Operation::DomainsVerify, Operation::DomainsDelete]),
        Operation::DomainsVerify => row
            .summary(DOMAINS, "Look for the domain's DNS records")
            .ignored_body()
            .resource::<domains::View<'_>>("The domain, with what each check found."),
        Operation::DomainsDelete => row
            .summary(DOMAINS, "Delete a domain")
            .json::<domains::Deleted>(StatusCode::OK, "It is deleted, its mailboxes with it."),

        Operation::EmailsSend => row
            .summary(EMAILS, "Send an email")
            .body::<request::NewEmail>()
            .once()
            .errors(&[Code::DomainNotVerified])
            .created_as::<stored::View<'_>>(StatusCode::ACCEPTED, "The accepted email.")
            .leads_to(&[Operation::EmailsGet, Operation::EmailsCancel]),
        Operation::EmailsSendBatch => row
            .summary(EMAILS, "Send up to 100 emails")
            .body::<batch::New>()
            .once()
            .json::<batch::Results>(StatusCode::OK, "What became of each email."),
        Operation::EmailsGet => row
            .summary(EMAILS, "Show an email with its status")
            .resource::<emails::Full<'_>>("The email, with the course of each recipient."),
        Operation::EmailsCancel => row
            .summary(EMAILS, "Cancel a scheduled email")
            .errors(&[Code::NotCancellable])
            .resource::<stored::View<'_>>("The cancelled email."),

        Operation::WebhooksCreate => row
            .summary(WEBHOOKS, "Create a webhook")
            .body::<webhooks::New>()
            .once()
            .created::<webhooks::View<'_>>("The webhook, with its signing secret.")
            .leads_to(&[
                Operation::WebhooksUpdate,
                Operation::WebhooksDelete,
                Operation::WebhooksTest,
            ]),
        Operation::WebhooksList => row
            .summary(WEBHOOKS, "List the webhooks")
            .list::<webhooks::View<'_>>("Every webhook, the newest last."),
        Operation::WebhooksUpdate => row
            .summary(WEBHOOKS, "Change a webhook")
            .body::<webhooks::Update>()
            .resource::<webhooks::View<'_>>("The webhook as it is now."),
        Operation::WebhooksDelete => row
            .summary(WEBHOOKS, "Delete a webhook")
            .no_content("It is deleted; what was to be delivered to it is dropped."),
        Operation::WebhooksTest => {
            let schema = webhooks::test_schema(row.switches());
            row.summary(WEBHOOKS, "Send a test event to a webhook").ignored_body().once().answer(
                StatusCode::OK,
                "What the endpoint answered, or why it did not.",
                &schema,
            )
        }
    }
}

/// Switch `docs/undocumented/email-service.md#contact-pages` changes what a page is.
fn contact_pages<'d, 'a>(row: Row<'d, 'a>) -> Row<'d, 'a> {
    let parameters = pages::Page::parameters(row.switches());
    let array = row.switches().contact_pages == ContactPages::Array;
    let row = row
        .summary(CONTACTS, "List the contacts of an audience")
        .parameters(parameters)
        .errors(&[Code::ValidationFailed]);
    let about = "A page of contacts, the oldest first; past the end an empty one.";
    if array {
        row.json::<Vec<contacts::Contact>>(StatusCode::OK, about)
    } else {
        row.json::<pages::Paged<'_, contacts::Contact>>(StatusCode::OK, about)
    }
}
