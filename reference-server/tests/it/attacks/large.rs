//! Large emails and messages.

use rusqlite::Connection;
use svc_reference_server::Server;

use crate::harness::{Sandbox, private_dir};

#[tokio::test]
async fn a_large_message_is_stored_once() {
    let directory = private_dir();
    let server = Server::builder()
        .data_dir(directory.path())
        .start()
        .await
        .expect("started");
    let sandbox = Sandbox::of(server);
    let database = Connection::open(directory.path().join("svc.db")).expect("opened");
    let number = |sql: &str| -> i64 { database.query_row(sql, [], |row| row.get(0)).expect(sql) };
    let body = r#"{"url":"http://127.0.0.1:9/","events":["email.received"]}"#;
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", body).await.status,
        201
    );

    let text = "x".repeat(1_800_000);
    let message = format!(
        r#"{{"from":"a@x.test","to":["b@sandbox.test","c@sandbox.test"],"subject":"s","text":"{text}"}}"#
    );
    let received = sandbox.control("POST /_sandbox/inbound", &message).await;
    assert_eq!(received.status, 202, "{received:?}");
    // The source, and the JSON of it.
    assert_eq!(number("SELECT COUNT(*) FROM body"), 2);
    assert_eq!(
        number("SELECT COUNT(*) FROM delivery WHERE octet_length(head) < 1000"),
        2
    );

    let delivery = sandbox.control("GET /_sandbox/deliveries", "").await.id();
    let shown = sandbox
        .control(&format!("GET /_sandbox/deliveries/{delivery}"), "")
        .await;
    assert!(shown.body.contains(&text), "{:.300}", shown.body);

    let received = sandbox.control("GET /_sandbox/messages", "").await.id();
    let raw = sandbox
        .control(&format!("GET /_sandbox/messages/{received}/raw"), "")
        .await;
    assert!(raw.body.len() > text.len(), "{:.300}", raw.body);

    sandbox.control("POST /_sandbox/reset", "").await;
    assert_eq!(number("SELECT COUNT(*) FROM body"), 0);
}
