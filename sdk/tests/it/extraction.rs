//! Requests and responses of the extraction service
//! (`docs/extraction-service/README.md#webhook-endpoints`).

use svc_sdk::extraction::{Event, NewWebhook};
use svc_sdk::{ErrorKind, Operation, Outcome, Scope};

use crate::mock_server::{MockServer, response_with_headers};

const ME: &str = r#"{"organization":{"id":"org_1","name":"Acme","balance_cents":1250},
    "auth":{"method":"api_key","scope":"full","key_id":"key_1"}}"#;

#[tokio::test]
async fn me() {
    let server = MockServer::json(200, ME).await;
    let client = server.extraction().build().unwrap();
    let me = client.me().await.unwrap();
    let request = server.single_request();
    assert_eq!(request.line, "GET /v1/me HTTP/1.1");
    assert_eq!(
        request.header("authorization"),
        Some("Bearer sk_test_secret")
    );
    assert_eq!(
        (me.organization.id.as_str(), me.organization.name.as_str()),
        ("org_1", "Acme")
    );
    assert_eq!(me.organization.balance_cents, Some(1250));
    assert_eq!(me.auth.method.as_deref(), Some("api_key"));
    assert_eq!(me.auth.scope.as_deref(), Some("full"));
    assert_eq!(me.auth.key_id.as_deref(), Some("key_1"));
}

#[tokio::test]
async fn verify_organization_rejects_another_organization() {
    let server = MockServer::start([response_with_headers(200, "X-Request-Id: r\r\n", ME)]).await;
    let client = server.extraction().build().unwrap();
    assert_eq!(
        client
            .verify_organization("org_1")
            .await
            .unwrap()
            .organization
            .name,
        "Acme"
    );

    let error = client.verify_organization("org_2").await.unwrap_err();
    assert_eq!(
        error.kind(),
        &ErrorKind::wrong_organization("org_2", "org_1")
    );
    assert_eq!(
        error.to_string(),
        "extraction me: the API key belongs to organization org_1, expected org_2 (HTTP 200); \
         request id r"
    );
}

#[tokio::test]
async fn webhooks_create() {
    let server = MockServer::json(
        201,
        r#"{"id":"whk_1","url":"http://x.test","secret":"s3cret","events":["extraction.completed"],
            "status":"active"}"#,
    )
    .await;
    let client = server.extraction().build().unwrap();
    let webhook = NewWebhook::new("http://x.test", [Event::ExtractionCompleted]);
    let webhook = client.webhooks().create(&webhook).await.unwrap();
    let request = server.single_request();
    assert_eq!(request.line, "POST /v1/webhooks HTTP/1.1");
    assert_eq!(
        request.body,
        r#"{"url":"http://x.test","events":["extraction.completed"]}"#
    );
    assert_eq!(webhook.secret.as_ref().unwrap().expose(), "s3cret");
    assert_eq!(webhook.status.as_deref(), Some("active"));
    assert!(!format!("{webhook:?}").contains("s3cret"));
}

#[tokio::test]
async fn webhooks_list() {
    let server = MockServer::json(200, r#"[{"id":"whk_1","status":"active","events":[]}]"#).await;
    let client = server.extraction().build().unwrap();
    let webhooks = client.webhooks().list().await.unwrap();
    assert_eq!(server.single_request().line, "GET /v1/webhooks HTTP/1.1");
    assert_eq!(webhooks[0].id, "whk_1");
}

#[tokio::test]
async fn webhooks_delete_accepts_any_success_response() {
    for (status, body, field) in [
        (204, "", None),
        (200, r#"{"deleted":true}"#, Some(&true.into())),
        (202, "gone", None),
    ] {
        let server = MockServer::json(status, body).await;
        let client = server.extraction().build().unwrap();
        let deleted = client.webhooks().delete("whk_1").await.unwrap();
        assert_eq!(
            server.single_request().line,
            "DELETE /v1/webhooks/whk_1 HTTP/1.1"
        );
        assert_eq!(deleted.extra.get("deleted"), field);
    }
}

#[tokio::test]
async fn check_scopes_uses_the_scope_learned_from_me() {
    let limited = ME.replace("full", "extract_only");
    let server = MockServer::json(200, &limited).await;
    let client = server.extraction().check_scopes(true).build().unwrap();
    client.me().await.unwrap();
    let error = client.webhooks().list().await.unwrap_err();
    assert_eq!(
        error.kind(),
        &ErrorKind::missing_scope(
            Some(Scope::Full),
            Some([Scope::ExtractOnly].into_iter().collect())
        )
    );
    assert_eq!(error.outcome(), Outcome::NotSent);
    assert_eq!(error.operation(), Some(Operation::ExtractionWebhooksList));
    assert_eq!(
        error.to_string(),
        "extraction webhooks.list: the API key lacks the scope full, \
         granted scopes: extract_only; use a key with that scope"
    );

    // Raw requests are checked as well.
    let raw = client.raw("GET", "/v1/webhooks?x=y").await.unwrap_err();
    assert_eq!(
        (raw.kind(), raw.operation()),
        (error.kind(), error.operation())
    );
    assert_eq!(server.request_count(), 1);

    // Any key may call `me`.
    client.me().await.unwrap();
}
