//! The operations of both services: their requests and responses. `operation` adds what
//! follows from the operation table.

use http::StatusCode;
use svc_sdk::Operation;

use super::operation::OperationBuilder;
use crate::api::email::audiences;
use crate::api::email::batch;
use crate::api::email::contacts;
use crate::api::email::domains;
use crate::api::email::emails;
use crate::api::email::pages;
use crate::api::email::request;
use crate::api::email::webhooks;
use crate::api::extraction;
use crate::model::compatibility::ContactPages;
use crate::model::error::Code;
use crate::store::emails as stored;

const AUDIENCES: &str = "Audiences";
const CONTACTS: &str = "Contacts";
const DOMAINS: &str = "Domains";
const EMAILS: &str = "Emails";
const WEBHOOKS: &str = "Webhooks";
const ORGANIZATION: &str = "Organization";
const ENDPOINTS: &str = "Webhook endpoints";

pub(super) fn describe<'d, 'a>(
    operation: Operation,
    builder: OperationBuilder<'d, 'a>,
) -> OperationBuilder<'d, 'a> {
    match operation {
        Operation::Me => builder
            .summary(ORGANIZATION, "Get the organization and the scope of the API key")
            .json::<extraction::me::Me>(
                StatusCode::OK,
                "The organization and the authentication context.",
            ),
        Operation::ExtractionWebhooksCreate => builder
            .summary(ENDPOINTS, "Register a webhook endpoint")
            .body::<extraction::webhooks::New>()
            .errors(&[Code::Conflict])
            .idempotent()
            .created::<extraction::webhooks::View<'_>>("The endpoint with its signing secret.")
            .links_to(&[Operation::ExtractionWebhooksDelete]),
        Operation::ExtractionWebhooksList => builder
            .summary(ENDPOINTS, "List the webhook endpoints")
            .list::<extraction::webhooks::View<'_>>("All endpoints, oldest first."),
        Operation::ExtractionWebhooksDelete => builder
            .summary(ENDPOINTS, "Remove a webhook endpoint")
            .no_content("The endpoint is removed, and its pending deliveries are dropped."),

        Operation::AudiencesCreate => builder
            .summary(AUDIENCES, "Create an audience")
            .body::<audiences::New>()
            .idempotent()
            .created::<audiences::Audience>("The audience.")
            .links_to(&[
                Operation::AudiencesGet,
                Operation::AudiencesDelete,
                Operation::ContactsCreate,
                Operation::ContactsList,
            ]),
        Operation::AudiencesList => builder
            .summary(AUDIENCES, "List the audiences")
            .list::<audiences::Audience>("All audiences, oldest first."),
        Operation::AudiencesGet => builder
            .summary(AUDIENCES, "Get an audience")
            .resource::<audiences::Audience>("The audience."),
        Operation::AudiencesDelete => builder
            .summary(AUDIENCES, "Delete an audience")
            .no_content("The audience and its contacts are deleted."),

        Operation::ContactsCreate => builder
            .summary(CONTACTS, "Add a contact to an audience")
            .body::<contacts::New>()
            .idempotent()
            .errors(&[Code::Conflict])
            .created::<contacts::Contact>("The contact.")
            .links_to(&[Operation::ContactsUpdate, Operation::ContactsDelete]),
        Operation::ContactsList => contact_pages(builder),
        Operation::ContactsUpdate => builder
            .summary(CONTACTS, "Update a contact")
            .body::<contacts::Update>()
            .resource::<contacts::Contact>("The updated contact."),
        Operation::ContactsDelete => {
            builder.summary(CONTACTS, "Delete a contact").no_content("The contact is deleted.")
        }

        Operation::DomainsList => builder
            .summary(DOMAINS, "List the sending domains")
            .list::<domains::View<'_>>("All domains, oldest first."),
        Operation::DomainsCreate => builder
            .summary(DOMAINS, "Add a sending domain")
            .body::<domains::New>()
            .idempotent()
            .errors(&[Code::Conflict])
            .created::<domains::View<'_>>("The domain with the DNS records to publish.")
            .links_to(&[Operation::DomainsVerify, Operation::DomainsDelete]),
        Operation::DomainsVerify => builder
            .summary(DOMAINS, "Verify the DNS records of a domain")
            .ignored_body()
            .resource::<domains::View<'_>>("The domain with the result of each check."),
        Operation::DomainsDelete => builder
            .summary(DOMAINS, "Delete a domain")
            .json::<domains::Deleted>(StatusCode::OK, "The domain and its mailboxes are deleted."),

        Operation::EmailsSend => builder
            .summary(EMAILS, "Send an email")
            .body::<request::NewEmail>()
            .idempotent()
            .errors(&[Code::DomainNotVerified])
            .created_as::<stored::View<'_>>(StatusCode::ACCEPTED, "The accepted email.")
            .links_to(&[Operation::EmailsGet, Operation::EmailsCancel]),
        Operation::EmailsSendBatch => builder
            .summary(EMAILS, "Send up to 100 emails")
            .body::<batch::New>()
            .idempotent()
            .json::<batch::Results>(StatusCode::OK, "The result of each email."),
        Operation::EmailsGet => builder
            .summary(EMAILS, "Get an email with its status")
            .resource::<emails::Full<'_>>("The email with the status of each recipient."),
        Operation::EmailsCancel => builder
            .summary(EMAILS, "Cancel a scheduled email")
            .errors(&[Code::NotCancellable])
            .resource::<stored::View<'_>>("The cancelled email."),

        Operation::WebhooksCreate => builder
            .summary(WEBHOOKS, "Create a webhook")
            .body::<webhooks::New>()
            .errors(&[Code::Conflict])
            .idempotent()
            .created::<webhooks::View<'_>>("The webhook with its signing secret.")
            .links_to(&[
                Operation::WebhooksUpdate,
                Operation::WebhooksDelete,
                Operation::WebhooksTest,
            ]),
        Operation::WebhooksList => builder
            .summary(WEBHOOKS, "List the webhooks")
            .list::<webhooks::View<'_>>("All webhooks, oldest first."),
        Operation::WebhooksUpdate => builder
            .summary(WEBHOOKS, "Update a webhook")
            .body::<webhooks::Update>()
            .resource::<webhooks::View<'_>>("The updated webhook."),
        Operation::WebhooksDelete => builder
            .summary(WEBHOOKS, "Delete a webhook")
            .no_content("The webhook is deleted, and its pending deliveries are dropped."),
        Operation::WebhooksTest => {
            let schema = webhooks::test_schema(builder.compatibility());
            builder
                .summary(WEBHOOKS, "Send a test event to a webhook")
                .errors(&[Code::Conflict])
                .ignored_body()
                .idempotent()
                .response(
                    StatusCode::OK,
                    "The status that the endpoint returned, or the error.",
                    &schema,
                )
        }
        // A test looks up every operation in the description.
        _ => builder,
    }
}

/// The shape of a page depends on a compatibility setting
/// (`docs/undocumented/email-service.md#contact-pages`).
fn contact_pages<'d, 'a>(builder: OperationBuilder<'d, 'a>) -> OperationBuilder<'d, 'a> {
    let parameters = pages::Page::parameters(builder.compatibility());
    let array = builder.compatibility().contact_pages == ContactPages::Array;
    let builder = builder
        .summary(CONTACTS, "List the contacts of an audience")
        .parameters(parameters)
        .errors(&[Code::ValidationFailed]);
    let description = "A page of contacts, oldest first; empty after the last page.";
    if array {
        builder.json::<Vec<contacts::Contact>>(StatusCode::OK, description)
    } else {
        builder.json::<pages::Paged<'_, contacts::Contact>>(StatusCode::OK, description)
    }
}
