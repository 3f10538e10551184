//! The extraction service on the wire (`docs/extraction-service/webhooks.md`).

use svc_sdk::extraction::{Event, KeyScope, NewWebhook};
use svc_sdk::{ErrorKind, Operation, Outcome, Scope};

use crate::peer::{Peer, answer, with_headers};

const ME: &str = r#"{"organization":{"id":"org_1","name":"Acme","balance_cents":1250},
    "auth":{"method":"api_key","scope":"full","key_id":"key_1"}}"#;

#[tokio::test]
async fn me() {
    let peer = Peer::json(200, ME).await;
    let client = peer.extraction().build().unwrap();
    let me = client.me().await.unwrap();
    let seen = peer.only();
    assert_eq!(seen.line, "GET /v1/me HTTP/1.1");
    assert_eq!(seen.header("authorization"), Some("Bearer sk_test_secret"));
    assert_eq!((me.organization.id.as_str(), me.organization.name.as_str()), ("org_1", "Acme"));
    assert_eq!(me.organization.balance_cents, Some(1250));
    assert_eq!(me.auth.method.as_deref(), Some("api_key"));
    assert_eq!(me.auth.scope, Some(KeyScope::Full));
    assert_eq!(me.auth.key_id.as_deref(), Some("key_1"));
}

#[tokio::test]
async fn the_organization_is_verified() {
    let peer = Peer::start([with_headers(200, "X-Request-Id: r\r\n", ME)]).await;
    let client = peer.extraction().build().unwrap();
    assert_eq!(client.verify_organization("org_1").await.unwrap().organization.name, "Acme");
    let error = client.verify_organization("org_2").await.unwrap_err();
    assert_eq!(
        error.kind(),
        &ErrorKind::WrongOrganization { expected: "org_2".into(), actual: "org_1".into() }
    );
    assert_eq!(
        error.to_string(),
        "extraction me: the key belongs to organization org_1, not to org_2 (http 200); request id r"
    );
}

#[tokio::test]
async fn webhooks_create() {
    let peer = Peer::json(
        201,
        r#"{"id":"whk_1","url":"http://x.test","secret":"s3cret","events":["extraction.completed"],
            "status":"active"}"#,
    )
    .await;
    let client = peer.extraction().build().unwrap();
    let webhook = NewWebhook::new("http://x.test", [Event::Completed]);
    let webhook = client.webhooks().create(&webhook).await.unwrap();
    let seen = peer.only();
    assert_eq!(seen.line, "POST /v1/webhooks HTTP/1.1");
    assert_eq!(seen.body, r#"{"url":"http://x.test","events":["extraction.completed"]}"#);
    assert_eq!(webhook.secret.as_ref().unwrap().expose(), "s3cret");
    assert_eq!(webhook.status.as_deref(), Some("active"));
    assert!(!format!("{webhook:?}").contains("s3cret"));
}

#[tokio::test]
async fn webhooks_list() {
    let peer = Peer::json(200, r#"[{"id":"whk_1","status":"active","events":[]}]"#).await;
    let client = peer.extraction().build().unwrap();
    let webhooks = client.webhooks().list().await.unwrap();
    assert_eq!(peer.only().line, "GET /v1/webhooks HTTP/1.1");
    assert_eq!(webhooks[0].id, "whk_1");
}

#[tokio::test]
async fn webhooks_delete_with_any_answer() {
    for (status, body) in [(204, ""), (200, ""), (200, r#"{"deleted":true}"#), (202, "gone")] {
        let peer = Peer::json(status, body).await;
        let client = peer.extraction().build().unwrap();
        let deleted = client.webhooks().delete("whk_1").await.unwrap();
        assert_eq!(peer.only().line, "DELETE /v1/webhooks/whk_1 HTTP/1.1");
        assert_eq!(deleted.extra.raw(), body);
    }
}

#[tokio::test]
async fn a_known_scope_is_checked_before_sending_when_asked_to() {
    let limited = ME.replace("full", "extract_only");
    let peer = Peer::start([answer(200, &limited), answer(200, "[]")]).await;
    let client = peer.extraction().check_scopes(true).build().unwrap();
    client.me().await.unwrap();
    let error = client.webhooks().list().await.unwrap_err();
    assert_eq!(
        error.kind(),
        &ErrorKind::MissingScope {
            required: Some(Scope::Full),
            granted: Some([Scope::ExtractOnly].into_iter().collect()),
        }
    );
    assert_eq!(error.outcome(), Outcome::NotSent);
    assert_eq!(error.operation(), Some(Operation::ExtractionWebhooksList));
    assert_eq!(
        error.to_string(),
        "extraction webhooks.list: the key lacks the scope full, it has extract_only"
    );
    // By whatever way it is called.
    let raw = client.raw("GET", "/v1/webhooks?x=y").await.unwrap_err();
    assert_eq!((raw.kind(), raw.operation()), (error.kind(), error.operation()));
    assert_eq!(peer.lines().len(), 1);
    // Any key may ask for itself.
    client.me().await.unwrap();
}
