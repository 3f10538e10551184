//! Every *switch* of `open-points.md`, over the wire.

use crate::harness::{EXTRACTION_KEY, KEY, Sandbox};
use crate::receiver::Receiver;

/// Every switch has its test here, by its number and its choices.
#[test]
fn every_switch_is_walked() {
    let tests = include_str!("switches.rs");
    let error = svc_reference_server::Server::builder().set("Z9=1").expect_err("no switch");
    let error = error.to_string();
    let (_, points) = error.split_once(": ").expect("the points");
    assert_eq!(points.split(", ").count(), 9);
    for point in points.split(", ") {
        let test = format!("async fn {}_", point.to_lowercase());
        assert!(tests.contains(&test), "no test of {point}");
        let refused = svc_reference_server::Server::builder().set(&format!("{point}="));
        let refused = refused.expect_err("no choice").to_string();
        let (_, choices) = refused.split_once(&format!("{point}: ")).expect("the choices");
        for choice in choices.split(", ").filter(|choice| !choice.starts_with("the name of a")) {
            let walked = tests.contains(&format!("\"{point}={choice}\""));
            assert!(walked, "no test of {point}={choice}");
        }
    }
}

async fn with(choice: &str) -> Sandbox {
    Sandbox::with(|builder| builder.set(choice).expect("a switch")).await
}

const EMAIL: &str = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;

#[tokio::test]
async fn b1_creations_answer_200() {
    let sandbox = with("B1=200").await;
    let hook = r#"{"url":"https://a.test/","events":["email.sent"]}"#;
    for (line, body) in [
        ("POST /api/v1/audiences", r#"{"name":"a"}"#),
        ("POST /api/v1/domains", r#"{"name":"a.test"}"#),
        ("POST /api/v1/webhooks", hook),
        ("POST /api/v1/emails", EMAIL),
    ] {
        assert_eq!(sandbox.call(line, body).await.status, 200, "{line}");
    }
}

#[tokio::test]
async fn b2_lists_are_wrapped() {
    let sandbox = with("B2=wrapped").await;
    assert_eq!(sandbox.call("GET /api/v1/audiences", "").await.body, r#"{"data":[]}"#);
    assert_eq!(
        sandbox.with_key(EXTRACTION_KEY, "GET /v1/webhooks", "").await.body,
        r#"{"data":[]}"#
    );
}

#[tokio::test]
async fn b4_errors_have_another_shape() {
    for (choice, content_type, body) in [
        (
            "B4=problem",
            "application/problem+json",
            r#"{"type":"about:blank","title":"Not Found","status":404,"detail":"there is no such audience","code":"not_found"}"#,
        ),
        (
            "B4=flat",
            "application/json",
            r#"{"code":"not_found","message":"there is no such audience"}"#,
        ),
        ("B4=text", "text/plain; charset=utf-8", "there is no such audience"),
    ] {
        let sandbox = with(choice).await;
        let answer = sandbox.call("GET /api/v1/audiences/x", "").await;
        assert_eq!((answer.status, answer.body.as_str()), (404, body));
        assert_eq!(answer.header("content-type"), Some(content_type));
        // The one that the documents show stays as they show it.
        let documented = sandbox.raw("GET /v1/me", "", "").await;
        let expected = r#"{"error":{"code":"unauthorized","message":"no API key was given"}}"#;
        assert_eq!((documented.status, documented.body.as_str()), (401, expected));
    }
}

#[tokio::test]
async fn b9_an_idempotency_key_is_ignored() {
    let sandbox = with("B9=ignored").await;
    let headers = format!("authorization: Bearer {KEY}\r\nidempotency-key: k\r\n");
    let first = sandbox.raw("POST /api/v1/emails", &headers, EMAIL).await;
    let second = sandbox.raw("POST /api/v1/emails", &headers, EMAIL).await;
    assert_ne!(first.id(), second.id());
}

#[tokio::test]
async fn b14_a_resource_is_wrapped() {
    let sandbox = with("B14=wrapped").await;
    let made = sandbox.call("POST /api/v1/audiences", r#"{"name":"a"}"#).await;
    assert!(made.body.starts_with(r#"{"data":{"id":"aud_"#), "{made:?}");
    let found = sandbox.call(&format!("GET /api/v1/audiences/{}", made.id()), "").await;
    assert_eq!(found.body, made.body);
    let sent = sandbox.call("POST /api/v1/emails", EMAIL).await;
    assert!(sent.body.starts_with(r#"{"data":{"id":"eml_"#), "{sent:?}");
}

#[tokio::test]
async fn x3_the_error_of_an_extraction_is_text() {
    let sandbox = with("X3=string").await;
    let receiver = Receiver::start(&[]).await;
    let body = format!(r#"{{"url":"{}","events":["extraction.failed"]}}"#, receiver.url());
    sandbox.with_key(EXTRACTION_KEY, "POST /v1/webhooks", &body).await;
    sandbox.control("POST /_sandbox/extractions", r#"{"event":"extraction.failed"}"#).await;
    sandbox.settle().await;
    let body = receiver.received().pop().expect("a delivery").body;
    assert!(body.ends_with(r#""data":{"error":"the document could not be read"}}"#), "{body}");
}

#[tokio::test]
async fn e1_the_key_stands_in_another_header() {
    let sandbox = with("E1=X-Api-Key").await;
    let header = format!("x-api-key: {KEY}\r\n");
    assert_eq!(sandbox.raw("GET /api/v1/audiences", &header, "").await.status, 200);
    assert_eq!(sandbox.call("GET /api/v1/audiences", "").await.status, 401);
    // The extraction service's is documented.
    assert_eq!(sandbox.with_key(EXTRACTION_KEY, "GET /v1/me", "").await.status, 200);
}

#[tokio::test]
async fn e16_pages_are_arrays_or_count_from_zero() {
    for (choice, query, body) in [
        ("E16=array", "?page=1", "[]"),
        (
            "E16=zero-based",
            "?page=0",
            r#"{"data":[],"page":0,"pageSize":20,"total":0,"totalPages":0}"#,
        ),
        ("E16=zero-based", "", r#"{"data":[],"page":0,"pageSize":20,"total":0,"totalPages":0}"#),
    ] {
        let sandbox = with(choice).await;
        let id = sandbox.call("POST /api/v1/audiences", r#"{"name":"a"}"#).await.id();
        let page = sandbox.call(&format!("GET /api/v1/audiences/{id}/contacts{query}"), "").await;
        assert_eq!((page.status, page.body.as_str()), (200, body), "{choice} {query}");
    }
}

#[tokio::test]
async fn e21_the_status_has_another_field() {
    let sandbox = with("E21=responseStatus").await;
    let receiver = Receiver::start(&[]).await;
    let body = format!(r#"{{"url":"{}","events":["email.sent"]}}"#, receiver.url());
    let id = sandbox.call("POST /api/v1/webhooks", &body).await.id();
    let tested = sandbox.call(&format!("POST /api/v1/webhooks/{id}/test"), "").await;
    assert!(tested.body.starts_with(r#"{"responseStatus":200,"#), "{tested:?}");
}
