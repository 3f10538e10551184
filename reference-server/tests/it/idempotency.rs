//! `Idempotency-Key` (`docs/undocumented/README.md#idempotency`).

use crate::harness::{KEY, Sandbox};

const SEND: &str = "POST /api/v1/emails";
const BODY: &str = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;

async fn with(sandbox: &Sandbox, key: &str, line: &str, body: &str) -> (u16, String) {
    let headers = format!("authorization: Bearer {KEY}\r\nidempotency-key: {key}\r\n");
    let response = sandbox.raw(line, &headers, body).await;
    (response.status, response.body)
}

#[tokio::test]
async fn a_repeated_request_gets_the_first_response() {
    let sandbox = Sandbox::start().await;
    for (line, body) in [
        (SEND, BODY),
        ("POST /api/v1/emails/batch", &format!("[{BODY}]")),
        ("POST /api/v1/audiences", r#"{"name":"a"}"#),
        ("POST /api/v1/domains", r#"{"name":"once.test"}"#),
        (
            "POST /api/v1/webhooks",
            r#"{"url":"https://a.test/","events":["email.sent"]}"#,
        ),
    ] {
        let first = with(&sandbox, line.rsplit('/').next().unwrap(), line, body).await;
        assert!((200..300).contains(&first.0), "{line}: {first:?}");
        for _ in 0..2 {
            let again = with(&sandbox, line.rsplit('/').next().unwrap(), line, body).await;
            assert_eq!(again, first, "{line}");
        }
    }
    assert_eq!(
        sandbox
            .call("GET /api/v1/audiences", "")
            .await
            .body
            .matches("aud_")
            .count(),
        1
    );
}

#[tokio::test]
async fn concurrent_requests_with_one_key_run_once() {
    let sandbox = Sandbox::start().await;
    let calls = (0..16).map(|_| with(&sandbox, "k", SEND, BODY));
    let responses = futures_util::future::join_all(calls).await;
    assert_eq!(responses[0].0, 202);
    assert!(
        responses.iter().all(|response| *response == responses[0]),
        "{responses:?}"
    );
}

#[tokio::test]
async fn rejects_a_different_request_with_the_same_key() {
    let sandbox = Sandbox::start().await;
    with(&sandbox, "k", SEND, BODY).await;
    let (status, body) = with(&sandbox, "k\r\nidempotency-key: k", SEND, BODY).await;
    assert_eq!(status, 422, "two keys: {body}");

    let other = BODY.replace("\"s\"", "\"t\"");
    let (status, body) = with(&sandbox, "k", SEND, &other).await;
    assert_eq!(status, 409);
    assert!(body.contains(r#""code":"idempotency_mismatch""#), "{body}");

    let (status, _) = with(&sandbox, "k", "POST /api/v1/audiences", BODY).await;
    assert_eq!(status, 422, "the body is validated before the key");

    let (status, _) = with(&sandbox, "k", "POST /api/v1/audiences", r#"{"name":"a"}"#).await;
    assert_eq!(status, 409);

    // The same body for another resource is a different request.
    let audience = |name: &'static str| {
        let body = format!(r#"{{"name":"{name}"}}"#);
        let sandbox = &sandbox;
        async move { sandbox.call("POST /api/v1/audiences", &body).await.id() }
    };

    let contact = r#"{"email":"ada@x.test"}"#;
    for (name, expected) in [("one", 201), ("two", 409)] {
        let line = format!("POST /api/v1/audiences/{}/contacts", audience(name).await);
        assert_eq!(
            with(&sandbox, "contact", &line, contact).await.0,
            expected,
            "{name}"
        );
    }

    // Organizations do not share idempotency keys.
    let (key, _) = sandbox.organization().await;
    let headers = format!("authorization: Bearer {key}\r\nidempotency-key: k\r\n");
    assert_eq!(
        sandbox
            .raw("POST /api/v1/audiences", &headers, r#"{"name":"a"}"#)
            .await
            .status,
        201
    );
}

#[tokio::test]
async fn stores_responses_for_a_day_but_no_errors() {
    let sandbox = Sandbox::start().await;
    sandbox.freeze().await;
    let rejected = BODY.replace("sandbox.test", "unverified.test");
    assert_eq!(with(&sandbox, "k", SEND, &rejected).await.0, 403);

    let first = with(&sandbox, "k", SEND, BODY).await;
    assert_eq!(first.0, 202);

    sandbox.advance("23h").await;
    assert_eq!(with(&sandbox, "k", SEND, BODY).await, first);

    sandbox.advance("1h").await;
    let later = with(&sandbox, "k", SEND, BODY).await;
    assert_eq!(later.0, 202);
    assert_ne!(later, first);

    for key in ["", "  ", &"k".repeat(256)] {
        assert_eq!(with(&sandbox, key, SEND, BODY).await.0, 422, "{key:?}");
    }
}

#[tokio::test]
async fn a_repeated_webhook_test_is_sent_once() {
    let sandbox = Sandbox::start().await;
    let receiver = crate::receiver::Receiver::start(&[]).await;
    let body = format!(r#"{{"url":"{}","events":["email.sent"]}}"#, receiver.url());
    let id = sandbox.call("POST /api/v1/webhooks", &body).await.id();
    let line = format!("POST /api/v1/webhooks/{id}/test");
    let first = with(&sandbox, "k", &line, "").await;
    assert_eq!(first.0, 200);
    assert_eq!(with(&sandbox, "k", &line, "").await, first);
    assert_eq!(receiver.received().len(), 1);
}
