//! Webhooks of the email service (`docs/email-service/webhooks.md`).

use serde_json::{Value, json};

use crate::harness::{EXTRACTION_KEY, Sandbox};
use crate::receiver::Receiver;

const CREATE: &str = "POST /api/v1/webhooks";

#[tokio::test]
async fn creates_lists_updates_and_deletes_webhooks() {
    let sandbox = Sandbox::start().await;
    let now = sandbox.freeze().await;
    let body =
        r#"{"url":"https://a.test/hook","events":["email.sent","email.bounced","email.sent"]}"#;
    let created = sandbox.call(CREATE, body).await;
    let (id, secret) = (created.id(), created.between(r#""signingSecret":""#));
    let start = format!(
        r#"{{"id":"{id}","url":"https://a.test/hook","events":["email.sent","email.bounced"],"active":true"#
    );
    let times = format!(r#""createdAt":"{now}","updatedAt":"{now}"}}"#);
    let expected = format!(r#"{start},"signingSecret":"{secret}",{times}"#);
    assert_eq!(
        (created.status, created.body.as_str()),
        (201, expected.as_str())
    );

    let listed = sandbox.call("GET /api/v1/webhooks", "").await;
    let without = format!("{start},{times}");
    assert_eq!(
        (listed.status, listed.body.as_str()),
        (200, format!("[{without}]").as_str())
    );

    sandbox.advance("1s").await;
    let line = format!("PATCH /api/v1/webhooks/{id}");
    for body in [
        "{}",
        r#"{"active":true}"#,
        r#"{"url":"https://a.test/hook"}"#,
    ] {
        let same = sandbox.call(&line, body).await;
        assert_eq!(
            (same.status, same.body.as_str()),
            (200, without.as_str()),
            "{body}"
        );
    }

    let body = r#"{"url":"https://b.test/","events":["email.failed"],"active":false}"#;
    let updated = sandbox.call(&line, body).await;
    let shown = r#""url":"https://b.test/","events":["email.failed"],"active":false,"createdAt""#;
    assert!(updated.body.contains(shown), "{updated:?}");
    assert_ne!(updated.between(r#""updatedAt":""#), now);

    let line = format!("DELETE /api/v1/webhooks/{id}");
    let deleted = sandbox.call(&line, "").await;
    assert_eq!((deleted.status, deleted.body.as_str()), (204, ""));
    assert_eq!(sandbox.call(&line, "").await.status, 404);
    assert_eq!(sandbox.call("GET /api/v1/webhooks", "").await.body, "[]");
}

#[tokio::test]
async fn rejects_invalid_urls_and_events() {
    let sandbox = Sandbox::start().await;
    let created = sandbox
        .call(
            CREATE,
            r#"{"url":"https://a.test/","events":["email.sent"]}"#,
        )
        .await;
    let update = format!("PATCH /api/v1/webhooks/{}", created.id());
    for (body, field) in [
        (
            r#"{"url":"http://169.254.169.254/","events":["email.sent"]}"#,
            "url",
        ),
        (r#"{"url":"a.test","events":["email.sent"]}"#, "url"),
        (r#"{"url":"https:a.test","events":["email.sent"]}"#, "url"),
        (
            r#"{"url":"https:///a.test/","events":["email.sent"]}"#,
            "url",
        ),
        (r#"{"url":"https://","events":["email.sent"]}"#, "url"),
        (
            r#"{"url":" https://a.test/","events":["email.sent"]}"#,
            "url",
        ),
        (
            r#"{"url":"https://a.test/\r\n","events":["email.sent"]}"#,
            "url",
        ),
        (r#"{"url":"https://a.test/","events":[]}"#, "events"),
        (
            r#"{"url":"https://a.test/","events":["email.sent","email.exploded"]}"#,
            "events[1]",
        ),
        (
            r#"{"url":"https://a.test/","events":["extraction.failed"]}"#,
            "events[0]",
        ),
        (
            r#"{"url":"https://a.test/","events":["webhook.test"]}"#,
            "events[0]",
        ),
    ] {
        for line in [CREATE, &update] {
            let rejected = sandbox.call(line, body).await;
            let got = (rejected.status, rejected.between(r#""field":""#));
            assert_eq!((got.0, got.1.as_str()), (422, field), "{line} {body}");
        }
    }

    assert_eq!(
        sandbox
            .call(CREATE, r#"{"url":"https://a.test/"}"#)
            .await
            .status,
        422
    );
    assert_eq!(
        sandbox
            .call(CREATE, r#"{"events":["email.sent"]}"#)
            .await
            .status,
        422
    );

    for host in ["127.0.0.1:9", "localhost:9", "[::1]:9"] {
        let body = format!(r#"{{"url":"http://{host}/","events":["email.sent"]}}"#);
        assert_eq!(sandbox.call(CREATE, &body).await.status, 201, "{host}");
    }

    for (length, status) in [(2048, 201), (2049, 422)] {
        let url = format!(
            "https://a.test/{}",
            "x".repeat(length - "https://a.test/".len())
        );
        let body = format!(r#"{{"url":"{url}","events":["email.sent"]}}"#);
        assert_eq!(sandbox.call(CREATE, &body).await.status, status, "{length}");
    }

    // An address that no attempt would reach is refused at once, and the error says why.
    let public = Sandbox::public().await;
    let (key, extraction_key) = public.organization().await;
    for (url, reason) in [
        (
            "http://a.test/",
            "must be an https URL; with --network public",
        ),
        (
            "https://10.0.0.1/",
            "10.0.0.1 is a private address (10.0.0.0/8)",
        ),
        (
            "https://localhost/",
            "127.0.0.1 is a loopback address (127.0.0.0/8)",
        ),
    ] {
        let body = format!(r#"{{"url":"{url}","events":["email.sent"]}}"#);
        let refused = public.with_key(&key, CREATE, &body).await;
        assert!(
            refused.status == 422 && refused.body.contains(reason),
            "{refused:?}"
        );
    }

    let body = r#"{"url":"http://192.168.0.1/","events":["extraction.failed"]}"#;
    let refused = public
        .with_key(&extraction_key, "POST /v1/webhooks", body)
        .await;
    assert!(
        refused.status == 422 && refused.body.contains("is a private address"),
        "{refused:?}"
    );
}

/// A single signed attempt, even to an inactive webhook
/// (`docs/undocumented/services.md#webhook-test`).
#[tokio::test]
async fn the_test_operation_returns_the_status_of_the_endpoint() {
    let sandbox = Sandbox::start().await;
    let receiver = Receiver::start(&[204, 500]).await;
    let body = format!(
        r#"{{"url":"{}","events":["email.failed"]}}"#,
        receiver.url()
    );
    let created = sandbox.call(CREATE, &body).await;
    let line = format!("PATCH /api/v1/webhooks/{}", created.id());
    sandbox.call(&line, r#"{"active":false}"#).await;
    let line = format!("POST /api/v1/webhooks/{}/test", created.id());
    for status in [204, 500] {
        let tested = sandbox.call(&line, "").await;
        assert_eq!(tested.status, 200);
        assert!(
            tested.body.contains(&format!(r#""statusCode":{status}"#)),
            "{tested:?}"
        );
        assert!(tested.body.contains(r#""durationMs":"#), "{tested:?}");
    }

    let received = receiver.received();
    assert_eq!(received.len(), 2, "expected one attempt each");
    assert_eq!(received[0].header("mail-event"), "webhook.test");
    assert!(
        received[0]
            .body
            .starts_with(r#"{"event":"webhook.test","id":""#),
        "{received:?}"
    );

    let secret = created.between(r#""signingSecret":""#);
    assert_eq!(
        received[0].header("mail-signature"),
        hmac(&secret, &received[0].body)
    );

    sandbox
        .call(
            &format!("PATCH /api/v1/webhooks/{}", created.id()),
            r#"{"url":"http://127.0.0.1:1/"}"#,
        )
        .await;
    let unreachable = sandbox.call(&line, "").await;
    let expected = json!({"statusCode": null, "error": "cannot connect: connection refused"});
    assert_eq!(unreachable.status, 200);
    assert_eq!(
        serde_json::from_str::<Value>(&unreachable.body).expect("JSON"),
        expected
    );
    assert_eq!(
        sandbox
            .call("POST /api/v1/webhooks/whk_x/test", "")
            .await
            .status,
        404
    );
}

/// Computes the signature with ring, which the server does not use for signing.
pub(crate) fn hmac(secret: &str, body: &str) -> String {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    hex::encode(ring::hmac::sign(&key, body.as_bytes()))
}

/// `docs/control-interface.md#webhooks`.
#[tokio::test]
async fn the_control_interface_lists_those_of_both_services_with_their_secrets() {
    let sandbox = Sandbox::start().await;
    let new = r#"{"url":"https://app.test/mail","events":["email.bounced"]}"#;
    let created = sandbox.call("POST /api/v1/webhooks", new).await;
    let (id, secret) = (created.id(), created.between(r#""signingSecret":""#));
    let paused = sandbox
        .call(
            &format!("PATCH /api/v1/webhooks/{id}"),
            r#"{"active":false}"#,
        )
        .await;
    let (created_at, updated_at) = (
        paused.between(r#""createdAt":""#),
        paused.between(r#""updatedAt":""#),
    );
    let new = r#"{"url":"https://app.test/docs","events":["extraction.failed"]}"#;
    let other = sandbox
        .with_key(EXTRACTION_KEY, "POST /v1/webhooks", new)
        .await;
    let requests = sandbox
        .control("GET /_sandbox/requests?limit=100", "")
        .await
        .body;

    let listed = sandbox.control("GET /_sandbox/webhooks", "").await;
    let first = format!(
        r#"[{{"id":"{id}","service":"email","url":"https://app.test/mail","events":["email.bounced"],"active":false,"secret":"{secret}","createdAt":"{created_at}","updatedAt":"{updated_at}"}},{{"id":"{}","service":"extraction","url":"https://app.test/docs","events":["extraction.failed"],"active":true,"secret":"{}","#,
        other.id(),
        other.between(r#""secret":""#),
    );
    assert_eq!(listed.status, 200);
    assert!(listed.body.starts_with(&first), "{listed:?}");
    // Looking is not in the log of requests.
    assert_eq!(
        sandbox
            .control("GET /_sandbox/requests?limit=100", "")
            .await
            .body,
        requests
    );

    sandbox
        .control("POST /_sandbox/organizations", r#"{"name":"Other"}"#)
        .await;
    let others = sandbox
        .control("GET /_sandbox/webhooks?organization=Other", "")
        .await;
    assert_eq!(others.body, "[]");
}
