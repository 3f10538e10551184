//! Error responses in every format that the services may use
//! (`docs/undocumented/README.md#error-format`,
//! `docs/undocumented/README.md#missing-scope`,
//! `docs/undocumented/README.md#error-statuses`).

use std::collections::BTreeSet;

use std::time::Duration;

use svc_sdk::email::Email;
use svc_sdk::{EmailClient, Error, ErrorKind, Operation, Outcome, Scope};

use crate::mock_server::{MockServer, response, response_with_headers};

async fn send(status: u16, body: &str) -> Error {
    let server = MockServer::json(status, body).await;
    let client = server.email().retries(0).build().unwrap();
    let email = Email::new("a@b.test", "private@d.test", "private subject").text("private");
    let error = client.emails().send(&email).await.unwrap_err();
    assert_eq!(error.status().unwrap(), status);
    assert_eq!(error.operation(), Some(Operation::EmailsSend));
    assert_eq!(error.attempts(), 1);
    assert_eq!(error.body(), body.as_bytes());

    error
}

#[tokio::test]
async fn maps_each_status_to_a_kind_and_an_outcome() {
    for (status, kind, outcome) in [
        (400, ErrorKind::Invalid, Outcome::Refused),
        (401, ErrorKind::Unauthorized, Outcome::Refused),
        (403, ErrorKind::Forbidden, Outcome::Refused),
        (404, ErrorKind::NotFound, Outcome::Refused),
        (405, ErrorKind::Rejected, Outcome::Refused),
        (409, ErrorKind::Conflict, Outcome::Refused),
        (410, ErrorKind::NotFound, Outcome::Refused),
        (413, ErrorKind::TooLarge, Outcome::Refused),
        (415, ErrorKind::Rejected, Outcome::Refused),
        (418, ErrorKind::Rejected, Outcome::Refused),
        (421, ErrorKind::Rejected, Outcome::Refused),
        (422, ErrorKind::Invalid, Outcome::Refused),
        (429, ErrorKind::RateLimited, Outcome::Refused),
        (500, ErrorKind::Server, Outcome::Unknown),
        (503, ErrorKind::Server, Outcome::Unknown),
        (507, ErrorKind::Server, Outcome::Unknown),
        (302, ErrorKind::Redirected, Outcome::Unknown),
        (307, ErrorKind::Redirected, Outcome::Refused),
    ] {
        let error = send(status, "").await;
        assert_eq!(
            (error.kind(), error.outcome()),
            (&kind, outcome),
            "{status}"
        );
    }
}

#[tokio::test]
async fn what_a_service_says_is_kept_without_the_key_and_up_to_a_length() {
    let key = "mk_test_of_this_client";
    let long = "x".repeat(50_000);
    let body = format!(
        r#"{{"error":{{"code":"{key}","message":"no {key}! {long}","details":[{{"field":"{key}","message":"{key}"}}]}}}}"#
    );
    let server = MockServer::json(422, &body).await;
    let client = EmailClient::builder(server.url(), key).retries(0);

    let email = Email::new("a@b.test", "c@d.test", "s").text("t");
    let client = client.build().unwrap();
    let error = client.emails().send(&email).await.unwrap_err();

    let message = error.message().unwrap();
    assert!(message.starts_with("no ***! xxx"), "{message}");
    assert!(message.len() < 5000, "{}", message.len());
    assert_eq!(error.code(), Some("***"));

    for problem in error.fields() {
        assert_eq!((&*problem.field, &*problem.message), ("***", "***"));
    }
}

#[tokio::test]
async fn parses_code_and_message_from_every_error_format() {
    for body in [
        r#"{"error":{"code":"domain_not_verified","message":"verify it"}}"#,
        r#"{"code":"domain_not_verified","message":"verify it"}"#,
        r#"{"type":"https://x.test/domain_not_verified","title":"t","detail":"verify it"}"#,
        r#"{"error":"domain_not_verified","message":"verify it"}"#,
    ] {
        let error = send(403, body).await;
        assert_eq!(error.kind(), &ErrorKind::Forbidden, "{body}");
        assert_eq!(
            (error.code(), error.message()),
            (Some("domain_not_verified"), Some("verify it"))
        );
    }

    for body in [
        r#"{"error":"verify it"}"#,
        r#"{"message":"verify it"}"#,
        "verify it\n",
    ] {
        let error = send(422, body).await;
        assert_eq!(
            (error.code(), error.message()),
            (None, Some("verify it")),
            "{body}"
        );
    }

    let error = send(502, "<html><h1>Bad gateway</h1></html>").await;
    assert_eq!((error.code(), error.message()), (None, None));
}

#[tokio::test]
async fn a_403_that_mentions_a_scope_is_a_missing_scope() {
    for body in [
        r#"{"error":{"code":"insufficient_scope","message":"no"}}"#,
        r#"{"error":{"code":"forbidden","message":"The key lacks a required Scope."}}"#,
        r#"{"error":{"code":"x","message":"x","details":{"required_scope":"emails:send"}}}"#,
        r#"{"code":"missing_permission","message":"no"}"#,
        r#"{"message":"permission denied"}"#,
        "insufficient scope",
    ] {
        let error = send(403, body).await;
        assert_eq!(
            error.kind(),
            &ErrorKind::missing_scope(Some(Scope::EmailsSend), None),
            "{body}"
        );
        assert_eq!(error.required_scope(), Some(Scope::EmailsSend));
        assert!(error.is_missing_scope());
    }

    // The documented scope takes precedence over the one in the response.
    let error = send(
        403,
        r#"{"code":"x","details":{"required_scope":"emails:read"}}"#,
    )
    .await;
    let required = Some(Scope::EmailsSend);
    assert_eq!(error.kind(), &ErrorKind::missing_scope(required, None));

    let error = send(
        401,
        r#"{"error":{"code":"unauthorized","message":"scope"}}"#,
    )
    .await;
    assert_eq!(error.kind(), &ErrorKind::Unauthorized);

    // Nor is a refused sender a refused key.
    for body in [
        r#"{"message":"sender domain nope.test is not verified"}"#,
        r#"{"error":{"code":"unverified_sender","message":"no"}}"#,
    ] {
        let error = send(401, body).await;
        assert_eq!(error.kind(), &ErrorKind::Forbidden, "{body}");
        assert!(!error.to_string().contains("key"), "{error}");
    }

    let error = send(404, r#"{"message":"no such scope"}"#).await;
    assert_eq!(error.kind(), &ErrorKind::NotFound);
}

#[tokio::test]
async fn a_missing_scope_error_lists_the_known_scopes() {
    let server = MockServer::json(403, r#"{"error":{"code":"insufficient_scope"}}"#).await;
    let scopes = [Scope::EmailsRead, Scope::DomainsManage];
    let client = server.email().scopes(scopes).build().unwrap();
    let error = client.webhooks().list().await.unwrap_err();
    let granted: BTreeSet<Scope> = scopes.into_iter().collect();
    assert_eq!(
        error.kind(),
        &ErrorKind::missing_scope(Some(Scope::WebhooksManage), Some(granted))
    );
    assert_eq!(
        error.to_string(),
        "email webhooks.list: the API key lacks the scope webhooks:manage, \
         granted scopes: emails:read, domains:manage (HTTP 403, insufficient_scope); \
         use a key with that scope"
    );
    // Without `check_scopes`, the service decides.
    assert_eq!(server.request_count(), 1);

    let client = server
        .email()
        .scopes(scopes)
        .check_scopes(true)
        .build()
        .unwrap();
    let error = client.webhooks().list().await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotSent);
    assert_eq!(server.request_count(), 1);
}

#[tokio::test]
async fn errors_of_cancel_explain_that_its_scope_is_undocumented() {
    let server = MockServer::json(
        403,
        r#"{"error":{"code":"insufficient_scope","details":{"required_scope":"emails:send"}}}"#,
    )
    .await;
    let client = server
        .email()
        .scopes([])
        .check_scopes(true)
        .build()
        .unwrap();
    let error = client.emails().cancel("e").await.unwrap_err();
    assert_eq!(error.required_scope(), None);
    assert_eq!(
        error.kind(),
        &ErrorKind::missing_scope(Some(Scope::EmailsSend), Some(BTreeSet::new()))
    );

    for body in [
        r#"{"error":{"code":"insufficient_scope"}}"#,
        r#"{"error":{"code":"nope"}}"#,
    ] {
        let server = MockServer::json(403, body).await;
        let error = server
            .email()
            .build()
            .unwrap()
            .emails()
            .cancel("e")
            .await
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("the scope that the operation requires is not documented"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_forbidden_error_names_the_documented_scope() {
    let error = send(
        403,
        r#"{"error":{"code":"domain_not_verified","message":"no"}}"#,
    )
    .await;
    assert_eq!(error.required_scope(), Some(Scope::EmailsSend));
    assert_eq!(
        error.to_string(),
        "email emails.send: the service refused the request (HTTP 403, domain_not_verified)"
    );

    // A response that says nothing may be about the scope.
    let error = send(403, "").await;
    assert_eq!(
        error.to_string(),
        "email emails.send: the service refused the request (HTTP 403); \
         the operation requires the scope emails:send"
    );
}

#[tokio::test]
async fn exposes_fields_request_id_and_retry_after() {
    let body = r#"{"error":{"code":"validation_failed","message":"no","details":{"fields":[
        {"field":"to[0]","message":"no address"}]}}}"#;
    let server = MockServer::start([response_with_headers(
        422,
        "X-Request-Id: r\r\nRetry-After: 7\r\n",
        body,
    )])
    .await;
    let client = server.email().build().unwrap();
    let error = client.domains().create("x").await.unwrap_err();
    assert_eq!(error.fields()[0].field, "to[0]");
    assert_eq!(error.fields()[0].message, "no address");
    assert_eq!(error.request_id(), Some("r"));
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    assert_eq!(error.headers()["x-request-id"], "r");
    // The message may quote the value, so `Debug` omits it.
    assert_eq!(
        format!("{:?}", error.fields()),
        r#"[FieldProblem { field: "to[0]", .. }]"#
    );
}

/// The request id is shown in errors and spans, so it must not flood logs.
#[tokio::test]
async fn ignores_overlong_request_ids() {
    for (length, fits) in [(256, true), (257, false)] {
        let id = "r".repeat(length);
        let server = MockServer::start([response_with_headers(
            500,
            &format!("X-Request-Id: {id}\r\nCF-Ray: c\r\n"),
            "",
        )])
        .await;
        let client = server.email().retries(0).build().unwrap();
        let error = client.domains().list().await.unwrap_err();
        assert_eq!(error.request_id(), Some(if fits { &*id } else { "c" }));
    }
}

#[tokio::test]
async fn errors_contain_no_secrets_or_content() {
    let body = r#"{"error":{"code":"private code","message":"private words about mk_secret"}}"#;
    for status in [400, 401, 403, 429, 500] {
        let error = send(status, body).await;
        let shown = format!("{error} {error:?} {error:#?}");
        assert!(
            !shown.contains("private") && !shown.contains("mk_secret"),
            "{shown}"
        );
        assert_eq!(error.code(), Some("private code"));
    }
}

#[tokio::test]
async fn keeps_the_first_64_kib_of_an_error_body() {
    let body = format!(r#"{{"code":"c","message":"{}"}}"#, "x".repeat(100_000));
    let server = MockServer::json(400, &body).await;
    let error = server
        .email()
        .build()
        .unwrap()
        .domains()
        .list()
        .await
        .unwrap_err();
    assert_eq!(error.body().len(), 64 * 1024);
    assert_eq!(error.code(), Some("c"));
}

#[tokio::test]
async fn does_not_retry_a_refused_request() {
    for status in [400, 401, 403, 404, 409, 413, 422, 501] {
        let server = MockServer::start([response(status, ""), response(200, "{}")]).await;
        let client = server.email().build().unwrap();
        client.emails().get("e").await.unwrap_err();
        assert_eq!(server.request_count(), 1, "{status}");
    }
}
