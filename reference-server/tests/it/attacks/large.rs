//! Large emails and messages: others write while one is being stored.

use std::cell::Cell;
use std::future::pending;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use svc_reference_server::Server;

use crate::harness::{KEY, Sandbox, private_dir};
use crate::receiver::within;

async fn start(directory: &Path) -> Sandbox {
    Sandbox::of(Server::builder().data_dir(directory).start().await.expect("started"))
}

fn open(directory: &Path) -> Connection {
    let database = Connection::open(directory.join("svc.db")).expect("opened");
    database.busy_timeout(Duration::from_secs(60)).expect("a timeout");
    database
}

fn number(database: &Connection, sql: &str) -> i64 {
    database.query_row(sql, [], |row| row.get(0)).expect(sql)
}

async fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    within(what, wait).await;
}

#[tokio::test]
async fn a_large_email_is_stored_in_many_transactions_before_the_one_that_accepts_it() {
    let directory = private_dir();
    let sandbox = start(directory.path()).await;
    let database = open(directory.path());
    let (text, content) = ("x".repeat(3 << 20), "eHh4".repeat(300_000));
    let email = |from: &str| {
        format!(
            r#"{{"from":"{from}","to":"b@x.test","subject":"s","text":"{text}","html":"<p>","attachments":[{{"filename":"a.bin","content":"{content}"}}]}}"#
        )
    };
    let accepted = email("a@sandbox.test");
    // A busy machine may not look between the first transaction and the last one.
    let mut emails = 0;
    let sent = loop {
        emails += 1;
        let is_seen = Cell::new(false);
        let look = async {
            let sql = "SELECT COUNT(*) FROM piece JOIN large ON id = large WHERE is_kept = 0";
            while number(&database, sql) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            is_seen.set(true);
            pending::<()>().await;
        };
        let sent = tokio::select! {
            sent = sandbox.call("POST /api/v1/emails", &accepted) => sent,
            () = look => continue,
        };
        assert_eq!(sent.status, 202, "{sent:?}");
        if is_seen.get() {
            break sent;
        }
        assert!(emails < 50, "each email was stored and accepted at once");
    };
    assert!(number(&database, "SELECT MAX(octet_length(bytes)) FROM piece") <= 1 << 20);
    let inline = "SELECT SUM(octet_length(coalesce(text, '') || html)) FROM email_content";
    assert_eq!(number(&database, inline), 3 * emails);

    let found = sandbox.call(&format!("GET /api/v1/emails/{}", sent.id()), "").await;
    assert!(found.body.contains(&text) && found.body.contains(r#""size":900000"#));
    sandbox.settle().await;
    let message = sandbox.control("GET /_sandbox/messages", "").await.id();
    let path = format!("GET /_sandbox/messages/{message}/attachments/1");
    assert_eq!(sandbox.control(&path, "").await.body, "xxx".repeat(300_000));

    // Nothing is written of an email whose domain is not verified.
    sandbox.settle().await;
    let version = || number(&database, "PRAGMA data_version");
    let before = version();
    let unverified = email("a@unknown.test");
    let refused = sandbox.call("POST /api/v1/emails", &unverified).await;
    assert_eq!(refused.status, 403, "{:.300}", refused.body);
    let batch = sandbox.call("POST /api/v1/emails/batch", &format!("[{unverified}]")).await;
    assert!(batch.body.contains("domain_not_verified"), "{:.300}", batch.body);
    assert_eq!(version(), before);

    // What is refused for another reason leaves nothing, and neither does what was never accepted.
    let once = format!("authorization: Bearer {KEY}\r\nidempotency-key: once\r\n");
    let small = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"x"}"#;
    for (body, status) in [(small, 202), (accepted.as_str(), 409)] {
        let response = sandbox.raw("POST /api/v1/emails", &once, body).await;
        assert_eq!(response.status, status, "{:.300}", response.body);
    }
    let values = || number(&database, "SELECT COUNT(*) FROM large");
    wait_for("the removal of what was refused", || values() == 2 * emails).await;
    sandbox.server.stop().await;
    for sql in [
        "INSERT INTO large (size, is_kept) VALUES (2, 0)",
        "INSERT INTO piece SELECT MAX(id), 0, x'00' FROM large",
    ] {
        assert_eq!(database.execute(sql, []).expect(sql), 1);
    }
    let sandbox = start(directory.path()).await;
    wait_for("the removal of what was not accepted", || values() == 2 * emails).await;
    sandbox.control("POST /_sandbox/reset", "").await;
    wait_for("the removal of the email", || {
        values() + number(&database, "SELECT COUNT(*) FROM piece") == 0
    })
    .await;
    assert_eq!(number(&database, "SELECT COUNT(*) FROM email_large"), 0);
}

#[tokio::test]
async fn a_large_message_is_stored_once_in_pieces() {
    let directory = private_dir();
    let sandbox = start(directory.path()).await;
    let database = open(directory.path());
    let body = r#"{"url":"http://127.0.0.1:9/","events":["email.received"]}"#;
    assert_eq!(sandbox.call("POST /api/v1/webhooks", body).await.status, 201);
    let text = "x".repeat(900).repeat(2_000);
    let message = format!(
        r#"{{"from":"a@x.test","to":["b@sandbox.test","c@sandbox.test"],"subject":"s","text":"{text}"}}"#
    );
    for _ in 0..2 {
        let received = sandbox.control("POST /_sandbox/inbound", &message).await;
        assert_eq!(received.status, 202, "{received:?}");
    }
    assert_eq!(number(&database, "SELECT COALESCE(MAX(octet_length(bytes)), 0) FROM body"), 0);
    assert!(number(&database, "SELECT MAX(octet_length(bytes)) FROM piece") <= 1 << 20);
    let delivery = sandbox.control("GET /_sandbox/deliveries", "").await;
    let delivery = delivery.between(r#""id":""#);
    let shown = sandbox.control(&format!("GET /_sandbox/deliveries/{delivery}"), "").await;
    assert!(shown.body.contains(&text), "{:.300}", shown.body);
    let received = sandbox.control("GET /_sandbox/messages", "").await.id();
    let raw = sandbox.control(&format!("GET /_sandbox/messages/{received}/raw"), "").await;
    assert!(raw.body.len() > text.len(), "{:.300}", raw.body);
    sandbox.control("POST /_sandbox/reset", "").await;
    wait_for("the removal of the messages", || {
        number(&database, "SELECT (SELECT COUNT(*) FROM large) + (SELECT COUNT(*) FROM body)") == 0
    })
    .await;
}
