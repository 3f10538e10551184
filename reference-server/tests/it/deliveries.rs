//! Webhook deliveries: requests, signatures, retries, and when a delivery is dropped
//! (`docs/email-service/webhooks.md#events`, `docs/extraction-service/README.md#events`,
//! `docs/undocumented/services.md#retry-schedule`,
//! `docs/undocumented/services.md#extraction-retries`).

use futures_util::FutureExt as _;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use crate::harness::{EXTRACTION_KEY, Sandbox};
use crate::receiver::{Receiver, within};
use crate::webhooks::hmac;

async fn webhook(sandbox: &Sandbox, receiver: &Receiver, events: &str) -> (String, String) {
    let body = format!(r#"{{"url":"{}","events":[{events}]}}"#, receiver.url());
    let created = sandbox.call("POST /api/v1/webhooks", &body).await;
    assert_eq!(created.status, 201, "{created:?}");
    (created.id(), created.between(r#""signingSecret":""#))
}

async fn send(sandbox: &Sandbox, to: &str) -> String {
    let body =
        format!(r#"{{"from":"a@sandbox.test","to":"{to}","subject":"Hi","tags":{{"k":"v"}}}}"#);
    let sent = sandbox.call("POST /api/v1/emails", &body).await;
    assert_eq!(sent.status, 202, "{sent:?}");
    sent.id()
}

#[tokio::test]
async fn events_are_posted_and_signed_to_subscribed_webhooks() {
    let sandbox = Sandbox::start().await;
    let now = sandbox.freeze().await;
    let receiver = Receiver::start(&[]).await;
    let other = Receiver::start(&[]).await;
    let (_, secret) = webhook(&sandbox, &receiver, r#""email.bounced""#).await;
    webhook(&sandbox, &other, r#""email.delivered""#).await;
    let email = send(&sandbox, "bounced@x.test").await;
    sandbox.settle().await;

    let received = receiver.received();
    assert_eq!(received.len(), 1);
    assert!(other.received().is_empty());

    let delivery = &received[0];
    let id = delivery.id();
    let expected = format!(
        r#"{{"event":"email.bounced","id":"{id}","created":"{now}","data":{{"emailId":"{email}","from":"a@sandbox.test","recipient":"bounced@x.test","subject":"Hi","tags":{{"k":"v"}},"timestamp":"{now}","bounce":{{"type":"hard","reason":"550 5.1.1 no such mailbox"}}}}}}"#
    );
    assert_eq!(delivery.body, expected);
    assert!(
        delivery.head.starts_with("POST /hook HTTP/1.1"),
        "{}",
        delivery.head
    );
    assert_eq!(delivery.header("content-type"), "application/json");
    assert_eq!(delivery.header("mail-event"), "email.bounced");
    assert_eq!(delivery.header("mail-delivery-id"), id);
    assert_eq!(delivery.header("mail-attempt"), "1");
    assert_eq!(
        delivery.header("mail-signature"),
        hmac(&secret, &delivery.body)
    );
}

#[tokio::test]
async fn every_event_of_an_email_has_its_documented_data() {
    let sandbox = Sandbox::start().await;
    let receiver = Receiver::start(&[]).await;
    let all = r#""email.sent","email.delivered","email.bounced","email.opened","email.clicked","email.complained","email.failed""#;
    webhook(&sandbox, &receiver, all).await;
    let email = send(&sandbox, "ada@x.test").await;
    sandbox.settle().await;
    let line = format!("POST /_sandbox/emails/{email}/events");
    for body in [
        r#"{"event":"opened"}"#,
        r#"{"event":"clicked","detail":{"url":"https://a.test/x"}}"#,
        r#"{"event":"complained","detail":{"reason":"spam"}}"#,
    ] {
        assert_eq!(sandbox.control(&line, body).await.status, 200);
        sandbox.settle().await;
    }

    send(&sandbox, "failed@x.test").await;
    sandbox.settle().await;
    let received = receiver.received();
    let events: Vec<&str> = received
        .iter()
        .map(|one| one.header("mail-event"))
        .collect();
    assert_eq!(
        events,
        [
            "email.sent",
            "email.delivered",
            "email.opened",
            "email.clicked",
            "email.complained",
            "email.failed"
        ]
    );
    assert!(
        received[3]
            .body
            .contains(r#""click":{"url":"https://a.test/x"}"#),
        "{received:?}"
    );
    assert!(
        received[4].body.contains(r#""reason":"spam""#),
        "{received:?}"
    );
    assert!(received[5].body.contains(r#""reason":"#), "{received:?}");
}

/// A complaint implies that the email was delivered.
#[tokio::test]
async fn a_complaint_follows_the_delivery() {
    let sandbox = Sandbox::start().await;
    let receiver = Receiver::start(&[]).await;
    webhook(
        &sandbox,
        &receiver,
        r#""email.sent","email.delivered","email.complained""#,
    )
    .await;
    send(&sandbox, "complained+1@x.test").await;
    sandbox.settle().await;
    let received = receiver.received();
    let events: Vec<&str> = received
        .iter()
        .map(|one| one.header("mail-event"))
        .collect();
    assert_eq!(
        events,
        ["email.sent", "email.delivered", "email.complained"]
    );

    let list = sandbox
        .control("GET /_sandbox/messages?to=complained%2B1@x.test", "")
        .await;
    assert_eq!(list.body.matches(r#""id":"#).count(), 1, "{list:?}");
}

/// Delivers more bytes than the worker reads ahead.
#[tokio::test]
async fn delivers_large_bodies() {
    let sandbox = Sandbox::start().await;
    let receiver = Receiver::start(&[]).await;
    let (id, _) = webhook(&sandbox, &receiver, r#""email.received""#).await;
    sandbox.freeze().await;
    let body = format!(
        r#"{{"from":"a@x.test","to":["1@sandbox.test","2@sandbox.test","3@sandbox.test","4@sandbox.test"],"text":"{}"}}"#,
        "x".repeat(2_500_000)
    );
    assert_eq!(
        sandbox
            .control("POST /_sandbox/inbound", &body)
            .await
            .status,
        202
    );

    sandbox.settle().await;
    let mut got: Vec<String> = receiver
        .received()
        .iter()
        .map(|one| one.id().to_owned())
        .collect();
    got.sort_unstable();
    got.dedup();
    assert_eq!(got.len(), 4);

    let list = sandbox
        .control(&format!("GET /_sandbox/deliveries?webhook={id}"), "")
        .await;
    assert_eq!(
        list.body.matches(r#""state":"delivered""#).count(),
        4,
        "{list:?}"
    );
}

/// Retries are 2, 8 and 32 s after the previous attempt
/// (`docs/undocumented/services.md#retry-schedule`).
#[tokio::test]
async fn the_email_service_retries_three_times() {
    let sandbox = Sandbox::start().await;
    sandbox.freeze().await;
    let receiver = Receiver::start(&[500, 302, 404, 503, 200]).await;
    webhook(&sandbox, &receiver, r#""email.delivered""#).await;
    send(&sandbox, "ada@x.test").await;
    sandbox.settle().await;
    assert_eq!(receiver.received().len(), 1);

    for (pause, seen) in [
        ("1999ms", 1),
        ("1ms", 2),
        ("7999ms", 2),
        ("1ms", 3),
        ("31999ms", 3),
        ("1ms", 4),
    ] {
        sandbox.advance(pause).await;
        assert_eq!(receiver.received().len(), seen, "after {pause}");
    }

    let state = sandbox.advance("1d").await;
    assert_eq!(receiver.received().len(), 4);
    assert!(
        state.body.contains(r#""settled":true,"next_due":null,"#),
        "{state:?}"
    );

    let received = receiver.received();
    assert!(
        received.iter().all(|one| one.body == received[0].body),
        "all attempts have the same body"
    );

    let attempts: Vec<&str> = received
        .iter()
        .map(|one| one.header("mail-attempt"))
        .collect();
    assert_eq!(attempts, ["1", "2", "3", "4"]);
}

/// Retries are 2, 4, 8, 16 and 32 s after the previous attempt
/// (`docs/undocumented/services.md#extraction-retries`).
#[tokio::test]
async fn the_extraction_service_retries_five_times() {
    let sandbox = Sandbox::start().await;
    sandbox.freeze().await;
    let receiver = Receiver::start(&[500, 500, 500, 500, 500]).await;
    let body = format!(
        r#"{{"url":"{}","events":["extraction.completed"]}}"#,
        receiver.url()
    );
    let secret = sandbox
        .with_key(EXTRACTION_KEY, "POST /v1/webhooks", &body)
        .await
        .between(r#""secret":""#);
    let body = r#"{"event":"extraction.completed","data":{"total":"42.00"}}"#;
    let fired = sandbox.control("POST /_sandbox/extractions", body).await;
    assert_eq!(fired.status, 202);

    sandbox.settle().await;
    for (number, seconds) in [2, 4, 8, 16, 32].into_iter().enumerate() {
        sandbox.advance(&format!("{}ms", seconds * 1000 - 1)).await;
        assert_eq!(receiver.received().len(), number + 1, "before {seconds} s");
        sandbox.advance("1ms").await;
        assert_eq!(receiver.received().len(), number + 2, "after {seconds} s");
    }

    sandbox.advance("1d").await;
    let received = receiver.received();
    assert_eq!(received.len(), 6);
    assert!(
        received.iter().all(|one| one.body == received[0].body),
        "all attempts have the same body"
    );
    assert_eq!(received[0].id(), fired.id());
    assert!(
        received[0].body.ends_with(r#""data":{"total":"42.00"}}"#),
        "{received:?}"
    );
    assert_eq!(
        received[0].header("x-service-event"),
        "extraction.completed"
    );

    let signature = format!("sha256={}", hmac(&secret, &received[0].body));
    assert_eq!(received[5].header("x-service-signature"), signature);

    // `extraction.failed` has an error by default.
    let body = format!(
        r#"{{"url":"{}","events":["extraction.failed"]}}"#,
        receiver.url()
    );
    sandbox
        .with_key(EXTRACTION_KEY, "POST /v1/webhooks", &body)
        .await;
    sandbox
        .control(
            "POST /_sandbox/extractions",
            r#"{"event":"extraction.failed"}"#,
        )
        .await;
    sandbox.settle().await;
    let last = receiver.received().pop().unwrap();
    assert!(
        last.body.contains(r#""data":{"error":{"code":""#),
        "{last:?}"
    );

    // Large data is stored apart.
    let data = format!(r#""data":{{"text":"{}"}}}}"#, "x".repeat(2_000));
    let event = format!(r#"{{"event":"extraction.failed",{data}"#);
    sandbox.control("POST /_sandbox/extractions", &event).await;
    sandbox.settle().await;
    let last = receiver.received().pop().unwrap();
    assert!(last.body.ends_with(&data), "{last:?}");
}

/// Every attempt uses the current URL and secret
/// (`docs/undocumented/services.md#retry-schedule`).
#[tokio::test]
async fn a_retry_uses_the_updated_url() {
    let sandbox = Sandbox::start().await;
    sandbox.freeze().await;
    let first = Receiver::start(&[500]).await;
    let second = Receiver::start(&[]).await;
    let (id, _) = webhook(&sandbox, &first, r#""email.delivered""#).await;
    send(&sandbox, "ada@x.test").await;
    sandbox.settle().await;
    let line = format!("PATCH /api/v1/webhooks/{id}");
    sandbox
        .call(&line, &format!(r#"{{"url":"{}"}}"#, second.url()))
        .await;
    sandbox.advance("2s").await;
    assert_eq!((first.received().len(), second.received().len()), (1, 1));
}

#[tokio::test]
async fn deliveries_due_while_the_webhook_is_inactive_or_deleted_are_dropped() {
    let sandbox = Sandbox::start().await;
    sandbox.freeze().await;
    let receiver = Receiver::start(&[500, 500]).await;
    let (paused, _) = webhook(&sandbox, &receiver, r#""email.delivered""#).await;
    let (deleted, _) = webhook(&sandbox, &receiver, r#""email.delivered""#).await;
    send(&sandbox, "ada@x.test").await;
    sandbox.settle().await;
    assert_eq!(receiver.received().len(), 2);

    let line = format!("PATCH /api/v1/webhooks/{paused}");
    sandbox.call(&line, r#"{"active":false}"#).await;
    sandbox
        .call(&format!("DELETE /api/v1/webhooks/{deleted}"), "")
        .await;
    // An inactive webhook gets no new deliveries, and pending ones are dropped.
    send(&sandbox, "bob@x.test").await;
    sandbox.advance("2s").await;
    sandbox.call(&line, r#"{"active":true}"#).await;
    sandbox.advance("1d").await;
    assert_eq!(receiver.received().len(), 2);

    send(&sandbox, "carl@x.test").await;
    sandbox.settle().await;
    assert_eq!(receiver.received().len(), 3);
}

#[tokio::test]
async fn deleting_a_webhook_ends_its_attempt_in_flight() {
    let sandbox = Sandbox::start().await;
    sandbox.freeze().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let body = format!(r#"{{"url":"{url}","events":["email.delivered"]}}"#);
    let webhook = sandbox.call("POST /api/v1/webhooks", &body).await.id();
    send(&sandbox, "ada@x.test").await;
    let accept = within("an attempt", listener.accept());
    let (mut attempt, _) = accept.await.expect("an attempt");
    let deleted = sandbox
        .call(&format!("DELETE /api/v1/webhooks/{webhook}"), "")
        .await;
    assert_eq!(deleted.status, 204);

    // The endpoint never responds.
    let mut request = Vec::new();
    let _ = within("the end of the attempt", attempt.read_to_end(&mut request)).await;

    let delivery = sandbox
        .control(&format!("GET /_sandbox/deliveries?webhook={webhook}"), "")
        .await;
    assert_eq!(delivery.between(r#""state":""#), "dropped", "{delivery:?}");

    sandbox.advance("1d").await;
    assert!(listener.accept().now_or_never().is_none());
}

#[tokio::test]
async fn url_credentials_are_sent_but_not_recorded() {
    let sandbox = Sandbox::start().await;
    let receiver = Receiver::start(&[]).await;
    let url = receiver.url().replace("http://", "http://ada:s3cret@");
    let body = format!(r#"{{"url":"{url}","events":["email.sent"]}}"#);
    let id = sandbox.call("POST /api/v1/webhooks", &body).await.id();
    let tested = sandbox
        .call(&format!("POST /api/v1/webhooks/{id}/test"), "")
        .await;
    assert!(tested.body.contains(r#""statusCode":200"#), "{tested:?}");
    assert_eq!(
        receiver.received()[0].header("authorization"),
        "Basic YWRhOnMzY3JldA=="
    );

    let delivery = sandbox.control("GET /_sandbox/deliveries", "").await.id();
    let details = sandbox
        .control(&format!("GET /_sandbox/deliveries/{delivery}"), "")
        .await;
    assert!(
        details.body.contains(r#""url":"http://ada:***@"#),
        "{details:?}"
    );
    assert!(
        !details.body.contains("s3cret") && !details.body.contains("YWRhOn"),
        "{details:?}"
    );
}

/// Also while an earlier event is being tried again. Different emails go out side by side.
#[tokio::test]
async fn the_events_of_an_email_reach_a_webhook_in_order() {
    let sandbox = Sandbox::start().await;
    sandbox.freeze().await;
    let receiver = Receiver::start(&[500, 200, 500]).await;
    let all = r#""email.sent","email.delivered","email.complained""#;
    webhook(&sandbox, &receiver, all).await;
    let first = send(&sandbox, "complained@x.test").await;
    sandbox.settle().await;
    let second = send(&sandbox, "ada@x.test").await;
    sandbox.settle().await;
    let events_of = |id: &str| -> Vec<String> {
        let received = receiver
            .received()
            .into_iter()
            .filter(|one| one.body.contains(id));
        received
            .map(|one| one.header("mail-event").to_owned())
            .collect()
    };

    // The second attempt of the first event is due, and the others wait for it.
    assert_eq!(events_of(&first), ["email.sent"]);
    assert_eq!(events_of(&second), ["email.sent", "email.delivered"]);

    let state = sandbox.control("GET /_sandbox/clock", "").await;
    assert!(state.body.contains(r#""settled":true"#), "{state:?}");

    let list = sandbox
        .control("GET /_sandbox/deliveries?state=pending", "")
        .await;
    assert_eq!(
        list.body.matches(r#""nextDueAt":null"#).count(),
        2,
        "{list:?}"
    );

    sandbox.advance("1m").await;
    let in_order = [
        "email.sent",
        "email.sent",
        "email.delivered",
        "email.complained",
    ];
    assert_eq!(events_of(&first), in_order);
    assert_eq!(
        events_of(&second),
        ["email.sent", "email.delivered", "email.delivered"]
    );
}
