//! Every operation end to end: the SDK against the reference server.

use std::collections::BTreeMap;
use std::pin::pin;

use futures_util::TryStreamExt as _;
use serde_json::{Value, json};
use svc_reference_server::client::MessageFilter;
use svc_sdk::email::{
    self, Attachment, BatchOutcome, ContactUpdate, Email, EmailStatus, NewContact, NewWebhook,
    WebhookUpdate,
};
use svc_sdk::{ErrorKind, Operation, Outcome, Scope};

use crate::receiver::Receiver;
use crate::world::World;

#[tokio::test]
async fn an_email_is_sent_and_delivered() {
    let world = World::start().await;
    world.verified_domain("shop.test").await;
    let email = Email::new("Shop <hello@shop.test>", "ada@example.test", "Grüße 🎉")
        .html("<p>Hello</p>")
        .text("Hello")
        .cc("Grace <grace@example.test>")
        .bcc("hidden@example.test")
        .reply_to("help@shop.test")
        .header("X-Campaign", "spring")
        .attachment(Attachment::from_bytes("invoice.txt", "42 euros"))
        .tag("kind", "invoice");

    let accepted = world.email.emails().send(&email).await.expect("accepted");
    assert!(accepted.id.starts_with("eml_"), "{accepted:?}");

    world.server.until_idle().await;

    let found = world.email.emails().get(&accepted.id).await.expect("found");
    assert_eq!(found.status, Some(EmailStatus::Delivered));

    let extra = |name: &str| found.extra.get(name).cloned().unwrap_or_default();
    assert_eq!(found.subject.as_deref(), Some("Grüße 🎉"));
    assert_eq!(Value::Object(found.tags), json!({"kind": "invoice"}));
    assert_eq!(extra("recipients").as_array().map(Vec::len), Some(3));
}

#[tokio::test]
async fn a_batch_returns_a_result_per_email() {
    let world = World::start().await;
    world.verified_domain("shop.test").await;
    let batch = [
        Email::new("a@shop.test", "ada@example.test", "First").text("1"),
        Email::new("a@elsewhere.test", "ada@example.test", "Second").text("2"),
        Email::new("a@shop.test", "grace@example.test", "Third").text("3"),
    ];

    let response = world
        .email
        .emails()
        .send_batch(&batch)
        .await
        .expect("a response");

    assert!(response.is_complete());
    assert_eq!(
        response
            .accepted()
            .map(|(index, _)| index)
            .collect::<Vec<_>>(),
        [Some(0), Some(2)]
    );

    let BatchOutcome::Refused(refusal) = &response.items[1].outcome else {
        panic!("an unverified sender is refused: {:?}", response.items[1])
    };
    assert_eq!(refusal.code.as_deref(), Some("domain_not_verified"));
}

#[tokio::test]
async fn a_scheduled_email_waits_and_can_be_cancelled() {
    let world = World::start().await;
    world.verified_domain("shop.test").await;
    world.freeze().await;
    let email = || Email::new("a@shop.test", "ada@example.test", "Later").text("-");
    let emails = world.email.emails();
    let in_days = |days| chrono::Utc::now() + chrono::Duration::days(days);

    let kept = emails
        .send(email().scheduled_at(in_days(2)))
        .await
        .expect("accepted");
    let dropped = emails
        .send(email().scheduled_at(in_days(2)))
        .await
        .expect("accepted");
    assert_eq!(kept.status, Some(EmailStatus::Queued));

    let cancelled = emails.cancel(&dropped.id).await.expect("cancelled");
    assert_eq!(cancelled.status, Some(EmailStatus::Cancelled));

    world.advance("1d").await;
    assert_eq!(
        emails.get(&kept.id).await.expect("found").status,
        Some(EmailStatus::Queued)
    );

    world.advance("1d").await;
    world.advance("1h").await;

    assert_eq!(
        emails.get(&kept.id).await.expect("found").status,
        Some(EmailStatus::Delivered)
    );

    let still = emails.get(&dropped.id).await.expect("found").status;
    assert_eq!(still, Some(EmailStatus::Cancelled));

    let error = emails
        .cancel(&kept.id)
        .await
        .expect_err("already delivered");
    assert_eq!(
        (error.status().map(|status| status.as_u16()), error.code()),
        (Some(409), Some("not_cancellable"))
    );
}

#[tokio::test]
async fn audiences_and_contacts_are_created_changed_and_deleted() {
    let world = World::start().await;
    let audiences = world.email.audiences();
    let contacts = world.email.contacts();

    let readers = audiences.create("Readers").await.expect("created");
    assert_eq!(
        audiences
            .get(&readers.id)
            .await
            .expect("found")
            .name
            .as_deref(),
        Some("Readers")
    );

    let mut ids = Vec::new();
    for number in 0..45 {
        let new = NewContact::new(format!("reader{number}@example.test"))
            .name(format!("Reader {number}"))
            .metadata("number", number)
            .topic("news");
        ids.push(contacts.create(&readers.id, new).await.expect("created").id);
    }

    let page = contacts
        .list(&readers.id)
        .page(2)
        .page_size(20)
        .await
        .expect("a page");
    assert_eq!(
        (page.items.len(), page.total, page.total_pages),
        (20, Some(45), Some(3))
    );

    let mut stream = pin!(contacts.stream(&readers.id).page_size(7));
    let mut seen = Vec::new();
    while let Some(contact) = stream.try_next().await.expect("a page") {
        seen.push(contact.id);
    }

    assert_eq!(seen, ids, "every contact once, oldest first");

    let update = ContactUpdate::new().metadata("vip", true).subscribed(false);
    let updated = contacts.update(&ids[3], &update).await.expect("updated");
    assert_eq!(updated.subscribed, Some(false));
    assert_eq!(json!(updated.metadata), json!({"number": 3, "vip": true}));

    contacts.delete(&ids[3]).await.expect("deleted");
    let error = contacts
        .delete(&ids[3])
        .await
        .expect_err("the contact was deleted");
    assert_eq!(*error.kind(), ErrorKind::NotFound);

    audiences.delete(&readers.id).await.expect("deleted");
    assert!(audiences.list().await.expect("a list").items.is_empty());

    let error = contacts
        .update(&ids[0], &update)
        .await
        .expect_err("the contact was deleted with its audience");
    assert_eq!(*error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_domain_is_verified_by_its_dns_records() {
    let world = World::start().await;
    let domains = world.email.domains();

    let domain = domains.create("shop.test").await.expect("created");
    let kinds: BTreeMap<_, _> = domain
        .dns_records()
        .into_iter()
        .filter_map(|record| Some((record.kind?, record.name?)))
        .collect();
    assert_eq!(
        kinds.keys().collect::<Vec<_>>(),
        ["dkim", "dmarc", "mx", "spf"]
    );
    assert_eq!(kinds["dmarc"], "_dmarc.shop.test");

    let nothing = domains.verify(&domain.id).await.expect("a response");
    assert!(!nothing.is_verified());

    let some = json!({"organization": world.organization, "records": ["mx", "spf", "dkim"]});
    world
        .control("/_sandbox/dns/shop.test/publish", &some)
        .await;
    let three = domains.verify(&domain.id).await.expect("a response");
    assert_eq!(
        (three.dkim_verified, three.dmarc_verified),
        (Some(true), Some(false))
    );
    assert!(!three.is_verified());

    let unverified = Email::new("a@shop.test", "ada@example.test", "Hi");
    let error = world
        .email
        .emails()
        .send(&unverified)
        .await
        .expect_err("not verified");
    assert_eq!(*error.kind(), ErrorKind::Forbidden);
    assert_eq!(error.code(), Some("domain_not_verified"));
    assert_eq!(error.outcome(), Outcome::Refused);

    let rest = json!({"organization": world.organization, "records": ["dmarc"]});
    world
        .control("/_sandbox/dns/shop.test/publish", &rest)
        .await;
    assert!(
        domains
            .verify(&domain.id)
            .await
            .expect("a response")
            .is_verified()
    );
    // The organization has a domain of its own beside it.
    assert_eq!(domains.list().await.expect("a list").items.len(), 2);

    domains.delete(&domain.id).await.expect("deleted");
    let left = domains.list().await.expect("a list").items;
    assert!(
        left.iter().all(|other| other.id != domain.id) && left.len() == 1,
        "{left:?}"
    );
}

#[tokio::test]
async fn webhooks_of_both_services_are_created_changed_tested_and_deleted() {
    let world = World::start().await;
    let receiver = Receiver::start(&[200, 418]).await;
    let webhooks = world.email.webhooks();

    let new = NewWebhook::new(receiver.url(), [email::Event::EmailDelivered.to_string()]);
    let created = webhooks.create(&new).await.expect("created");
    assert!(created.signing_secret.is_some());
    assert!(
        webhooks.list().await.expect("a list").items[0]
            .signing_secret
            .is_none()
    );

    let paused = webhooks
        .update(&created.id, WebhookUpdate::new().active(false))
        .await;
    assert_eq!(paused.expect("updated").active, Some(false));

    let test = webhooks.test(&created.id).await.expect("tested");
    assert_eq!(
        (test.status.map(u16::from), test.is_success()),
        (Some(200), true)
    );

    let test = webhooks.test(&created.id).await.expect("tested");
    assert_eq!(
        (test.status.map(u16::from), test.is_success()),
        (Some(418), false)
    );

    webhooks.delete(&created.id).await.expect("deleted");
    assert!(webhooks.list().await.expect("a list").items.is_empty());

    let endpoints = world.extraction.webhooks();
    let events = [svc_sdk::extraction::Event::ExtractionCompleted.to_string()];
    let created = endpoints
        .create(NewWebhook::new("https://hooks.example.com/x", events))
        .await
        .expect("registered");
    assert_eq!(created.status.as_deref(), Some("active"));
    assert!(created.secret.is_some());
    assert!(
        endpoints.list().await.expect("a list").items[0]
            .secret
            .is_none()
    );

    endpoints.delete(&created.id).await.expect("deleted");
    assert!(endpoints.list().await.expect("a list").items.is_empty());
}

#[tokio::test]
async fn a_key_belongs_to_an_organization() {
    let world = World::start().await;

    let me = world.extraction.me().await.expect("a response");
    assert_eq!(
        (me.organization.id.as_str(), me.organization.name.as_str()),
        (world.organization.as_str(), "Lovelace")
    );

    world
        .extraction
        .verify_organization(&world.organization)
        .await
        .expect("the same organization");
    let error = world
        .extraction
        .verify_organization("org_other")
        .await
        .expect_err("another organization");
    assert!(
        matches!(error.kind(), ErrorKind::WrongOrganization { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn errors_name_the_missing_scope_of_every_email_operation() {
    let world = World::start().await;
    let all = [
        "emails:send",
        "emails:read",
        "contacts:manage",
        "domains:manage",
        "webhooks:manage",
    ];

    for &operation in Operation::ALL {
        let Some(required) = operation.required_scope() else {
            continue;
        };
        if operation.service() != svc_sdk::Service::Email {
            continue;
        }
        let others: Vec<_> = all
            .into_iter()
            .filter(|scope| *scope != required.as_str())
            .collect();
        let client = world.client_with(&others).await;
        let error = call(&client, operation)
            .await
            .expect_err("the scope is missing");
        let ErrorKind::MissingScope {
            required: named, ..
        } = error.kind()
        else {
            panic!("{operation}: {error:?}")
        };
        assert_eq!(*named, Some(required), "{operation}");
        assert_eq!(error.operation(), Some(operation));
        assert_eq!(error.outcome(), Outcome::Refused, "{operation}");
        assert!(error.to_string().contains(required.as_str()), "{error}");
    }

    let reader = world.client_with(&["emails:read"]).await;
    let error = reader
        .emails()
        .cancel("eml_1")
        .await
        .expect_err("the server wants emails:send");
    let ErrorKind::MissingScope { required, .. } = error.kind() else {
        panic!("{error:?}")
    };
    assert_eq!(
        *required,
        Some(Scope::EmailsSend),
        "the scope that the server named, not the documented one"
    );
}

/// Calls an operation of the email service with sample arguments.
async fn call(client: &svc_sdk::EmailClient, operation: Operation) -> Result<(), svc_sdk::Error> {
    let email = Email::new("a@shop.test", "ada@example.test", "Hi");
    let webhook = NewWebhook::new("https://hooks.example.com/x", ["email.sent"]);
    match operation {
        Operation::AudiencesCreate => client.audiences().create("A").await.map(drop),
        Operation::AudiencesList => client.audiences().list().await.map(drop),
        Operation::AudiencesGet => client.audiences().get("aud_1").await.map(drop),
        Operation::AudiencesDelete => client.audiences().delete("aud_1").await.map(drop),
        Operation::ContactsCreate => client
            .contacts()
            .create("aud_1", NewContact::new("a@b.test"))
            .await
            .map(drop),
        Operation::ContactsList => client.contacts().list("aud_1").await.map(drop),
        Operation::ContactsUpdate => client
            .contacts()
            .update("con_1", ContactUpdate::new())
            .await
            .map(drop),
        Operation::ContactsDelete => client.contacts().delete("con_1").await.map(drop),
        Operation::DomainsList => client.domains().list().await.map(drop),
        Operation::DomainsCreate => client.domains().create("shop.test").await.map(drop),
        Operation::DomainsVerify => client.domains().verify("dom_1").await.map(drop),
        Operation::DomainsDelete => client.domains().delete("dom_1").await.map(drop),
        Operation::EmailsSend => client.emails().send(&email).await.map(drop),
        Operation::EmailsSendBatch => client.emails().send_batch(&[email]).await.map(drop),
        Operation::EmailsGet => client.emails().get("eml_1").await.map(drop),
        Operation::EmailsCancel => client.emails().cancel("eml_1").await.map(drop),
        Operation::WebhooksCreate => client.webhooks().create(&webhook).await.map(drop),
        Operation::WebhooksList => client.webhooks().list().await.map(drop),
        Operation::WebhooksUpdate => client
            .webhooks()
            .update("whk_1", WebhookUpdate::new())
            .await
            .map(drop),
        Operation::WebhooksDelete => client.webhooks().delete("whk_1").await.map(drop),
        Operation::WebhooksTest => client.webhooks().test("whk_1").await.map(drop),
        Operation::Me
        | Operation::ExtractionWebhooksCreate
        | Operation::ExtractionWebhooksList
        | Operation::ExtractionWebhooksDelete => {
            panic!("{operation} is not an operation of the email service")
        }
        _ => panic!("no sample arguments for {operation}"),
    }
}

#[tokio::test]
async fn an_image_with_a_content_id_is_inline() {
    let world = World::start().await;
    world.verified_domain("shop.test").await;
    let logo = Attachment::from_bytes("picture.png", "PNG").extra("contentId", "logo");
    let email = Email::new("hello@shop.test", "ada@example.test", "Hi")
        .html(r#"<img src="cid:logo" alt="">"#)
        .attachment(logo);
    world.email.emails().send(&email).await.expect("accepted");
    world.server.until_idle().await;

    let sandbox = world.server.client().expect("client");
    let sandbox = sandbox.of(&world.organization);
    let messages = sandbox.messages(&MessageFilter::default()).await;
    let id = &messages.expect("listed").data[0].id;
    let source = sandbox.message_source(id).await.expect("source");
    let source = String::from_utf8_lossy(&source);
    assert!(source.contains("Content-ID: <logo>"), "{source}");
    assert!(source.contains("multipart/related"), "{source}");
}
