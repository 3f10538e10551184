//! Listing, getting and waiting for messages through the control interface.

use std::time::Duration;

use crate::harness::Sandbox;
use crate::receiver::Receiver;

const SEND: &str = "POST /api/v1/emails";

async fn send(sandbox: &Sandbox, to: &str, subject: &str, more: &str) {
    let body = format!(
        r#"{{"from":"Shop <hello@sandbox.test>","to":"{to}","subject":"{subject}"{more}}}"#
    );
    let sent = sandbox.call(SEND, &body).await;
    assert_eq!(sent.status, 202, "{sent:?}");
    sandbox.settle().await;
}

fn subjects(body: &str) -> Vec<&str> {
    body.split(r#""subject":""#)
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect()
}

#[tokio::test]
async fn lists_newest_first_and_filters() {
    let sandbox = Sandbox::start().await;
    send(&sandbox, "ada+1@example.test", "Welcome, Ada", "").await;
    send(&sandbox, "bob@example.test", "Your code", "").await;
    send(&sandbox, "Ada <ADA+1@example.test>", "Your code again", "").await;
    for (query, expected) in [
        ("", &["Your code again", "Your code", "Welcome, Ada"][..]),
        (
            "?to=ada%2B1@example.test",
            &["Your code again", "Welcome, Ada"],
        ),
        (
            "?to=ada+1@EXAMPLE.test",
            &["Your code again", "Welcome, Ada"],
        ),
        ("?subject=YOUR%20code&to=bob@example.test", &["Your code"]),
        ("?from=hello@sandbox.test&limit=1", &["Your code again"]),
        ("?from=HELLO@Sandbox.test&limit=1", &["Your code again"]),
        ("?from=nobody@sandbox.test", &[]),
        ("?after=2999-01-01", &[]),
        (
            "?after=2000-01-01T00:00:00+02:00&limit=3",
            &["Your code again", "Your code", "Welcome, Ada"],
        ),
    ] {
        let response = sandbox
            .control(&format!("GET /_sandbox/messages{query}"), "")
            .await;
        assert_eq!(response.status, 200, "{query}: {response:?}");
        assert_eq!(subjects(&response.body), expected, "{query}");
    }

    // `after` excludes the message with exactly that time.
    let newest = sandbox.control("GET /_sandbox/messages?limit=1", "").await;
    let query = format!("?after={}", newest.between(r#""createdAt":""#));
    let response = sandbox
        .control(&format!("GET /_sandbox/messages{query}"), "")
        .await;
    assert_eq!(response.body, r#"{"data":[],"next":null}"#, "{query}");
}

#[tokio::test]
async fn cursors_lead_through_all_pages() {
    let sandbox = Sandbox::start().await;
    for number in 1..=5 {
        send(&sandbox, "ada@example.test", &format!("n{number}"), "").await;
    }

    let mut all = Vec::new();
    let mut query = "limit=2".to_owned();
    let mut pages = 0;
    loop {
        let response = sandbox
            .control(&format!("GET /_sandbox/messages?{query}"), "")
            .await;
        all.extend(subjects(&response.body).into_iter().map(str::to_owned));
        pages += 1;
        if response.body.ends_with(r#""next":null}"#) {
            break;
        }
        query = format!("limit=2&cursor={}", response.between(r#""next":""#));
    }

    assert_eq!(
        (pages, all),
        (
            3,
            ["n5", "n4", "n3", "n2", "n1"].map(str::to_owned).to_vec()
        )
    );
}

#[tokio::test]
async fn rejects_invalid_query_parameters() {
    let sandbox = Sandbox::start().await;
    for (query, field) in [
        ("to=nobody@", "to"),
        ("after=soon", "after"),
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("cursor=", "cursor"),
        ("cursor=2", "cursor"),
    ] {
        let response = sandbox
            .control(&format!("GET /_sandbox/messages?{query}"), "")
            .await;
        assert_eq!(response.status, 422, "{query}");
        assert_eq!(response.between(r#""field":""#), field, "{query}");
    }

    for (path, shared) in [("", "limit, cursor"), ("/wait", "timeout")] {
        let response = sandbox
            .control(&format!("GET /_sandbox/messages{path}?tag=a"), "")
            .await;
        assert_eq!(response.status, 422, "{response:?}");
        let known = format!("organization, {shared}, to, from, subject, search, after\"");
        assert!(response.body.contains(&known), "{response:?}");
    }

    for timeout in ["soon", "601s"] {
        let line = format!("GET /_sandbox/messages/wait?timeout={timeout}");
        assert_eq!(sandbox.control(&line, "").await.status, 422, "{timeout}");
    }

    for path in ["", "/raw", "/html", "/links"] {
        let response = sandbox
            .control(&format!("GET /_sandbox/messages/msg_nothing{path}"), "")
            .await;
        assert_eq!(response.status, 404, "{path}");
    }
}

#[tokio::test]
async fn gets_a_message_with_its_content() {
    let sandbox = Sandbox::start().await;
    let more = r#","bcc":"secret@example.test","html":"<p>Gr\u00fc\u00dfe: <a href=\"https://shop.test/v?a=1&amp;b=2\">Verify</a></p>",
        "text":"Your code is 482913.","headers":{"X-Campaign":"spring"},"tags":{"kind":"welcome"},
        "attachments":[{"filename":"notes.txt","content":"aGVsbG8="}]"#;
    send(&sandbox, "ada@example.test", "Gr\u{fc}\u{df}e", more).await;
    let list = sandbox
        .control("GET /_sandbox/messages?to=ada@example.test", "")
        .await;
    let path = format!("GET /_sandbox/messages/{}", list.id());

    let shown = sandbox.control(&path, "").await;
    assert_eq!(shown.status, 200, "{shown:?}");

    for part in [
        r#""direction":"outgoing""#,
        r#""from":"Shop <hello@sandbox.test>""#,
        r#""tags":{"kind":"welcome"}"#,
        r#""recipient":"ada@example.test""#,
        r#""to":["ada@example.test"],"cc":[],"subject":"Grüße""#,
        r#""X-Campaign":"spring""#,
        r#""attachments":[{"filename":"notes.txt","contentType":"text/plain","contentId":null,"size":5}]"#,
        r#""links":[{"url":"https://shop.test/v?a=1&b=2","tracked_url":null,"text":"Verify"}],"codes":["482913"]"#,
    ] {
        assert!(shown.body.contains(part), "{part} in {}", shown.body);
    }

    let raw = sandbox.control(&format!("{path}/raw"), "").await;
    assert_eq!(raw.header("content-type"), Some("message/rfc822"));
    assert!(
        raw.body.starts_with(
            "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed;\r\n\td=sandbox.test; s=sandbox;"
        ),
        "{}",
        raw.body
    );
    assert!(raw.body.contains("Subject: =?utf-8?"), "{}", raw.body);
    assert!(
        !raw.body.contains("secret@example.test"),
        "the message reveals bcc"
    );

    let again = sandbox.control(&format!("{path}/raw"), "").await;
    assert_eq!(raw.body, again.body);

    let html = sandbox.control(&format!("{path}/html"), "").await;
    assert_eq!(
        html.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    // Images from elsewhere would tell who sent the message that it is read.
    assert_eq!(
        html.header("content-security-policy"),
        Some(
            "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; style-src \
             'unsafe-inline'; img-src data:; font-src data:; form-action 'none'; frame-ancestors 'self'"
        )
    );
    assert!(html.body.starts_with("<p>Grüße: "), "{}", html.body);

    let links = sandbox.control(&format!("{path}/links"), "").await;
    let expected = r#"{"links":[{"url":"https://shop.test/v?a=1&b=2","tracked_url":null,"text":"Verify"}],"codes":["482913"]}"#;
    assert_eq!(links.body, expected);

    // The bcc recipient received it too.
    let hidden = sandbox
        .control("GET /_sandbox/messages?to=secret@example.test", "")
        .await;
    assert_eq!(subjects(&hidden.body), ["Grüße"]);
}

/// A link says where it leads, tracked or not, and is there once.
#[tokio::test]
async fn links_lead_where_they_say() {
    let sandbox = Sandbox::start().await;
    let receiver = Receiver::start(&[]).await;
    let hook = format!(
        r#"{{"url":"{}","events":["email.clicked"]}}"#,
        receiver.url()
    );
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", &hook).await.status,
        201
    );

    let more = r#","text":"https://shop.test/v?a=1","html":"<a href=\"https://shop.test/v?a=1\">Verify</a> <a href=\"https://shop.test/v?a=1\"><img></a> <a href=\"https://shop.test/\"></a>""#;
    send(&sandbox, "ada@example.test", "s", more).await;
    let message = sandbox
        .control("GET /_sandbox/messages", "")
        .await
        .between(r#""id":""#);
    let found = sandbox
        .control(&format!("GET /_sandbox/messages/{message}/links"), "")
        .await;
    let base = found.between(r#""tracked_url":""#);
    let base = base
        .strip_suffix("/0")
        .unwrap_or_else(|| panic!("{found:?}"));
    assert!(
        base.starts_with(&format!("{}/t/c/eml_", sandbox.server.base_url())),
        "{found:?}"
    );
    assert_eq!(
        found.body,
        format!(
            r#"{{"links":[{{"url":"https://shop.test/v?a=1","tracked_url":"{base}/0","text":"Verify"}},{{"url":"https://shop.test/","tracked_url":"{base}/2","text":null}}],"codes":[]}}"#
        )
    );
}

#[tokio::test]
async fn deletes_one_those_selected_and_all() {
    let sandbox = Sandbox::start().await;
    sandbox
        .control("POST /_sandbox/organizations", r#"{"name":"other"}"#)
        .await;
    for (to, subject) in [
        ("ada", "Code 1"),
        ("ada", "Hello"),
        ("bob", "Code 2"),
        ("bob", "Bye"),
    ] {
        send(&sandbox, &format!("{to}@example.test"), subject, "").await;
    }

    sandbox.control(r"POST /_sandbox/inbound", RECEIVED).await;
    let newest = sandbox.control("GET /_sandbox/messages", "").await.id();
    let left = async || {
        let list = sandbox.control("GET /_sandbox/messages", "").await;
        subjects(&list.body).join(", ")
    };

    let one = format!("DELETE /_sandbox/messages/{newest}");
    let elsewhere = sandbox
        .control(&format!("{one}?organization=other"), "")
        .await;
    assert_eq!(elsewhere.status, 404, "{elsewhere:?}");

    for status in [204, 404] {
        assert_eq!(sandbox.control(&one, "").await.status, status);
    }

    assert_eq!(left().await, "Bye, Code 2, Hello, Code 1");

    for (query, rest) in [
        ("?to=ada@example.test&subject=CODE", "Bye, Code 2, Hello"),
        ("?from=eve@example.test", "Bye, Code 2, Hello"),
        ("?organization=other", "Bye, Code 2, Hello"),
        ("?to=bob@example.test", "Hello"),
        ("", ""),
    ] {
        let deleted = sandbox
            .control(&format!("DELETE /_sandbox/messages{query}"), "")
            .await;
        assert_eq!(
            (deleted.status, deleted.body.as_str()),
            (204, ""),
            "{query}"
        );
        assert_eq!(left().await, rest, "{query}");
    }

    let mistyped = sandbox
        .control("DELETE /_sandbox/messages?too=ada@example.test", "")
        .await;
    assert_eq!(mistyped.status, 422, "{mistyped:?}");

    // Everything else stays, also the emails of the messages.
    let emails = sandbox.control("GET /_sandbox/emails", "").await;
    assert_eq!(subjects(&emails.body).len(), 4, "{emails:?}");
    assert!(
        sandbox
            .call("GET /api/v1/domains", "")
            .await
            .body
            .contains("sandbox.test")
    );
}

const RECEIVED: &str = r#"{"from":"eve@example.test","to":"hi@sandbox.test","subject":"Received"}"#;

#[tokio::test]
async fn wait_returns_when_the_message_arrives() {
    let sandbox = Sandbox::start().await;
    send(&sandbox, "bob@example.test", "Not this one", "").await;
    let query = "GET /_sandbox/messages/wait?to=ada@example.test&subject=code&timeout=90s";
    let waiting = sandbox.control(query, "");
    let sending = async {
        // Usually lets the wait start first. The test also passes if it does not.
        tokio::task::yield_now().await;
        let body = r#"{"from":"hello@sandbox.test","to":"ada@example.test","subject":"Hello"}"#;
        assert_eq!(sandbox.call(SEND, body).await.status, 202);
        // The wait goes on after a reset.
        let reset = sandbox
            .control("POST /_sandbox/reset", r#"{"organization":"Sandbox"}"#)
            .await;
        assert_eq!(reset.status, 204);
        let body = r#"{"from":"hello@sandbox.test","to":"ada@example.test","subject":"Your code"}"#;
        assert_eq!(sandbox.call(SEND, body).await.status, 202);
    };
    let (found, ()) = tokio::join!(waiting, sending);
    assert_eq!(found.status, 200, "{found:?}");
    assert_eq!(found.between(r#""subject":""#), "Your code");

    let existing = sandbox.control(query, "").await;
    assert_eq!(existing.id(), found.id());
}

#[tokio::test]
async fn wait_returns_408_after_the_timeout() {
    let sandbox = Sandbox::start().await;
    let started = std::time::Instant::now();
    let query = "GET /_sandbox/messages/wait?to=ada@example.test&timeout=50ms";
    let response = sandbox.control(query, "").await;
    assert_eq!(response.status, 408, "{response:?}");
    assert_eq!(response.between(r#""code":""#), "request_timeout");
    assert!(started.elapsed() >= Duration::from_millis(50));
}

/// A wait in the wrong organization says so.
#[tokio::test]
async fn a_wait_names_the_organization_that_has_the_message() {
    let sandbox = Sandbox::start().await;
    let other = sandbox
        .control("POST /_sandbox/organizations", r#"{"name":"Shop"}"#)
        .await;
    let has_it = format!(
        r#"; the organization \"Shop\" ({}) has it: name that as `organization`""#,
        other.id()
    );
    let body = format!(
        r#"{{"from":"a@{}","to":"ada@example.test","subject":"Code"}}"#,
        other.between(r#""domain":""#)
    );
    let sent = sandbox
        .with_key(&other.between(r#""email_key":""#), SEND, &body)
        .await;
    assert_eq!(sent.status, 202, "{sent:?}");

    sandbox.settle().await;
    for (query, is_there) in [
        ("to=ADA@example.test&subject=code", true),
        ("after=2020-01-01", true),
        ("after=2999-01-01", false),
        ("to=bob@example.test", false),
    ] {
        let line = format!("GET /_sandbox/messages/wait?timeout=1ms&{query}");
        let response = sandbox.control(&line, "").await;
        assert_eq!(response.status, 408, "{query}: {response:?}");
        assert_eq!(
            response.body.contains(&has_it),
            is_there,
            "{query}: {response:?}"
        );
    }
}

#[tokio::test]
async fn organizations_do_not_see_each_others_messages() {
    let sandbox = Sandbox::start().await;
    send(&sandbox, "ada@example.test", "Ours", "").await;
    let ours = sandbox.control("GET /_sandbox/messages", "").await;
    let other = sandbox
        .control("POST /_sandbox/organizations", r#"{"name":"other"}"#)
        .await;
    assert_eq!(other.status, 201);

    let theirs = sandbox
        .control("GET /_sandbox/messages?organization=other", "")
        .await;
    assert_eq!(theirs.body, r#"{"data":[],"next":null}"#);

    let path = format!("GET /_sandbox/messages/{}?organization=other", ours.id());
    assert_eq!(sandbox.control(&path, "").await.status, 404);
}
