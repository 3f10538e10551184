//! What the handlers do themselves in another dialect. What the edge does is tested with the SDK, in
//! `tests/it/dialect.rs` of the workspace.

use svc_sdk::Dialect;

use crate::harness::{EXTRACTION_KEY, KEY, Sandbox};
use crate::receiver::Receiver;

async fn with(setting: &str) -> Sandbox {
    let dialect = Dialect::with([setting]).expect("a valid choice");
    let sandbox = Sandbox::with(|builder| builder.dialect(dialect)).await;
    sandbox.with_own_description()
}

const EMAIL: &str = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;

const HOOK: &str = r#"{"url":"https://a.test/","events":["email.sent"]}"#;
const ENDPOINT: &str = r#"{"url":"https://a.test/","events":["extraction.failed"]}"#;

#[tokio::test]
async fn create_status_is_200() {
    let sandbox = with("create-status=200").await;
    let audience = sandbox
        .call("POST /api/v1/audiences", r#"{"name":"a"}"#)
        .await;
    assert_eq!(audience.status, 200);
    let contacts = format!("POST /api/v1/audiences/{}/contacts", audience.id());
    for (key, line, body) in [
        (KEY, contacts.as_str(), r#"{"email":"a@b.test"}"#),
        (KEY, "POST /api/v1/domains", r#"{"name":"a.test"}"#),
        (KEY, "POST /api/v1/webhooks", HOOK),
        (KEY, "POST /api/v1/emails", EMAIL),
        (EXTRACTION_KEY, "POST /v1/webhooks", ENDPOINT),
    ] {
        assert_eq!(
            sandbox.with_key(key, line, body).await.status,
            200,
            "{line}"
        );
    }
}

#[tokio::test]
async fn error_format_is_selectable() {
    for (setting, content_type, body) in [
        (
            "error-format=problem",
            "application/problem+json",
            r#"{"type":"about:blank","title":"Not Found","status":404,"detail":"no such audience","code":"not_found"}"#,
        ),
        (
            "error-format=flat",
            "application/json",
            r#"{"code":"not_found","message":"no such audience"}"#,
        ),
        (
            "error-format=text",
            "text/plain; charset=utf-8",
            "no such audience",
        ),
    ] {
        let sandbox = with(setting).await;
        let response = sandbox.call("GET /api/v1/audiences/x", "").await;
        assert_eq!((response.status, response.body.as_str()), (404, body));
        assert_eq!(response.header("content-type"), Some(content_type));
        // The documented error of the extraction service keeps its format.
        let documented = sandbox.raw("GET /v1/me", "", "").await;
        let expected = r#"{"error":{"code":"unauthorized","message":"no API key was given"}}"#;
        assert_eq!(
            (documented.status, documented.body.as_str()),
            (401, expected)
        );
    }
}

#[tokio::test]
async fn idempotency_is_ignored() {
    let sandbox = with("idempotency=ignored").await;
    let headers = format!("authorization: Bearer {KEY}\r\nidempotency-key: k\r\n");
    let first = sandbox.raw("POST /api/v1/emails", &headers, EMAIL).await;
    let second = sandbox.raw("POST /api/v1/emails", &headers, EMAIL).await;
    assert_ne!(first.id(), second.id());
}

#[tokio::test]
async fn extraction_error_is_a_string() {
    let sandbox = with("extraction-error=string").await;
    let receiver = Receiver::start(&[]).await;
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
    let body = receiver.received().pop().expect("a delivery").body;
    assert!(
        body.ends_with(r#""data":{"error":"the document could not be read"}}"#),
        "{body}"
    );
}

#[tokio::test]
async fn key_header_is_selectable() {
    let sandbox = with("key-header=X-Api-Key").await;
    let header = format!("x-api-key: {KEY}\r\n");
    assert_eq!(
        sandbox
            .raw("GET /api/v1/audiences", &header, "")
            .await
            .status,
        200
    );
    assert_eq!(sandbox.call("GET /api/v1/audiences", "").await.status, 401);
    // The header of the extraction service is documented, so it does not change.
    assert_eq!(
        sandbox
            .with_key(EXTRACTION_KEY, "GET /v1/me", "")
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn unknown_fields_are_refused() {
    for setting in ["unknown-fields=refused"] {
        let sandbox = with(setting).await;
        let email = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","scheduled_at":"2999-01-01","colour":1,"a b":1,"tags":{"any":1},
            "attachments":[{"filename":"a","content":"","contenttype":"text/plain"}]}"#;
        let refused = sandbox.call("POST /api/v1/emails", email).await;
        assert_eq!(refused.status, 422, "{refused:?}");
        for problem in [
            r#"{"field":"scheduled_at","message":"is not a field of this request; did you mean scheduledAt?"}"#,
            r#"{"field":"colour","message":"is not a field of this request"}"#,
            r#"{"field":"","message":"is not a field of this request"}"#,
            r#"{"field":"attachments[0].contenttype","message":"is not a field of this request; did you mean contentType?"}"#,
        ] {
            assert!(
                refused.body.contains(problem),
                "{problem} in {}",
                refused.body
            );
        }
        assert_eq!(
            refused.body.matches(r#""field":"#).count(),
            4,
            "{refused:?}"
        );
        // Each email of a batch stands alone.
        let batch = format!("[{email},{EMAIL}]");
        let results = sandbox.call("POST /api/v1/emails/batch", &batch).await;
        assert!(
            results.body.contains("did you mean scheduledAt?"),
            "{results:?}"
        );
        assert!(
            results.body.contains(r#"{"index":1,"id":"eml_"#),
            "{results:?}"
        );
        let webhook = HOOK.replace("\"url\"", "\"URL\"");
        let refused = sandbox.call("POST /api/v1/webhooks", &webhook).await;
        assert!(refused.body.contains("did you mean url?"), "{refused:?}");
    }
    let sandbox = Sandbox::start().await;
    let email = EMAIL.replace('}', r#","scheduled_at":"2999-01-01"}"#);
    assert_eq!(
        sandbox.call("POST /api/v1/emails", &email).await.status,
        202
    );
}
