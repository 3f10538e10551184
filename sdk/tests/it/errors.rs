//! Refusals, in each of the forms that a service may have chosen
//! (`docs/undocumented/both-services.md#error-format`, `docs/undocumented/both-services.md#missing-scope`, `docs/undocumented/both-services.md#error-statuses`).

use std::time::Duration;

use svc_sdk::email::Email;
use svc_sdk::{Error, ErrorKind, Operation, Outcome, Scope, Scopes};

use crate::peer::{Peer, answer, with_headers};

async fn send(status: u16, body: &str) -> Error {
    let peer = Peer::json(status, body).await;
    let client = peer.email().retries(0).build().unwrap();
    let email = Email::new("a@b.test", "private@d.test", "private subject").text("private");
    let error = client.emails().send(&email).await.unwrap_err();
    assert_eq!(error.status(), Some(status));
    assert_eq!(error.operation(), Some(Operation::EmailsSend));
    assert_eq!(error.attempts(), 1);
    assert_eq!(error.body(), body.as_bytes());
    error
}

#[tokio::test]
async fn each_status_has_its_kind_and_its_outcome() {
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
        assert_eq!((error.kind(), error.outcome()), (&kind, outcome), "{status}");
    }
}

#[tokio::test]
async fn each_error_form_gives_code_and_message() {
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
    for body in [r#"{"error":"verify it"}"#, r#"{"message":"verify it"}"#, "verify it\n"] {
        let error = send(422, body).await;
        assert_eq!((error.code(), error.message()), (None, Some("verify it")), "{body}");
    }
    let error = send(502, "<html><h1>Bad gateway</h1></html>").await;
    assert_eq!((error.code(), error.message()), (None, None));
}

#[tokio::test]
async fn a_403_about_scope_is_a_missing_scope() {
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
            &ErrorKind::MissingScope { required: Some(Scope::EmailsSend), granted: None },
            "{body}"
        );
        assert_eq!(error.required_scope(), Some(Scope::EmailsSend));
        assert!(error.is_missing_scope());
    }
    // What the documents name comes before what the service does.
    let error = send(403, r#"{"code":"x","details":{"required_scope":"emails:read"}}"#).await;
    let required = Some(Scope::EmailsSend);
    assert_eq!(error.kind(), &ErrorKind::MissingScope { required, granted: None });
    let error = send(401, r#"{"error":{"code":"unauthorized","message":"scope"}}"#).await;
    assert_eq!(error.kind(), &ErrorKind::Unauthorized);
    let error = send(404, r#"{"message":"no such scope"}"#).await;
    assert_eq!(error.kind(), &ErrorKind::NotFound);
}

#[tokio::test]
async fn a_missing_scope_names_what_the_key_is_known_to_have() {
    let peer = Peer::json(403, r#"{"error":{"code":"insufficient_scope"}}"#).await;
    let scopes = [Scope::EmailsRead, Scope::DomainsManage];
    let client = peer.email().scopes(scopes).build().unwrap();
    let error = client.webhooks().list().await.unwrap_err();
    let granted: Scopes = scopes.into_iter().collect();
    assert_eq!(
        error.kind(),
        &ErrorKind::MissingScope { required: Some(Scope::WebhooksManage), granted: Some(granted) }
    );
    assert_eq!(
        error.to_string(),
        "email webhooks.list: the key lacks the scope webhooks:manage, \
         it has emails:read, domains:manage (http 403, insufficient_scope)"
    );
    // Told, but not told to check: the service decides.
    assert_eq!(peer.lines().len(), 1);

    let client = peer.email().scopes(scopes).check_scopes(true).build().unwrap();
    let error = client.webhooks().list().await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotSent);
    assert_eq!(peer.lines().len(), 1);
}

#[tokio::test]
async fn the_scope_of_cancel_is_not_documented_and_the_error_says_so() {
    let peer = Peer::json(
        403,
        r#"{"error":{"code":"insufficient_scope","details":{"required_scope":"emails:send"}}}"#,
    )
    .await;
    let client = peer.email().scopes([]).check_scopes(true).build().unwrap();
    let error = client.emails().cancel("e").await.unwrap_err();
    assert_eq!(error.required_scope(), None);
    assert_eq!(
        error.kind(),
        &ErrorKind::MissingScope { required: Some(Scope::EmailsSend), granted: Some(Scopes::NONE) }
    );
    for body in [r#"{"error":{"code":"insufficient_scope"}}"#, r#"{"error":{"code":"nope"}}"#] {
        let peer = Peer::json(403, body).await;
        let error = peer.email().build().unwrap().emails().cancel("e").await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("which scope the operation needs is not documented"), "{text}");
    }
}

#[tokio::test]
async fn another_403_carries_the_documented_scope_as_a_hint() {
    let error = send(403, r#"{"error":{"code":"domain_not_verified","message":"no"}}"#).await;
    assert_eq!(error.required_scope(), Some(Scope::EmailsSend));
    assert_eq!(
        error.to_string(),
        "email emails.send: refused by the service (http 403, domain_not_verified); \
         the operation needs the scope emails:send"
    );
}

#[tokio::test]
async fn fields_request_id_and_retry_after_are_reachable() {
    let body = r#"{"error":{"code":"validation_failed","message":"no","details":{"fields":[
        {"field":"to[0]","message":"no address"}]}}}"#;
    let peer =
        Peer::start([with_headers(422, "X-Request-Id: r\r\nRetry-After: 7\r\n", body)]).await;
    let client = peer.email().build().unwrap();
    let error = client.domains().create("x").await.unwrap_err();
    assert_eq!(error.fields()[0].field, "to[0]");
    assert_eq!(error.fields()[0].message, "no address");
    assert_eq!(error.request_id(), Some("r"));
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    assert_eq!(error.headers()["x-request-id"], "r");
    // Its words may repeat the value.
    assert_eq!(format!("{:?}", error.fields()), r#"[FieldProblem { field: "to[0]", .. }]"#);
}

/// It is shown in errors and spans, so a service cannot fill logs with it.
#[tokio::test]
async fn what_is_longer_than_a_request_id_is_none() {
    for (length, fits) in [(256, true), (257, false)] {
        let id = "r".repeat(length);
        let peer =
            Peer::start([with_headers(500, &format!("X-Request-Id: {id}\r\nCF-Ray: c\r\n"), "")])
                .await;
        let client = peer.email().retries(0).build().unwrap();
        let error = client.domains().list().await.unwrap_err();
        assert_eq!(error.request_id(), Some(if fits { &*id } else { "c" }));
    }
}

#[tokio::test]
async fn an_error_shows_no_secret_and_no_content() {
    let body = r#"{"error":{"code":"private code","message":"private words about mk_secret"}}"#;
    for status in [400, 401, 403, 429, 500] {
        let error = send(status, body).await;
        let shown = format!("{error} {error:?} {error:#?}");
        assert!(!shown.contains("private") && !shown.contains("mk_secret"), "{shown}");
        assert_eq!(error.code(), Some("private code"));
    }
}

#[tokio::test]
async fn only_the_first_64_kib_of_a_body_are_kept() {
    let body = format!(r#"{{"code":"c","message":"{}"}}"#, "x".repeat(100_000));
    let peer = Peer::json(400, &body).await;
    let error = peer.email().build().unwrap().domains().list().await.unwrap_err();
    assert_eq!(error.body().len(), 64 * 1024);
    assert_eq!(error.code(), Some("c"));
}

#[tokio::test]
async fn a_refusal_is_not_sent_again() {
    for status in [400, 401, 403, 404, 409, 413, 422, 501] {
        let peer = Peer::start([answer(status, ""), answer(200, "{}")]).await;
        let client = peer.email().build().unwrap();
        client.emails().get("e").await.unwrap_err();
        assert_eq!(peer.lines().len(), 1, "{status}");
    }
}
