//! Fault injection (`docs/control-interface.md#faults`).

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use svc_reference_server::Builder;

use svc_sdk::Dialect;

use crate::harness::{EXTRACTION_KEY, KEY, Sandbox};

const EMAIL: &str = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;

async fn fault(sandbox: &Sandbox, body: &str) -> String {
    let created = sandbox.control("POST /_sandbox/faults", body).await;
    assert_eq!(created.status, 201, "{created:?}");
    created.id()
}

/// Sends a request and returns everything received until the connection is closed.
async fn read_until_closed(sandbox: &Sandbox, line: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(sandbox.addr()).await.expect("connect");
    let addr = sandbox.addr();
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: {addr}\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.expect("connect");
    let mut response = Vec::new();
    // The server may close the connection with a reset.
    let _ = stream.read_to_end(&mut response).await;
    String::from_utf8(response).expect("response is not UTF-8")
}

#[tokio::test]
async fn injects_a_status_after_skipped_requests() {
    let sandbox = Sandbox::start().await;
    let now = sandbox.freeze().await;
    let asked = r#""operation":"emails.send","times":2,"skip":1,"status":503,"body":{"error":"busy"},"headers":{"Retry-After":"7"}"#;
    let id = fault(&sandbox, &format!("{{{asked}}}")).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        sandbox.call("GET /api/v1/audiences", "").await;
        let response = sandbox.call("POST /api/v1/emails", EMAIL).await;
        if response.status == 503 {
            assert_eq!(response.body, r#"{"error":"busy"}"#);
            assert_eq!(response.header("retry-after"), Some("7"));
            assert_eq!(response.header("content-type"), Some("application/json"));
        }
        statuses.push(response.status);
    }

    assert_eq!(statuses, [202, 503, 503, 202]);

    let found = sandbox
        .control(&format!("GET /_sandbox/faults/{id}"), "")
        .await;
    let hit = format!(r#"{{"at":"{now}","operation":"email emails.send"}}"#);
    let expected = format!(r#"{{"id":"{id}",{asked},"remaining":0,"hits":[{hit},{hit}]}}"#);
    assert_eq!(
        (found.status, found.body.as_str()),
        (200, expected.as_str())
    );

    assert_eq!(
        sandbox
            .control(&format!("DELETE /_sandbox/faults/{id}"), "")
            .await
            .status,
        204
    );
    assert_eq!(sandbox.control("GET /_sandbox/faults", "").await.body, "[]");
}

#[tokio::test]
async fn closes_the_connection_before_after_or_midway() {
    let sandbox = Sandbox::start().await;
    let line = "POST /api/v1/audiences";
    for (drop, created) in [("before", 0), ("after", 1), ("midway", 2)] {
        fault(
            &sandbox,
            &format!(r#"{{"operation":"audiences.create","drop":"{drop}"}}"#),
        )
        .await;
        let response = read_until_closed(&sandbox, line, r#"{"name":"Readers"}"#).await;
        if drop == "midway" {
            let (head, body) = response.split_once("\r\n\r\n").expect("a head");
            assert!(head.starts_with("HTTP/1.1 201"), "{response}");
            assert!(
                body.starts_with(r#"{"id":"aud_"#) && !body.ends_with('}'),
                "{response}"
            );
        } else {
            assert_eq!(response, "", "{drop}");
        }
        let listed = sandbox.call("GET /api/v1/audiences", "").await;
        assert_eq!(listed.body.matches("aud_").count(), created, "{drop}");
    }
}

#[tokio::test]
async fn latency_delays_the_request_in_real_time() {
    let sandbox = Sandbox::start().await;
    sandbox.freeze().await;
    fault(&sandbox, r#"{"latency":"120ms"}"#).await;
    let started = std::time::Instant::now();
    assert_eq!(sandbox.call("GET /api/v1/audiences", "").await.status, 200);
    assert!(started.elapsed().as_millis() >= 120);
}

#[tokio::test]
async fn a_fault_affects_only_its_organization() {
    let sandbox = Sandbox::start().await;
    let (key, _) = sandbox.organization().await;
    fault(&sandbox, r#"{"times":9,"status":500}"#).await;
    assert_eq!(
        sandbox
            .with_key(&key, "GET /api/v1/audiences", "")
            .await
            .status,
        200
    );
    assert_eq!(
        sandbox
            .with_key(EXTRACTION_KEY, "GET /v1/me", "")
            .await
            .status,
        500
    );

    sandbox.control("DELETE /_sandbox/faults", "").await;
    assert_eq!(
        sandbox
            .with_key(EXTRACTION_KEY, "GET /v1/me", "")
            .await
            .status,
        200
    );
}

/// As the services respond themselves, in the format of the setting.
#[tokio::test]
async fn a_status_without_a_body_has_the_error_of_the_service() {
    let sandbox = Sandbox::start().await;
    for (status, code) in [
        (400, "invalid_request"),
        (401, "unauthorized"),
        (403, "insufficient_scope"),
        (404, "not_found"),
        (409, "conflict"),
        (418, "invalid_request"),
        (422, "validation_failed"),
        (429, "rate_limited"),
        (500, "internal"),
        (502, "unavailable"),
        (503, "unavailable"),
    ] {
        fault(
            &sandbox,
            &format!(r#"{{"status":{status},"headers":{{"x-a":"1"}}}}"#),
        )
        .await;
        let response = sandbox.call("GET /api/v1/audiences", "").await;
        assert_eq!(
            (response.status, response.between(r#""code":""#).as_str()),
            (status, code)
        );
        assert!(
            response.body.starts_with(r#"{"error":{"code":"#),
            "{response:?}"
        );
        assert_eq!(response.header("content-type"), Some("application/json"));
        assert_eq!(response.header("x-a"), Some("1"));
    }

    fault(&sandbox, r#"{"status":503,"body":""}"#).await;
    assert_eq!(sandbox.call("GET /api/v1/audiences", "").await.body, "");

    fault(&sandbox, r#"{"status":202}"#).await;
    assert_eq!(sandbox.call("GET /api/v1/audiences", "").await.body, "");

    let setting =
        |builder: Builder| builder.dialect(Dialect::with(["error-format=flat"]).expect("a choice"));
    let sandbox = Sandbox::with(setting).await.with_own_description();
    fault(&sandbox, r#"{"times":2,"status":401}"#).await;
    let response = sandbox.call("GET /api/v1/audiences", "").await;
    assert!(
        response.body.starts_with(r#"{"code":"unauthorized""#),
        "{response:?}"
    );

    // The documented format.
    let response = sandbox.with_key(EXTRACTION_KEY, "GET /v1/me", "").await;
    assert!(
        response
            .body
            .starts_with(r#"{"error":{"code":"unauthorized""#),
        "{response:?}"
    );
}

/// An unknown name or path gets a suggestion.
#[tokio::test]
async fn suggests_what_was_probably_meant() {
    let sandbox = Sandbox::start().await;
    for (line, body, suggestion) in [
        (
            "POST /_sandbox/faults",
            r#"{"operation":"email.send","status":500}"#,
            "emails.send",
        ),
        (
            "GET /_sandbox/requests?operation=emails.sent",
            "",
            "emails.send",
        ),
        (
            "POST /_sandbox/keys",
            r#"{"service":"email","scopes":["email:send"]}"#,
            "emails:send",
        ),
    ] {
        let refused = sandbox.control(line, body).await;
        let end = format!(r#"; did you mean {suggestion}?"}}]}}}}}}"#);
        assert!(
            refused.status == 422 && refused.body.ends_with(&end),
            "{refused:?}"
        );
    }
    for (path, meant) in [
        ("/api/v1/email", "; did you mean /api/v1/emails?"),
        ("/v1/emails/eml_1", "; did you mean /api/v1/emails/{id}?"),
        (
            "/_sandbox/mesages/msg_1/raw",
            "; did you mean /_sandbox/messages/{id}/raw?",
        ),
        ("/no/such/path", ""),
    ] {
        let unknown = sandbox.raw(&format!("GET {path}"), "", "").await;
        let expected = format!(r#""message":"no such path{meant}""#);
        assert!(
            unknown.status == 404 && unknown.body.contains(&expected),
            "{unknown:?}"
        );
    }
}

#[tokio::test]
async fn rejects_invalid_faults() {
    let sandbox = Sandbox::start().await;
    for (body, field) in [
        ("{}", ""),
        (r#"{"operation":"emails.fly","status":500}"#, "operation"),
        (r#"{"status":99}"#, "status"),
        (r#"{"status":100}"#, "status"),
        (r#"{"body":"x"}"#, "status"),
        (r#"{"latency":"1d"}"#, "latency"),
        (r#"{"drop":"later"}"#, "drop"),
        (
            r#"{"status":500,"headers":{"content-length":"7"}}"#,
            "headers.content-length",
        ),
        (r#"{"status":500,"headers":{"a b":"7"}}"#, "headers"),
        (r#"{"status":500,"headers":{"a":"\u007f"}}"#, "headers.a"),
        (r#"{"status":500,"headers":{"a":["7"]}}"#, "headers.a"),
        (r#"{"times":-1,"status":500}"#, "times"),
    ] {
        let rejected = sandbox.control("POST /_sandbox/faults", body).await;
        assert_eq!(
            (rejected.status, rejected.between(r#""field":""#).as_str()),
            (422, field),
            "{body}"
        );
    }

    assert_eq!(
        sandbox
            .control("GET /_sandbox/faults/flt_x", "")
            .await
            .status,
        404
    );
    assert_eq!(
        sandbox
            .control("DELETE /_sandbox/faults/flt_x", "")
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn faults_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let start = || async { Sandbox::with(|builder| builder.data_dir(directory.path())).await };
    let sandbox = start().await;
    let asked = r#""operation":"audiences.list","times":3,"skip":1,"status":503"#;
    let id = fault(&sandbox, &format!("{{{asked}}}")).await;
    let other = fault(&sandbox, r#"{"operation":"emails.get","status":500}"#).await;
    assert_eq!(sandbox.call("GET /api/v1/audiences", "").await.status, 200);
    assert_eq!(sandbox.call("GET /api/v1/audiences", "").await.status, 503);

    let before = sandbox.control("GET /_sandbox/faults", "").await.body;
    let missing = sandbox
        .control(&format!("DELETE /_sandbox/faults/{other}"), "")
        .await;
    assert_eq!(missing.status, 204);

    sandbox.server.stop().await;

    let sandbox = start().await;
    sandbox.expect_faults();
    let after = sandbox.control("GET /_sandbox/faults", "").await.body;
    assert!(
        after.len() < before.len() && before.starts_with(after.trim_end_matches(']')),
        "{after}"
    );
    assert!(
        after.contains(&format!(r#""id":"{id}",{asked},"remaining":2"#)),
        "{after}"
    );

    let statuses = [
        sandbox.call("GET /api/v1/audiences", "").await.status,
        sandbox.call("GET /api/v1/audiences", "").await.status,
        sandbox.call("GET /api/v1/audiences", "").await.status,
    ];
    assert_eq!(statuses, [503, 503, 200]);

    sandbox.control("POST /_sandbox/reset", "").await;
    assert_eq!(sandbox.control("GET /_sandbox/faults", "").await.body, "[]");

    sandbox.server.stop().await;
}
