//! Request handling in general: paths, methods, bodies, hosts and request IDs
//! (`docs/undocumented/README.md#error-statuses`).

use std::time::Duration;

use crate::harness::{EXTRACTION_KEY, KEY, Sandbox};
use crate::raw;

#[tokio::test]
async fn every_body_must_be_json() {
    let sandbox = Sandbox::start().await;
    let audience = sandbox
        .call("POST /api/v1/audiences", r#"{"name":"a"}"#)
        .await
        .id();
    let line = format!("POST /api/v1/audiences/{audience}/contacts");
    let contact = sandbox.call(&line, r#"{"email":"a@b.test"}"#).await.id();
    let hook = r#"{"url":"https://a.test/","events":["email.sent"]}"#;
    let webhook = sandbox.call("POST /api/v1/webhooks", hook).await.id();
    for (key, line) in [
        (KEY, "POST /api/v1/audiences".to_owned()),
        (KEY, line),
        (KEY, format!("PATCH /api/v1/contacts/{contact}")),
        (KEY, "POST /api/v1/domains".to_owned()),
        (KEY, "POST /api/v1/emails".to_owned()),
        (KEY, "POST /api/v1/emails/batch".to_owned()),
        (KEY, "POST /api/v1/webhooks".to_owned()),
        (KEY, format!("PATCH /api/v1/webhooks/{webhook}")),
        (EXTRACTION_KEY, "POST /v1/webhooks".to_owned()),
    ] {
        let deep = format!("{}{}", r#"{"a":"#.repeat(10_000), "}".repeat(10_000));
        for body in ["", "{", "{broken", r#"{"name":"a"} x"#, &deep] {
            let rejected = sandbox.with_key(key, &line, body).await;
            assert_eq!(rejected.status, 400, "{line} {body:.20}");
            assert_eq!(rejected.between(r#""code":""#), "invalid_json", "{line}");
        }
        for content in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "application/jsonx",
        ] {
            let headers = format!(
                "authorization: Bearer {key}\r\ncontent-type: {content}\r\ncontent-length: 2\r\n"
            );
            let rejected = sandbox.literal(&line, &headers, "{}").await;
            assert_eq!(rejected.status, 415, "{line} {content}");
            assert_eq!(
                rejected.between(r#""code":""#),
                "unsupported_media_type",
                "{line}"
            );
        }
        for also in ["content-encoding: gzip", "content-type: text/plain"] {
            // Next to a valid header.
            let headers =
                format!("authorization: Bearer {key}\r\ncontent-encoding: identity\r\n{also}\r\n");
            assert_eq!(
                sandbox.raw(&line, &headers, "{}").await.status,
                415,
                "{line} {also}"
            );
        }
    }
}

#[tokio::test]
async fn rejects_json_that_is_not_utf8() {
    let sandbox = Sandbox::start().await;
    let head = format!(
        "POST /api/v1/audiences HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {KEY}\r\ncontent-length: 25\r\n\r\n",
        sandbox.addr()
    );
    // Even in a field that the server ignores.
    let request = [head.as_bytes(), b"{\"name\":\"a\",\"other\":\"b\xff\"}"].concat();
    let rejected = raw::send(sandbox.addr(), &request).await;
    assert_eq!(
        (rejected.status, rejected.body.as_str()),
        (
            400,
            r#"{"error":{"code":"invalid_json","message":"the body is not valid JSON: it is not UTF-8"}}"#
        )
    );
}

#[tokio::test]
async fn rejects_an_array_in_place_of_an_object() {
    let sandbox = Sandbox::start().await;
    let half = sandbox
        .call("POST /api/v1/audiences", r#"{"name":"\ud800"}"#)
        .await;
    assert_eq!(half.status, 400, "half a surrogate pair");

    let rejected = sandbox
        .call("POST /api/v1/audiences", r#"["Readers"]"#)
        .await;
    assert_eq!(rejected.status, 422);

    let nested = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","attachments":[["a.txt","aGk="]]}"#;
    let rejected = sandbox.call("POST /api/v1/emails", nested).await;
    assert_eq!(
        (rejected.status, rejected.between(r#""field":""#).as_str()),
        (422, "attachments[0]")
    );
}

#[tokio::test]
async fn unknown_paths_and_methods_get_the_same_error_format() {
    let sandbox = Sandbox::start().await;
    for (path, meant) in [
        ("/nothing", ""),
        ("/api/v1/audience", "; did you mean /api/v1/audiences?"),
        ("/api/v1/audiences/", "; did you mean /api/v1/audiences?"),
        ("/v1/me/", "; did you mean /v1/me?"),
        ("/_sandbox/nothing", ""),
    ] {
        let response = sandbox.call(&format!("GET {path}"), "").await;
        assert_eq!(response.status, 404, "{path}");
        let expected =
            format!(r#"{{"error":{{"code":"not_found","message":"no such path{meant}"}}}}"#);
        assert_eq!(response.body, expected, "{path}");
        assert!(
            response
                .header("x-request-id")
                .is_some_and(|id| id.starts_with("req_"))
        );
    }

    let response = sandbox.call("PUT /api/v1/audiences", "{}").await;
    assert_eq!(response.status, 405);
    assert_eq!(response.between(r#""code":""#), "method_not_allowed");
    assert_eq!(
        response.header("allow"),
        Some("POST,GET,HEAD"),
        "{response:?}"
    );
}

/// RFC 9112, section 3.2.
#[tokio::test]
async fn requires_exactly_one_host_header() {
    let sandbox = Sandbox::start().await;
    let addr = sandbox.addr();
    for (line, hosts, status) in [
        ("GET /api/v1/audiences HTTP/1.1", "", 400),
        (
            "GET /api/v1/audiences HTTP/1.1",
            "host: a\r\nhost: a\r\n",
            400,
        ),
        ("GET /api/v1/audiences HTTP/1.1", "host: \r\n", 200),
        ("GET /api/v1/audiences HTTP/1.0", "", 200),
        (
            "GET http://anything.test/api/v1/audiences HTTP/1.1",
            "host: localhost\r\n",
            421,
        ),
        (
            "GET http://localhost/api/v1/audiences HTTP/1.1",
            "host: a\r\n",
            421,
        ),
        (
            "GET http://localhost/api/v1/audiences HTTP/1.1",
            "host: 127.0.0.1:1\r\n",
            200,
        ),
        ("GET /_sandbox/keys HTTP/1.0", "", 421),
        (
            "GET http://evil.test/_sandbox/keys HTTP/1.1",
            "host: OURS\r\n",
            421,
        ),
        (
            "GET http://OURS/_sandbox/keys HTTP/1.1",
            "host: evil.test\r\n",
            421,
        ),
        (
            "GET http://OURS/_sandbox/keys HTTP/1.1",
            "host: OURS\r\n",
            200,
        ),
        (
            "GET /_sandbox/health HTTP/1.1",
            "host: OURS\r\nhost: OURS\r\n",
            400,
        ),
    ] {
        let text = format!("{line}\r\nauthorization: Bearer {KEY}\r\n{hosts}\r\n");
        let text = text.replace("OURS", &addr.to_string());
        let response = raw::send(addr, text.as_bytes()).await;
        assert_eq!(response.status, status, "{text}");
        let code = match status {
            400 => "invalid_request",
            421 => "wrong_host",
            _ => continue,
        };
        assert_eq!(response.between(r#""code":""#), code, "{text}");
        assert!(response.header("x-request-id").is_some(), "{response:?}");
    }
}

#[tokio::test]
async fn unusual_ids_are_not_found() {
    let sandbox = Sandbox::start().await;
    for id in [
        "%2e%2e",
        "a%2Fb",
        "%C3%BC",
        "..",
        ".",
        "%00",
        "%FF",
        "x'--",
        &"i".repeat(3000),
    ] {
        let response = sandbox.call(&format!("GET /api/v1/emails/{id}"), "").await;
        assert!([404, 400].contains(&response.status), "{id}: {response:?}");
        assert!(
            response.body.starts_with(r#"{"error":{"code":""#),
            "{id}: {response:?}"
        );
    }
}

#[tokio::test]
async fn every_response_has_a_unique_request_id() {
    let sandbox = Sandbox::start().await;
    let mut ids = Vec::new();
    for line in [
        "GET /api/v1/audiences",
        "GET /nowhere",
        "POST /api/v1/emails",
        "GET /_sandbox/health",
    ] {
        let response = sandbox.call(line, "").await;
        ids.push(response.header("x-request-id").expect("an id").to_owned());
    }

    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[tokio::test]
async fn a_stalled_body_gets_408() {
    let sandbox = Sandbox::with(|builder| {
        builder.limits(|limits| limits.body_idle_timeout = Duration::from_millis(50))
    })
    .await;
    let headers = format!("authorization: Bearer {KEY}\r\ncontent-length: 100\r\n");
    let response = sandbox
        .literal("POST /api/v1/audiences", &headers, r#"{"name":"#)
        .await;
    assert_eq!(
        (response.status, response.between(r#""code":""#).as_str()),
        (408, "request_timeout")
    );
}

#[tokio::test]
async fn servers_in_one_process_are_independent() {
    let one = Sandbox::start().await;
    let two = Sandbox::start().await;
    assert_ne!(one.addr(), two.addr());
    one.call("POST /api/v1/audiences", r#"{"name":"a"}"#).await;
    assert_eq!(two.call("GET /api/v1/audiences", "").await.body, "[]");
}

#[tokio::test]
async fn serves_the_openapi_description_without_a_key() {
    let sandbox = Sandbox::start().await;
    let described = sandbox.raw("GET /openapi.json", "", "").await;
    assert_eq!(described.status, 200);
    assert_eq!(described.header("content-type"), Some("application/json"));
    assert!(
        described.body.contains(r#""openapi":"3.1.1""#),
        "{:.80}",
        described.body
    );
}
