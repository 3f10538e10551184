//! Few bytes or requests that cause many rows or bytes to be written.

use std::path::Path;
use std::time::Duration;

use svc_reference_server::Server;

use super::mail::talk;
use crate::harness::{Sandbox, private_dir};
use crate::receiver::{Receiver, within};

async fn on(directory: &Path) -> Sandbox {
    let any_port = "127.0.0.1:0".parse().expect("an address");
    let builder = Server::builder().data_dir(directory).smtp(any_port);
    Sandbox::of(builder.start().await.expect("started"))
}

/// Creates webhooks for these events at an endpoint.
async fn webhooks(sandbox: &Sandbox, count: usize, url: &str, events: &str) -> Vec<String> {
    let mut ids = Vec::new();
    for number in 0..count {
        let body = format!(r#"{{"url":"{url}/{number}","events":[{events}]}}"#);
        let created = sandbox.call("POST /api/v1/webhooks", &body).await;
        assert_eq!(created.status, 201, "{created:?}");
        ids.push(created.id());
    }
    ids
}

/// The size of what is stored. That of the log depends on how the commits were grouped.
fn size(directory: &Path) -> i64 {
    let database = rusqlite::Connection::open(directory.join("svc.db")).expect("opened");
    let sql = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
    database
        .query_row(sql, [], |row| row.get(0))
        .expect("a size")
}

/// No endpoint listens there.
const NOWHERE: &str = "http://127.0.0.1:1";

#[tokio::test]
async fn a_large_message_to_many_recipients_with_many_webhooks() {
    let directory = private_dir();
    let sandbox = on(directory.path()).await;
    // Retries are due later than the test ends.
    sandbox.freeze().await;
    webhooks(&sandbox, 20, NOWHERE, r#""email.received""#).await;
    let receiver = Receiver::start(&[]).await;
    webhooks(&sandbox, 1, &receiver.url(), r#""email.received""#).await;
    let before = size(directory.path());
    let line = format!("{}\r\n", "x".repeat(70));
    let text = line.repeat(512 * 1024 / line.len());
    let recipients: String = (0..20)
        .map(|number| format!("RCPT TO:<r{number}@sandbox.test>\r\n"))
        .collect();
    let session = format!(
        "EHLO a.test\r\nMAIL FROM:<a@b.test>\r\n{recipients}DATA\r\nFrom: a@b.test\r\nSubject: large\r\n\r\n{text}.\r\nQUIT\r\n"
    );
    let smtp = sandbox.server.addresses().smtp.expect("a listener");
    let replies = talk(smtp, session.as_bytes()).await;
    assert!(replies.contains("250 2.0.0 queued"), "{replies}");

    within("the deliveries", sandbox.settle()).await;
    // The source, the JSON of it, and small rows: not 20 sources and 420 bodies.
    let written = size(directory.path()) - before;
    assert!(written < 4 << 20, "{written} bytes were written");

    // The parts make up the body that is signed and shown.
    let received = receiver.received();
    assert_eq!(received.len(), 20);

    for (number, delivery) in received.iter().enumerate() {
        let json: serde_json::Value = serde_json::from_str(&delivery.body).expect("JSON");
        assert_eq!(json["event"], "email.received");
        assert_eq!(
            json["data"]["text"].as_str().map(str::len),
            Some(text.len())
        );
        let shown = sandbox
            .control(&format!("GET /_sandbox/deliveries/{}", delivery.id()), "")
            .await;
        let shown: serde_json::Value = serde_json::from_str(&shown.body).expect("JSON");
        assert_eq!(shown["body"], delivery.body, "delivery {number}");
    }

    // A reset deletes what is shared as well.
    assert_eq!(
        sandbox.control("POST /_sandbox/reset", "").await.status,
        204
    );

    sandbox.server.stop().await;
    let database = rusqlite::Connection::open(directory.path().join("svc.db")).expect("opened");
    let count = |table: &str| -> i64 {
        let sql = format!("SELECT COUNT(*) FROM {table}");
        database
            .query_row(&sql, [], |row| row.get(0))
            .expect("a count")
    };

    assert_eq!(
        (count("body"), count("delivery"), count("attempt")),
        (0, 0, 0)
    );
}

#[tokio::test]
async fn tags_and_names_that_every_event_would_repeat() {
    let sandbox = Sandbox::start().await;
    let tags = |count: usize, size: usize| {
        let tags: Vec<String> = (0..count)
            .map(|number| format!(r#""t{number}":"{}""#, "x".repeat(size)))
            .collect();
        format!(
            r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","tags":{{{}}}}}"#,
            tags.join(",")
        )
    };

    assert_eq!(
        sandbox
            .call("POST /api/v1/emails", &tags(100, 100))
            .await
            .status,
        202
    );

    for (body, message) in [
        (tags(101, 1), "has 101 tags, at most 100 are allowed"),
        (
            tags(2, 10_000),
            "has 20017 bytes as JSON, at most 16384 are allowed",
        ),
        (
            tags(0, 0).replace(
                "a@sandbox.test",
                &format!("{} <a@sandbox.test>", "x".repeat(1000)),
            ),
            "has 1017 bytes, at most 1000 are allowed",
        ),
        (
            tags(0, 0).replace("b@x.test", &format!("{} <b@x.test>", "x".repeat(1000))),
            "has 1011 bytes, at most 1000 are allowed",
        ),
    ] {
        let refused = sandbox.call("POST /api/v1/emails", &body).await;
        assert_eq!(refused.status, 422);
        assert!(refused.body.contains(message), "{refused:?}");
        let batch = sandbox
            .call("POST /api/v1/emails/batch", &format!("[{body}]"))
            .await;
        assert!(
            batch.status == 200 && batch.body.contains(message),
            "{batch:?}"
        );
    }

    let email = sandbox.call("POST /api/v1/emails", &tags(0, 0)).await.id();
    sandbox.settle().await;
    let body = format!(r#"{{"event":"bounced","detail":"{}"}}"#, "x".repeat(20_000));
    let refused = sandbox
        .control(&format!("POST /_sandbox/emails/{email}/events"), &body)
        .await;
    assert_eq!(refused.status, 422);
    assert!(
        refused.body.contains("has 20002 bytes as JSON"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn clicks_on_an_email_with_much_html() {
    let sandbox = Sandbox::start().await;
    webhooks(&sandbox, 1, NOWHERE, r#""email.clicked""#).await;
    let links: String = (0..100_000)
        .map(|n| format!("<a href='http://a.test/{n}'>{n}</a>"))
        .collect();
    let long = format!("<a href='http://b.test/{}'>long</a>", "x".repeat(10_000));
    let body = format!(
        r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","html":"{long}{links}"}}"#
    );
    let email = sandbox.call("POST /api/v1/emails", &body).await.id();
    within("the delivery", sandbox.settle()).await;
    let message = sandbox.control("GET /_sandbox/messages", "").await.id();
    let html = sandbox
        .control(&format!("GET /_sandbox/messages/{message}/html"), "")
        .await
        .body;
    assert_eq!(html.matches(&format!("/t/c/{email}/0/")).count(), 1_000);
    assert!(html.contains("http://b.test/xxx") && html.contains("'http://a.test/1000'"));

    let clicked = sandbox
        .raw(&format!("HEAD /t/c/{email}/0/999"), "", "")
        .await;
    assert_eq!(
        (clicked.status, clicked.header("location")),
        (302, Some("http://a.test/999"))
    );
    assert_eq!(
        sandbox
            .raw(&format!("GET /t/c/{email}/0/1000"), "", "")
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn templates_that_work_on_large_values_and_clients_that_hang_up() {
    let sandbox = Sandbox::start().await;
    let slow = "{% for i in range(999) %}{% for j in range(999) %}{% if big|lower|trim in big|upper %}{% endif %}{% endfor %}{% endfor %}";
    for (id, html) in [("slow", slow), ("fast", "{{ big }}")] {
        let put = format!("PUT /_sandbox/templates/{id}");
        let stored = sandbox
            .control(&put, &format!(r#"{{"html":"{html}"}}"#))
            .await;
        assert_eq!(stored.status, 200, "{stored:?}");
    }

    let email = |template: &str| {
        format!(
            r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","templateId":"{template}","variables":{{"big":"{}"}}}}"#,
            "x".repeat(500_000)
        )
    };

    // More than are rendered at the same time; their clients give up after a moment.
    let slow = email("slow");
    let given_up = (0..8).map(|_| {
        tokio::time::timeout(
            Duration::from_millis(300),
            sandbox.call("POST /api/v1/emails", &slow),
        )
    });
    futures_util::future::join_all(given_up).await;
    let refused = within("a refusal", sandbox.call("POST /api/v1/emails", &slow)).await;
    assert_eq!(refused.status, 422);
    assert!(
        refused.body.contains("the template exceeds a limit"),
        "{refused:?}"
    );

    let accepted = within(
        "an email",
        sandbox.call("POST /api/v1/emails", &email("fast")),
    )
    .await;
    assert_eq!(accepted.status, 202);
}
