//! What the handlers do themselves in another dialect. What the edge does is tested with the SDK, in
//! `tests/it/dialect.rs` of the workspace.

use svc_sdk::{Dialect, Point};

use crate::harness::{EXTRACTION_KEY, KEY, Sandbox};
use crate::raw::RawResponse;
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
async fn scope_status_is_401() {
    let sandbox = with("scope-status=401").await;
    let (_, key) = sandbox.email_key(r#""emails:read""#).await;
    let refused = sandbox.with_key(&key, "POST /api/v1/emails", EMAIL).await;
    assert_eq!(refused.status, 401);
    assert!(refused.body.contains("insufficient_scope"), "{refused:?}");
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

/// A choice has an effect on the server, for a client that knows nothing of the dialect. Those of
/// a few points need another choice to have one.
#[tokio::test]
async fn every_choice_changes_what_the_server_does() {
    let usual = story(&[]).await;
    for (again, first) in story(&[]).await.iter().zip(&usual) {
        assert_eq!(again, first, "the story differs from run to run");
    }

    // A part of them, except with the tests that need databases.
    let is_everything = std::env::var_os("SVC_TEST_EVERYTHING").is_some();
    let mut without = Vec::new();
    let mut number = 0;
    for point in Dialect::points() {
        let needed = match point {
            Point::IdHeader => "id-place=header",
            Point::CursorParam => "list-pages=cursor",
            Point::KeyUser => "key-scheme=basic",
            _ => "",
        };
        let before = match needed {
            "" => usual.clone(),
            needed => story(&[needed]).await,
        };
        let named = point.choices().iter().map(|choice| choice.name);
        let free = point.free_text().map(|_| "sample");
        for choice in named.chain(free) {
            let setting = format!("{point}={choice}");
            // A body of its own is refused only where the point is pinned.
            if choice == point.default_choice() && *point != Point::BatchBody {
                continue;
            }
            number += 1;
            if !is_everything && number % 4 != 1 {
                continue;
            }
            let after = match needed {
                "" => story(&[&setting]).await,
                needed => story(&[needed, &setting]).await,
            };
            if after == before {
                without.push(setting);
            }
        }
    }

    assert_eq!(without, Vec::<String>::new(), "they have no effect");
}

/// What the server answers to requests of all kinds, without what differs from run to run.
async fn story(settings: &[&str]) -> Vec<String> {
    let dialect = Dialect::with(settings.iter().copied()).expect("valid choices");
    let limited = dialect.clone();
    let limited = Sandbox::with(|builder| builder.dialect(limited).rate_limit(1)).await;
    let sandbox = Sandbox::with(|builder| builder.dialect(dialect)).await;
    // The responses need not match the description.
    limited.expect_faults();
    sandbox.expect_faults();
    let mut told = Vec::new();
    for _ in 0..2 {
        told.push(shape(&limited.call("GET /api/v1/domains", "").await));
    }

    let receiver = Receiver::start(&[]).await;
    let hook = HOOK.replace("https://a.test/", &receiver.url());
    let endpoint = ENDPOINT.replace("https://a.test/", &receiver.url());
    let long = EMAIL.replace("\"s\"", &format!("\"{}\"", "x".repeat(999)));
    let later = EMAIL.replace('}', r#","scheduledAt":"2999-01-01"}"#);
    let batch = format!("[{EMAIL},{}]", EMAIL.replace("sandbox.test", "other.test"));
    let wrapped = format!(r#"{{"emails":{batch}}}"#);
    let insecure = HOOK.replace("https", "http");
    let restricted = sandbox.email_key(r#""emails:send""#).await.1;
    // `*` is the id in the response before.
    let mut id = String::new();
    for (line, body) in [
        ("POST /api/v1/audiences", r#"{"name":"b"}"#),
        ("POST /api/v1/audiences", r#"{"name":"a","unknown":1}"#),
        ("GET /api/v1/audiences/*", ""),
        (
            "POST /api/v1/audiences/*/contacts",
            r#"{"email":"a@b.test","metadata":{"a":1}}"#,
        ),
        ("POST /api/v1/audiences/*/contacts", "{}"),
        ("GET /api/v1/audiences/*/contacts?page=0", ""),
        ("GET /api/v1/audiences/*/contacts?pageSize=1", ""),
        ("GET /api/v1/audiences/*/contacts?page=9", ""),
        ("GET /api/v1/audiences?pageSize=1", ""),
        ("GET /api/v1/audiences?pageSize=1&cursor=cur_2", ""),
        ("GET /api/v1/audiences/none", ""),
        ("POST /api/v1/domains", r#"{"name":"new.test"}"#),
        ("POST /api/v1/webhooks", hook.as_str()),
        ("POST /api/v1/webhooks/*/test", ""),
        ("POST /api/v1/webhooks", insecure.as_str()),
        ("POST /api/v1/emails", EMAIL),
        ("GET /api/v1/emails/*", ""),
        ("POST /api/v1/emails", later.as_str()),
        ("GET /api/v1/emails/*", ""),
        ("PATCH /api/v1/emails/*/cancel", ""),
        ("GET /api/v1/emails/*", ""),
        ("POST /api/v1/emails", long.as_str()),
        ("POST /api/v1/emails/batch", batch.as_str()),
        ("POST /api/v1/emails/batch", wrapped.as_str()),
    ] {
        let line = line.replace('*', &id);
        let response = sandbox.call(&line, body).await;
        id = id_in(&response).unwrap_or(id);
        sandbox.settle().await;
        told.push(shape(&response));
    }

    // The user `api`, with the key as the password.
    let basic = "authorization: Basic YXBpOm1rX3Rlc3Rfc2FuZGJveA==\r\n";
    let listed = sandbox.raw("GET /api/v1/audiences", basic, "").await;
    told.push(shape(&listed));
    let keyed = format!("authorization: Bearer {KEY}\r\nidempotency-key: k\r\n");
    let mut ids = Vec::new();
    for _ in 0..2 {
        let response = sandbox
            .raw("POST /api/v1/audiences", &keyed, r#"{"name":"c"}"#)
            .await;
        ids.push(id_in(&response));
    }

    told.push(format!("the same again: {}", ids[0] == ids[1]));
    let refused = sandbox
        .with_key(&restricted, "GET /api/v1/audiences", "")
        .await;
    told.push(shape(&refused));

    let registered = sandbox
        .with_key(EXTRACTION_KEY, "POST /v1/webhooks", &endpoint)
        .await;
    told.push(shape(&registered));
    let failed = r#"{"event":"extraction.failed"}"#;
    sandbox.control("POST /_sandbox/extractions", failed).await;
    sandbox.settle().await;
    let mut deliveries = Vec::new();
    receiver.for_each(|delivery| {
        let names = delivery.head.lines().map(|line| line.split(':').next());
        let names = names.flatten().collect::<Vec<_>>().join(" ");
        deliveries.push(format!("{names}\n{}", without_accidents(&delivery.body)));
    });
    deliveries.sort();
    told.extend(deliveries);
    told
}

/// The id of a resource, wherever it is in a response.
fn id_in(response: &RawResponse) -> Option<String> {
    let text = format!("{}{}", response.head, response.body);
    let parts = text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-')));
    let kinds = ["eml_", "aud_", "whk_"];
    let is_id = |part: &&str| kinds.iter().any(|kind| part.starts_with(kind));
    parts.into_iter().find(is_id).map(str::to_owned)
}

fn shape(response: &RawResponse) -> String {
    let mut headers = response.head.lines().skip(1).collect::<Vec<_>>();
    headers.retain(|line| !line.starts_with("date") && !line.starts_with("content-length"));
    let text = format!(
        "{} {}\n{}",
        response.status,
        headers.join("\n"),
        response.body
    );
    without_accidents(&text)
}

/// Replaces ids, keys and times: what is long or has many digits.
fn without_accidents(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_:.+/=".contains(c);
    let mut told = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest
            .find(|c| is_part(c) != is_part(first))
            .unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        rest = after;
        let digits = part.chars().filter(char::is_ascii_digit).count();
        match part {
            _ if told.ends_with("durationMs\"") => told.push_str(":SHORT"),
            _ if !is_part(first) => told.push_str(part),
            _ if part.contains("_domainkey") => told.push_str("SELECTOR"),
            // A name of the test's own, or a made one.
            _ if part.len() >= 32 && digits > 0 => told.push_str("MADE"),
            _ if digits >= 4 => {
                let mark = |c: char| if c.is_ascii_digit() { '9' } else { c };
                let mut marks: Vec<char> = part.chars().map(mark).collect();
                marks.dedup_by(|one, other| *one == '9' && *other == '9');
                told.extend(marks);
            }
            _ => told.push_str(part),
        }
    }
    told
}
