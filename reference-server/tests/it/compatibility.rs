//! Every compatibility setting of `docs/undocumented/README.md`.

use svc_reference_server::Server;

use crate::harness::{EXTRACTION_KEY, KEY, Sandbox};
use crate::receiver::Receiver;

/// Reads the settings and their values from the error messages, and checks that this file
/// has a test of each.
#[test]
fn every_setting_is_tested() {
    let tests = include_str!("compatibility.rs");
    let error = Server::builder()
        .compatibility("unknown=1")
        .expect_err("an unknown setting");
    let error = error.to_string();
    let (_, names) = error.split_once(": ").expect("the known settings");
    assert_eq!(names.split(", ").count(), 10);
    for name in names.split(", ") {
        let test = format!("async fn {}_", name.replace('-', "_"));
        assert!(tests.contains(&test), "no test of {name}");
        let error = Server::builder().compatibility(&format!("{name}="));
        let error = error.expect_err("an invalid value").to_string();
        let (_, values) = error
            .split_once(&format!("{name}; valid values: "))
            .expect("the valid values");
        for value in values
            .split(", ")
            .filter(|value| !value.starts_with("the name of a"))
        {
            let tested = tests.contains(&format!("\"{name}={value}\""));
            assert!(tested, "no test of {name}={value}");
        }
    }
}

async fn with(setting: &str) -> Sandbox {
    let sandbox = Sandbox::with(|builder| builder.compatibility(setting).expect("a valid setting"));
    sandbox.await.with_own_description()
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
async fn list_shape_is_wrapped() {
    let sandbox = with("list-shape=wrapped").await;
    for (key, path) in [
        (KEY, "/api/v1/audiences"),
        (KEY, "/api/v1/webhooks"),
        (EXTRACTION_KEY, "/v1/webhooks"),
    ] {
        let list = sandbox.with_key(key, &format!("GET {path}"), "").await;
        assert_eq!(
            (list.status, list.body.as_str()),
            (200, r#"{"data":[]}"#),
            "{path}"
        );
    }
    let domains = sandbox.call("GET /api/v1/domains", "").await;
    assert!(
        domains.body.starts_with(r#"{"data":[{"id":"dom_"#),
        "{domains:?}"
    );
    assert!(domains.body.ends_with("}]}"), "{domains:?}");
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
async fn resource_shape_is_wrapped() {
    let sandbox = with("resource-shape=wrapped").await;
    sandbox.freeze().await;
    let created = sandbox
        .call("POST /api/v1/audiences", r#"{"name":"a"}"#)
        .await;
    let audience = created.id();
    let found = sandbox
        .call(&format!("GET /api/v1/audiences/{audience}"), "")
        .await;
    assert_eq!(found.body, created.body);
    let line = format!("POST /api/v1/audiences/{audience}/contacts");
    let contact = sandbox.call(&line, r#"{"email":"a@b.test"}"#).await.id();
    let domain = sandbox.call("GET /api/v1/domains", "").await.id();
    let hook = sandbox.call("POST /api/v1/webhooks", HOOK).await.id();
    let later = EMAIL.replace("\"s\"", r#""s","scheduledAt":"2999-01-01""#);
    let email = sandbox.call("POST /api/v1/emails", &later).await.id();
    for (key, line, body, id) in [
        (
            KEY,
            "POST /api/v1/audiences".to_owned(),
            r#"{"name":"b"}"#,
            "aud_",
        ),
        (KEY, line, r#"{"email":"c@b.test"}"#, "con_"),
        (
            KEY,
            format!("PATCH /api/v1/contacts/{contact}"),
            r#"{"name":"C"}"#,
            "con_",
        ),
        (
            KEY,
            "POST /api/v1/domains".to_owned(),
            r#"{"name":"a.test"}"#,
            "dom_",
        ),
        (
            KEY,
            format!("POST /api/v1/domains/{domain}/verify"),
            "",
            "dom_",
        ),
        (KEY, "POST /api/v1/webhooks".to_owned(), HOOK, "whk_"),
        (
            KEY,
            format!("PATCH /api/v1/webhooks/{hook}"),
            r#"{"active":false}"#,
            "whk_",
        ),
        (KEY, "POST /api/v1/emails".to_owned(), EMAIL, "eml_"),
        (KEY, format!("GET /api/v1/emails/{email}"), "", "eml_"),
        (
            KEY,
            format!("PATCH /api/v1/emails/{email}/cancel"),
            "",
            "eml_",
        ),
        (
            EXTRACTION_KEY,
            "POST /v1/webhooks".to_owned(),
            ENDPOINT,
            "whk_",
        ),
    ] {
        let response = sandbox.with_key(key, &line, body).await;
        let start = format!(r#"{{"data":{{"id":"{id}"#);
        assert!(
            response.body.starts_with(&start) && response.body.ends_with("}}"),
            "{line} {response:?}"
        );
    }
    // Documented responses keep their shape.
    let me = sandbox.with_key(EXTRACTION_KEY, "GET /v1/me", "").await;
    assert!(me.body.starts_with(r#"{"organization":{"#), "{me:?}");
    let deleted = sandbox
        .call(&format!("DELETE /api/v1/domains/{domain}"), "")
        .await;
    assert_eq!(deleted.body, r#"{"ok":true}"#);
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
async fn contact_pages_are_arrays_or_zero_based() {
    for (setting, query, body) in [
        ("contact-pages=array", "?page=1", "[]"),
        (
            "contact-pages=zero-based",
            "?page=0",
            r#"{"data":[],"page":0,"pageSize":20,"total":0,"totalPages":0}"#,
        ),
        (
            "contact-pages=zero-based",
            "",
            r#"{"data":[],"page":0,"pageSize":20,"total":0,"totalPages":0}"#,
        ),
    ] {
        let sandbox = with(setting).await;
        let id = sandbox
            .call("POST /api/v1/audiences", r#"{"name":"a"}"#)
            .await
            .id();
        let page = sandbox
            .call(&format!("GET /api/v1/audiences/{id}/contacts{query}"), "")
            .await;
        assert_eq!(
            (page.status, page.body.as_str()),
            (200, body),
            "{setting} {query}"
        );
    }
    // Every page has the right contacts.
    for (setting, pages) in [
        ("contact-pages=array", [1, 2, 3]),
        ("contact-pages=zero-based", [0, 1, 2]),
    ] {
        let sandbox = with(setting).await;
        let id = sandbox
            .call("POST /api/v1/audiences", r#"{"name":"a"}"#)
            .await
            .id();
        let line = format!("/api/v1/audiences/{id}/contacts");
        for name in ["a", "b", "c"] {
            let body = format!(r#"{{"email":"{name}@x.test"}}"#);
            sandbox.call(&format!("POST {line}"), &body).await;
        }
        let expected = [vec!["a@x.test", "b@x.test"], vec!["c@x.test"], vec![]];
        for (page, expected) in pages.into_iter().zip(expected) {
            let found = sandbox
                .call(&format!("GET {line}?page={page}&pageSize=2"), "")
                .await;
            let emails = found.body.split(r#""email":""#).skip(1);
            let emails: Vec<&str> = emails.map(|rest| &rest[..8]).collect();
            assert_eq!((found.status, emails), (200, expected), "{setting} {page}");
        }
        let wrong = pages[0] - 1;
        let rejected = sandbox.call(&format!("GET {line}?page={wrong}"), "").await;
        assert_eq!(rejected.status, 422, "{setting}");
    }
}

#[tokio::test]
async fn test_status_field_is_selectable() {
    let sandbox = with("test-status-field=responseStatus").await;
    let receiver = Receiver::start(&[]).await;
    let body = format!(r#"{{"url":"{}","events":["email.sent"]}}"#, receiver.url());
    let id = sandbox.call("POST /api/v1/webhooks", &body).await.id();
    let tested = sandbox
        .call(&format!("POST /api/v1/webhooks/{id}/test"), "")
        .await;
    assert!(
        tested.body.contains(r#""responseStatus":200"#),
        "{tested:?}"
    );
}

#[tokio::test]
async fn unknown_fields_are_refused() {
    for setting in ["unknown-fields=refused", "b15=refused"] {
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
