//! Webhook deliveries end to end: from the event on the server to a receiver that
//! verifies the signature.

use serde_json::json;
use svc_sdk::email::{Email, NewWebhook};

use webhook_verify::{Event, Secret, Verifier};

use crate::receiver::{Delivery, Receiver};
use crate::world::World;

#[tokio::test]
async fn a_receiver_verifies_the_delivery_of_an_email_event() {
    let world = World::start().await;
    world.verified_domain("shop.test").await;
    let mut receiver = Receiver::start(&[]).await;
    let verifier = mail_webhook(&world, &receiver, &["email.delivered"]).await;

    let email = Email::new("a@shop.test", "ada@example.test", "Hi")
        .text("Hello")
        .tag("k", "v");
    let accepted = world.email.emails().send(&email).await.expect("accepted");
    let delivery = receiver.next().await;

    let event = verifier
        .verify(delivery.header("Mail-Signature"), delivery.body.clone())
        .expect("signed by the service");
    assert_eq!(*event.event(), Event::EmailDelivered);
    assert_eq!(delivery.header("Mail-Event"), "email.delivered");
    assert_eq!(event.id(), Some(delivery.header("Mail-Delivery-Id")));

    let data: serde_json::Value = event.data().expect("an object");
    assert_eq!(data["emailId"], accepted.id);
    assert_eq!(data["recipient"], "ada@example.test");
    assert_eq!(data["tags"], json!({"k": "v"}));
}

#[tokio::test]
async fn a_receiver_verifies_the_delivery_of_an_extraction_event() {
    let world = World::start().await;
    let mut receiver = Receiver::start(&[]).await;
    let verifier = extraction_webhook(&world, &receiver).await;

    let data = json!({"invoice": {"total": "12.50", "währung": "€"}});
    let finished = json!({
        "organization": world.organization,
        "event": "extraction.completed",
        "data": data,
    });
    world.control("/_sandbox/extractions", &finished).await;
    let delivery = receiver.next().await;

    let event = verifier
        .verify(
            delivery.header("X-Service-Signature"),
            delivery.body.clone(),
        )
        .expect("signed by the service");
    assert_eq!(*event.event(), Event::ExtractionCompleted);
    assert_eq!(delivery.header("X-Service-Event"), "extraction.completed");
    assert_eq!(event.data::<serde_json::Value>().expect("an object"), data);
}

#[tokio::test]
async fn a_failed_delivery_is_retried_with_the_same_id_and_body() {
    let world = World::start().await;
    world.verified_domain("shop.test").await;
    let mut receiver = Receiver::start(&[500]).await;
    let verifier = mail_webhook(&world, &receiver, &["email.delivered"]).await;
    world.freeze().await;

    let email = Email::new("a@shop.test", "ada@example.test", "Hi").text("Hello");
    world.email.emails().send(&email).await.expect("accepted");
    let first = receiver.next().await;
    world.advance("1s").await;
    assert!(
        receiver.is_empty(),
        "the first retry is due 2 s after the attempt before it"
    );

    let clock = world.advance("1s").await;
    assert_eq!(clock["settled"], true);

    let second = receiver.next().await;

    assert_eq!(second.body, first.body);

    let id = |delivery: &Delivery| delivery.json()["id"].clone();
    assert_eq!(id(&second), id(&first));
    assert_eq!(
        (first.header("Mail-Attempt"), second.header("Mail-Attempt")),
        ("1", "2")
    );

    verifier
        .verify(second.header("Mail-Signature"), second.body.clone())
        .expect("signed");
    world.advance("1h").await;
    assert!(receiver.is_empty(), "a successful delivery is not repeated");
}

#[tokio::test]
async fn retries_end_after_the_documented_number() {
    let world = World::start().await;
    world.verified_domain("shop.test").await;
    let mut mail = Receiver::start(&[500; 10]).await;
    let mut extraction = Receiver::start(&[503; 10]).await;
    mail_webhook(&world, &mail, &["email.delivered"]).await;
    extraction_webhook(&world, &extraction).await;
    world.freeze().await;

    let email = Email::new("a@shop.test", "ada@example.test", "Hi").text("Hello");
    world.email.emails().send(&email).await.expect("accepted");
    let failed = json!({"organization": world.organization, "event": "extraction.failed"});
    world.control("/_sandbox/extractions", &failed).await;
    world.advance("24h").await;

    for attempt in 1..=4 {
        assert_eq!(
            mail.next().await.header("Mail-Attempt"),
            attempt.to_string()
        );
    }

    assert!(
        mail.is_empty(),
        "3 retries (docs/email-service/README.md#limits)"
    );

    let first = extraction.next().await;
    for _ in 0..5 {
        assert_eq!(extraction.next().await.body, first.body);
    }

    assert!(
        extraction.is_empty(),
        "5 retries (docs/undocumented/services.md#extraction-retries)"
    );
}

#[tokio::test]
async fn a_deleted_webhook_receives_no_retries() {
    let world = World::start().await;
    world.verified_domain("shop.test").await;
    let mut receiver = Receiver::start(&[500; 3]).await;
    let new = NewWebhook::new(receiver.url(), ["email.delivered"]);
    let webhook = world.email.webhooks().create(&new).await.expect("created");
    world.freeze().await;
    let email = Email::new("a@shop.test", "ada@example.test", "Hi").text("Hello");

    world.email.emails().send(&email).await.expect("accepted");
    receiver.next().await;
    world
        .email
        .webhooks()
        .delete(&webhook.id)
        .await
        .expect("deleted");
    world.advance("1h").await;

    assert!(
        receiver.is_empty(),
        "the pending retry was dropped with its webhook"
    );
}

async fn mail_webhook(world: &World, receiver: &Receiver, events: &[&str]) -> Verifier {
    let new = NewWebhook::new(receiver.url(), events.iter().copied());
    let webhook = world.email.webhooks().create(&new).await.expect("created");
    let secret = webhook.signing_secret.expect("returned on creation");
    Verifier::email(Secret::new(secret.expose()).expect("a usable secret"))
}

async fn extraction_webhook(world: &World, receiver: &Receiver) -> Verifier {
    let events = ["extraction.completed", "extraction.failed"];
    let new = NewWebhook::new(receiver.url(), events);
    let webhook = world
        .extraction
        .webhooks()
        .create(&new)
        .await
        .expect("registered");
    let secret = webhook.secret.expect("returned on creation");
    Verifier::extraction(Secret::new(secret.expose()).expect("a usable secret"))
}
