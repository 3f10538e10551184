//! The extraction service (`docs/extraction-service/README.md`).

use crate::harness::{EXTRACTION_KEY, Sandbox};

#[tokio::test]
async fn me_shows_the_organization_and_the_key() {
    let sandbox = Sandbox::start().await;
    let created = sandbox
        .control(
            "POST /_sandbox/organizations",
            r#"{"name":"Acme","balance_cents":1250}"#,
        )
        .await;
    let key = created.between(r#""extraction_key":""#);
    let me = sandbox.with_key(&key, "GET /v1/me", "").await;
    let key_id = me.between(r#""key_id":""#);
    let expected = format!(
        r#"{{"organization":{{"id":"{}","name":"Acme","balance_cents":1250}},"auth":{{"method":"api_key","scope":"full","key_id":"{key_id}"}}}}"#,
        created.id()
    );
    assert_eq!((me.status, me.body.as_str()), (200, expected.as_str()));
    assert!(key_id.starts_with("key_"), "{me:?}");
}

#[tokio::test]
async fn an_endpoint_that_gets_no_deliveries_says_so() {
    let sandbox = Sandbox::start().await;
    let webhook = r#"{"url":"http://127.0.0.1:9/","events":["extraction.failed"],"active":false}"#;
    let body = format!(r#"{{"webhooks":[{webhook}]}}"#);
    let created = sandbox.control("POST /_sandbox/organizations", &body).await;
    let key = created.between(r#""extraction_key":""#);
    let listed = sandbox.with_key(&key, "GET /v1/webhooks", "").await;
    assert_eq!(listed.between(r#""status":""#), "inactive");
}

#[tokio::test]
async fn registers_lists_and_removes_endpoints() {
    let sandbox = Sandbox::start().await;
    let body = r#"{"url":"http://receiver.test/hook?x=1","events":["extraction.completed","extraction.failed"]}"#;
    let created = sandbox
        .with_key(EXTRACTION_KEY, "POST /v1/webhooks", body)
        .await;
    let (id, secret) = (created.id(), created.between(r#""secret":""#));
    let rest = r#""events":["extraction.completed","extraction.failed"],"status":"active"}"#;
    let url = r#""url":"http://receiver.test/hook?x=1""#;
    let expected = format!(r#"{{"id":"{id}",{url},"secret":"{secret}",{rest}"#);
    assert_eq!(
        (created.status, created.body.as_str()),
        (201, expected.as_str())
    );
    assert!(secret.len() > 32, "{secret}");

    let listed = sandbox
        .with_key(EXTRACTION_KEY, "GET /v1/webhooks", "")
        .await;
    let expected = format!(r#"[{{"id":"{id}",{url},{rest}]"#);
    assert_eq!(
        (listed.status, listed.body.as_str()),
        (200, expected.as_str())
    );

    let line = format!("DELETE /v1/webhooks/{id}");
    let removed = sandbox.with_key(EXTRACTION_KEY, &line, "").await;
    assert_eq!((removed.status, removed.body.as_str()), (204, ""));
    assert_eq!(
        sandbox.with_key(EXTRACTION_KEY, &line, "").await.status,
        404
    );
    assert_eq!(
        sandbox
            .with_key(EXTRACTION_KEY, "GET /v1/webhooks", "")
            .await
            .body,
        "[]"
    );
}

/// `docs/undocumented/services.md#webhook-registration`.
#[tokio::test]
async fn requires_a_valid_url_and_events() {
    let sandbox = Sandbox::start().await;
    for (body, field) in [
        (r#"{"events":["extraction.failed"]}"#, "url"),
        (r#"{"url":"https://a.test/"}"#, "events"),
        (r#"{"url":"https://a.test/","events":[]}"#, "events"),
        (
            r#"{"url":"https://a.test/","events":["email.sent"]}"#,
            "events[0]",
        ),
        (
            r#"{"url":"https://a.test/","events":"extraction.failed"}"#,
            "events",
        ),
        (r#"{"url":"/hook","events":["extraction.failed"]}"#, "url"),
        (
            r#"{"url":"ftp://a.test/","events":["extraction.failed"]}"#,
            "url",
        ),
        (r#"{"url":"","events":["extraction.failed"]}"#, "url"),
    ] {
        let rejected = sandbox
            .with_key(EXTRACTION_KEY, "POST /v1/webhooks", body)
            .await;
        assert_eq!(
            (rejected.status, rejected.between(r#""field":""#).as_str()),
            (422, field),
            "{body}"
        );
    }
}
