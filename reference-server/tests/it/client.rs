//! The typed client of the control interface.

use std::time::Duration;

use svc_reference_server::Server;
use svc_reference_server::client::{
    Client, DeliveryFilter, DeliveryState, Direction, DkimVerdict, DropPoint, EmailEvent,
    EmailStatus, InboundMessage, KeyMode, MessageFilter, NewFault, NewKey, NewOrganization,
    NewTemplate, RecordKind, SpfVerdict,
};
use svc_sdk::email::{Email, Event, NewContact, NewWebhook};
use svc_sdk::{EmailClient, Operation};

use crate::harness::{KEY, public};
use crate::receiver::{Receiver, within};

#[tokio::test]
async fn a_failed_wait_says_what_arrived() {
    let server = Server::start().await.unwrap();
    let email = server.email_client().unwrap();
    let sandbox = server.client().unwrap();
    let wait = || {
        let to = Some("ada@example.test".to_owned());
        let filter = MessageFilter {
            to,
            subject: Some("Reset".to_owned()),
            ..Default::default()
        };
        let wait = sandbox.wait_for_message(&filter, Duration::from_millis(20));
        within("the wait", wait.into_future())
    };

    let error = wait().await.unwrap_err();
    assert_eq!(error.status().unwrap().as_u16(), 408);
    assert_eq!(error.code(), Some("request_timeout"));

    let text = "no matching message arrived within 20ms; the mailbox is empty";
    assert_eq!(error.message(), Some(text));

    let welcome = Email::new("hello@sandbox.test", "ada@example.test", "Welcome").text("Hi");
    email.emails().send(&welcome).await.unwrap();
    let message = sandbox.wait_for("ada@example.test").await.unwrap();
    let text = format!(
        "no matching message arrived within 20ms; the mailbox has \"Welcome\" to ada@example.test at {}",
        message.created_at,
    );
    let error = wait().await.unwrap_err();
    assert_eq!(error.message(), Some(text.as_str()));
    // What `unwrap` prints.
    assert!(format!("{error:?}").ends_with(&text), "{error:?}");
}

#[tokio::test]
async fn reads_messages_and_emails() {
    let server = Server::start().await.unwrap();
    let email = server.email_client().unwrap();
    let sandbox = server.client().unwrap();
    let text = "Your code: 123456, https://shop.test/login?token=1";
    let mail = Email::new("hello@sandbox.test", "ada@example.test", "Sign in")
        .text(text)
        .html("<p>Hello <a href=\"https://shop.test/a\">shop</a></p>");
    let sent = email.emails().send(&mail).await.unwrap();
    let filter = MessageFilter {
        to: Some("Ada@example.test".to_owned()),
        from: Some("hello@sandbox.test".to_owned()),
        ..MessageFilter::default()
    };
    let minute = Duration::from_secs(60);
    let message = sandbox.wait_for_message(&filter, minute).await.unwrap();
    assert_eq!(message.email_id.as_deref(), Some(sent.id.as_str()));
    assert_eq!(
        (message.direction, message.subject.as_str()),
        (Direction::Outgoing, "Sign in")
    );
    assert_eq!(message.codes, ["123456"]);
    assert_eq!(message.links[0].text.as_deref(), Some("shop"));
    assert!(
        sandbox
            .message_source(&message.id)
            .await
            .unwrap()
            .starts_with(b"DKIM-Signature")
    );

    let html = sandbox.message_html(&message.id).await.unwrap();
    assert!(String::from_utf8_lossy(&html).contains("<p>Hello"));
    assert_eq!(
        sandbox.message_links(&message.id).await.unwrap().codes,
        message.codes
    );
    assert_eq!(
        sandbox.message(&message.id).await.unwrap().headers,
        message.headers
    );

    let inbound = InboundMessage {
        subject: Some("Question".to_owned()),
        text: Some("When?".to_owned()),
        ..InboundMessage::new("bob@example.test", "hi@sandbox.test")
    };
    let received = sandbox.receive(&inbound).await.unwrap();
    assert_eq!(received.messages[0].recipient, "hi@sandbox.test");

    let source = "From: eve@example.test\r\nTo: hi@sandbox.test\r\nSubject: Raw\r\n\r\nHi\r\n";
    sandbox.receive_raw(source).await.unwrap();
    let filter = MessageFilter {
        subject: Some("Raw".to_owned()),
        ..MessageFilter::default()
    };
    let raw = sandbox
        .wait_for_message(&filter, minute)
        .await
        .unwrap()
        .authentication
        .unwrap();
    assert_eq!(
        (raw.spf, raw.dkim.result),
        (SpfVerdict::None, DkimVerdict::None)
    );

    let clock = sandbox.settle(minute).await.unwrap();
    assert!(clock.settled, "{clock:?}");

    // Newest first, page by page.
    let first = sandbox
        .messages(&MessageFilter::default())
        .limit(2)
        .await
        .unwrap();
    assert_eq!(first.data[0].subject, "Raw");
    assert_eq!(first.data[1].direction, Direction::Incoming);

    let rest = sandbox
        .messages(&MessageFilter::default())
        .cursor(first.next.unwrap())
        .await
        .unwrap();
    assert_eq!(
        (rest.data[0].id.as_str(), rest.next),
        (message.id.as_str(), None)
    );

    let filter = MessageFilter {
        after: Some(message.created_at.to_string()),
        to: Some("hi@sandbox.test".to_owned()),
        subject: Some("quest".to_owned()),
        ..MessageFilter::default()
    };
    assert!(sandbox.messages(&filter).await.unwrap().data.len() <= 1);

    server.until_idle().await;
    let full = EmailEvent {
        recipient: Some("ada@example.test".to_owned()),
        detail: Some("mailbox full".into()),
        ..EmailEvent::new("bounced")
    };
    let record = sandbox.simulate_event(&sent.id, &full).await.unwrap();
    assert_eq!(record.status, EmailStatus::Bounced);

    let error = sandbox
        .simulate_event(&sent.id, &EmailEvent::new("delivered"))
        .await;
    assert_eq!(error.unwrap_err().code(), Some("conflict"));
}

#[tokio::test]
async fn controls_time_faults_and_deliveries() {
    let server = Server::start().await.unwrap();
    let sandbox = server.client().unwrap();
    // The receiver has no https URL.
    let email = EmailClient::builder(server.base_url(), KEY)
        .local_checks(false)
        .build()
        .unwrap();
    let receiver = Receiver::start(&[500]).await;
    let webhook = NewWebhook::new(receiver.url(), [Event::EmailDelivered]);
    let webhook = email.webhooks().create(webhook).await.unwrap();

    let frozen = sandbox.freeze().await.unwrap();
    assert!(frozen.frozen);

    let mail = Email::new("hello@sandbox.test", "ada@example.test", "Hi").text("Hi");
    email.emails().send(&mail).await.unwrap();
    let later = sandbox.advance(Duration::from_secs(2)).await.unwrap();
    assert_eq!((*later.now - *frozen.now).num_seconds(), 2);

    receiver.until(2).await;
    assert_eq!(sandbox.clock().await.unwrap().now, later.now);
    assert!(!sandbox.resume().await.unwrap().frozen);

    server.until_idle().await;
    let filter = DeliveryFilter {
        webhook: Some(webhook.id),
        event: Some("email.delivered".to_owned()),
        state: Some(DeliveryState::Delivered),
        ..DeliveryFilter::default()
    };
    let page = sandbox.deliveries(&filter).limit(1).await.unwrap();
    let delivery = &page.data[0];
    let statuses = delivery
        .attempts
        .iter()
        .flatten()
        .map(|attempt| attempt.status);
    assert_eq!(statuses.collect::<Vec<_>>(), [Some(500), Some(200)]);
    assert!(
        sandbox
            .delivery(&delivery.id)
            .await
            .unwrap()
            .body
            .unwrap()
            .contains("ada@")
    );
    assert_eq!(
        sandbox.replay_delivery(&delivery.id).await.unwrap().state,
        DeliveryState::Pending
    );

    receiver.until(3).await;

    let limited = NewFault {
        operation: Some(Operation::EmailsGet.to_string()),
        status: Some(429),
        skip: Some(1),
        times: Some(2),
        headers: serde_json::json!({"retry-after": "0"}).as_object().cloned(),
        latency: Some("1ms".to_owned()),
        body: Some("wait".into()),
        ..NewFault::default()
    };
    let limited = sandbox.add_fault(&limited).await.unwrap();
    let cut = NewFault {
        drop: Some(DropPoint::Before),
        operation: Some("audiences.list".to_owned()),
        ..NewFault::default()
    };
    let cut = sandbox.add_fault(&cut).await.unwrap();
    assert_eq!(cut.definition.drop, Some(DropPoint::Before));

    for _ in 0..3 {
        drop(email.emails().get("eml_none").retries(0).await);
    }

    let limited = sandbox.fault(&limited.id).await.unwrap();
    assert_eq!((limited.remaining, limited.hits.len()), (0, 2));
    assert_eq!(limited.hits[0].operation, "email emails.get");

    sandbox.remove_fault(&limited.id).await.unwrap();
    assert_eq!(sandbox.faults().await.unwrap().len(), 1);

    sandbox.clear_faults().await.unwrap();

    let failed = sandbox
        .simulate_extraction("extraction.failed", ())
        .await
        .unwrap();
    assert_eq!(
        (failed.event.as_str(), failed.deliveries.len()),
        ("extraction.failed", 0)
    );
}

#[tokio::test]
async fn every_tenant_has_keys_and_templates_of_its_own() {
    let server = Server::start().await.unwrap();
    let seeded = server.client().unwrap();
    let tenant = server.tenant("Lovelace").await.unwrap();
    assert_eq!(
        tenant.extraction.me().await.unwrap().organization.name,
        "Lovelace"
    );

    let audience = tenant.email.audiences().create("Readers").await.unwrap();
    let contact = NewContact::new("ada@x.test").name("Ada");
    tenant
        .email
        .contacts()
        .create(&audience.id, contact)
        .await
        .unwrap();
    let listed = tenant.sandbox.audiences().await.unwrap().data;
    assert_eq!(listed, std::slice::from_ref(&audience));

    let contacts = tenant
        .sandbox
        .contacts(&audience.id)
        .limit(5)
        .await
        .unwrap();
    assert_eq!(contacts.data[0].name.as_deref(), Some("Ada"));

    let domains = seeded.domains().await.unwrap();
    assert_eq!(
        (
            domains.data[0].verified,
            domains.data[0].dns_records().len()
        ),
        (Some(true), 4)
    );
    assert!(
        server
            .email_client()
            .unwrap()
            .audiences()
            .list()
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(seeded.organizations().await.unwrap().len(), 2);
    assert!(!format!("{tenant:?}").contains(&tenant.organization.email_key));

    let keys = &tenant.sandbox;
    let key = keys
        .create_key(&NewKey::email([svc_sdk::Scope::EmailsRead]))
        .await
        .unwrap();
    assert_eq!(key.scopes.as_ref().unwrap(), &["emails:read"]);
    assert!(!format!("{key:?}").contains(key.key.as_ref().unwrap()));

    let live = NewKey {
        mode: Some(KeyMode::Live),
        ..NewKey::extraction("extract_only")
    };
    let live = keys.create_key(&live).await.unwrap();
    assert!(live.key.unwrap().starts_with("sk_live_"));

    keys.revoke_key(&key.id).await.unwrap();
    assert_eq!(keys.keys().await.unwrap().len(), 3);
    assert_eq!(seeded.keys().await.unwrap().len(), 2);

    let template = NewTemplate {
        subject: Some("Hi {{ name }}".to_owned()),
        text: Some("Hi".to_owned()),
        html: Some("<p>Hi</p>".to_owned()),
        ..NewTemplate::default()
    };
    let put = tenant
        .sandbox
        .put_template("a/b c", &template)
        .await
        .unwrap();
    let got = tenant.sandbox.template("a/b c").await.unwrap();
    assert_eq!((put.id.as_str(), got.subject), ("a/b c", put.subject));
    assert!(seeded.template("a/b c").await.is_err());

    let name = serde_json::json!({"name": "Ada"})
        .as_object()
        .unwrap()
        .clone();
    let rendered = tenant.sandbox.render_template("a/b c", name).await.unwrap();
    assert_eq!(rendered.subject.as_deref(), Some("Hi Ada"));

    let error = tenant
        .sandbox
        .render_template("a/b c", Default::default())
        .await
        .unwrap_err();
    assert_eq!(error.status().unwrap().as_u16(), 422);

    tenant.sandbox.delete_template("a/b c").await.unwrap();
    // Not the path of another request.
    for id in ["", ".", ".."] {
        let error = tenant.sandbox.template(id).await.unwrap_err();
        assert_eq!(error.status(), None, "{id:?}: {error}");
    }

    let published = seeded
        .publish_dns("sandbox.test", &[RecordKind::Mx])
        .await
        .unwrap();
    assert_eq!(published.published[0].priority, Some(10));

    seeded
        .withdraw_dns("sandbox.test", Some(RecordKind::Mx))
        .await
        .unwrap();
    seeded.withdraw_dns("sandbox.test", None).await.unwrap();

    seeded
        .reset_organization(&tenant.organization.id)
        .await
        .unwrap();
    assert!(tenant.email.audiences().list().await.unwrap().is_empty());

    seeded.reset().await.unwrap();
    assert_eq!(seeded.organizations().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_typed_organization_has_its_domain_and_webhooks() {
    let server = Server::start().await.unwrap();
    let client = server.client().unwrap();
    let webhook = serde_json::json!({"url": "https://shop.test/hooks", "events": ["email.sent"]});
    let new = NewOrganization {
        domain: Some("shop.test".to_owned()),
        webhooks: vec![serde_json::from_value(webhook).unwrap()],
        ..NewOrganization::default()
    };
    let organization = client.create_organization(&new).await.unwrap();
    assert_eq!(organization.domain, "shop.test");
    assert_eq!(organization.webhooks[0].url, "https://shop.test/hooks");

    let email = EmailClient::builder(server.base_url(), organization.email_key);
    let email = email.build().unwrap();
    let domains = email.domains().list().await.unwrap();
    let verified: Vec<_> = domains.iter().filter(|it| it.is_verified()).collect();
    assert_eq!(verified[0].name.as_deref(), Some("shop.test"));
}

#[tokio::test]
async fn a_public_server_needs_its_token() {
    let server = public(Server::builder()).start().await.unwrap();
    let organizations = server.client().unwrap().organizations().await.unwrap();
    assert!(organizations.is_empty());

    let client = Client::new(server.base_url()).unwrap();
    // A probe needs none.
    let health = client.health().await.unwrap();
    assert_eq!(health.addresses.http, Some(server.base_url()));

    let error = client.organizations().await.unwrap_err();
    assert_eq!(error.status().unwrap().as_u16(), 401);
}

/// Every request of the control interface has a method of the client, except those that are
/// not for tests, and the stream of events, which the client waits for instead.
#[test]
fn the_client_covers_every_endpoint() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let resources = std::fs::read_dir(folder).unwrap().flatten();
    let resources = resources.filter(|entry| entry.path().is_dir());
    let files = resources.flat_map(|resource| std::fs::read_dir(resource.path()).unwrap());
    let files = files.map(|file| file.unwrap().path());
    let mut count = 0;
    for path in files.filter(|path| path.to_string_lossy().ends_with("_wire.rs")) {
        let source = std::fs::read_to_string(&path).unwrap();
        // However the calls are formatted.
        let calls: String = source.split_whitespace().collect();
        // Those that `requests!` declares have their method there.
        count += source.matches(" = Endpoint::").count();
        let constants = source.split("pub(crate) const ").skip(1);
        let constants = constants.filter_map(|rest| rest.split_once(": Endpoint<"));
        for (name, _) in constants {
            let is_other = ["LEASE", "READY", "STREAM"].contains(&name);
            let is_used = calls.contains(&format!("&{name},"));
            assert!(
                is_other || is_used,
                "no method of the client uses {name} of {path:?}"
            );
        }
    }

    assert!(count > 40, "found only {count} endpoints");
}
