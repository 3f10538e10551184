//! Requests and responses of the webhook operations (`docs/email-service/webhooks.md`).

use svc_sdk::email::{Event, NewWebhook, WebhookUpdate};
use svc_sdk::{ErrorKind, StatusCode};

use crate::mock_server::MockServer;

#[tokio::test]
async fn create() {
    let server = MockServer::json(
        201,
        r#"{"id":"whk_1","url":"https://x.test/h","events":["email.sent"],"active":true,
            "signingSecret":"whsec_1"}"#,
    )
    .await;
    let client = server.email().build().unwrap();
    let webhook = NewWebhook::new("https://x.test/h", [Event::EmailSent, Event::EmailBounced]);
    let webhook = client.webhooks().create(&webhook).await.unwrap();
    let request = server.single_request();
    assert_eq!(request.line, "POST /api/v1/webhooks HTTP/1.1");
    assert_eq!(
        request.body,
        r#"{"url":"https://x.test/h","events":["email.sent","email.bounced"]}"#
    );
    assert_eq!(webhook.id, "whk_1");
    assert_eq!(webhook.url.as_deref(), Some("https://x.test/h"));
    assert_eq!(webhook.events.as_deref().unwrap(), ["email.sent"]);
    assert_eq!(webhook.active, Some(true));
    assert_eq!(webhook.signing_secret.as_ref().unwrap().expose(), "whsec_1");
    assert!(!format!("{webhook:?}").contains("whsec_1"));
}

#[tokio::test]
async fn list() {
    let server = MockServer::json(200, r#"[{"id":"whk_1","active":false}]"#).await;
    let client = server.email().build().unwrap();
    let webhooks = client.webhooks().list().await.unwrap();
    assert_eq!(
        server.single_request().line,
        "GET /api/v1/webhooks HTTP/1.1"
    );
    assert_eq!(
        (webhooks[0].active, webhooks[0].signing_secret.is_none()),
        (Some(false), true)
    );
}

#[tokio::test]
async fn update() {
    let server = MockServer::json(200, r#"{"id":"whk_1","active":false}"#).await;
    let client = server.email().build().unwrap();
    let update = WebhookUpdate::new()
        .url("https://y.test")
        .events(["email.opened"])
        .active(false);
    client.webhooks().update("whk_1", &update).await.unwrap();
    client
        .webhooks()
        .update("whk_1", WebhookUpdate::new())
        .await
        .unwrap();
    let requests = server.received_requests();
    assert_eq!(requests[0].line, "PATCH /api/v1/webhooks/whk_1 HTTP/1.1");
    assert_eq!(
        requests[0].body,
        r#"{"url":"https://y.test","events":["email.opened"],"active":false}"#
    );
    assert_eq!(requests[1].body, "{}");
}

#[tokio::test]
async fn delete() {
    let server = MockServer::json(204, "").await;
    let client = server.email().build().unwrap();
    client.webhooks().delete("whk_1").await.unwrap();
    assert_eq!(
        server.single_request().line,
        "DELETE /api/v1/webhooks/whk_1 HTTP/1.1"
    );
}

#[tokio::test]
async fn test() {
    let server = MockServer::json(200, r#"{"statusCode":204,"durationMs":12}"#).await;
    let client = server.email().build().unwrap();
    let result = client.webhooks().test("whk_1").await.unwrap();
    assert_eq!(
        server.single_request().line,
        "POST /api/v1/webhooks/whk_1/test HTTP/1.1"
    );
    assert_eq!(result.status, Some(StatusCode::NO_CONTENT));
    assert!(result.is_success());
    assert_eq!(result.extra.get("durationMs"), Some(&12.into()));
}

#[tokio::test]
async fn finds_the_test_status_in_any_field() {
    for (body, status) in [
        (r#"{"statusCode":503}"#, Some(503)),
        (r#"{"durationMs":200,"status_code":404}"#, Some(404)),
        (r#"{"status":500}"#, Some(500)),
        (r#"{"status":"ok","responseStatus":201}"#, Some(201)),
        (r#"{"code":302,"ok":false}"#, Some(302)),
        (r#"{"attempts":1,"response":{"code":"418"}}"#, Some(418)),
        (r#"{"id":212,"duration":204}"#, None),
        (r#"{"status":200,"data":{"status_code":500}}"#, Some(500)),
        (r#"{"data":{"statusCode":202}}"#, Some(202)),
        (r#"{"statusCode":null,"error":"refused","port":443}"#, None),
        (r#"{"ok":true,"n":99,"m":600}"#, None),
        ("200", Some(200)),
        ("{}", None),
        ("", None),
    ] {
        let server = MockServer::json(200, body).await;
        let client = server.email().build().unwrap();
        let result = client.webhooks().test("whk_1").await.unwrap();
        assert_eq!(result.status.map(u16::from), status, "{body}");
    }
}

#[tokio::test]
async fn rejects_webhook_urls_that_are_not_https_unless_allowed() {
    let server = MockServer::json(201, r#"{"id":"whk_1"}"#).await;
    let webhook = NewWebhook::new("http://127.0.0.1:9/h", ["email.sent"]);
    let update = WebhookUpdate::new().url("ftp://x.test");

    // The check follows the base URL: a service that is reached with http may call http.
    let secure = || svc_sdk::EmailClient::builder("https://mail.example", "k");
    let client = secure().build().unwrap();
    for error in [
        client.webhooks().create(&webhook).await.unwrap_err(),
        client.webhooks().update("w", &update).await.unwrap_err(),
    ] {
        let ErrorKind::InvalidInput(invalid) = error.kind() else {
            panic!("{error}")
        };
        assert_eq!(invalid.field, "url");
    }

    assert_eq!(server.request_count(), 0);

    for client in [
        secure().insecure_webhook_urls(true),
        secure().local_checks(false),
    ] {
        client
            .build()
            .unwrap()
            .webhooks()
            .create(&webhook)
            .to_request()
            .unwrap();
    }

    server
        .email()
        .build()
        .unwrap()
        .webhooks()
        .create(&webhook)
        .await
        .unwrap();
    assert_eq!(server.request_count(), 1);
}
