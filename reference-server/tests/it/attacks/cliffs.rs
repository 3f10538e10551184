//! Work on much data does not hold up other requests: what one statement can do is one statement.

use std::time::{Duration, Instant};

use svc_reference_server::Server;

use super::deletions::{insert_messages, open};
use crate::harness::{Sandbox, private_dir};

/// How long a request may take while a large deletion runs, on a machine that is busy with other
/// tests. Without contention it takes milliseconds.
const NOTICEABLE: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_of_many_messages_is_one_statement() {
    let directory = private_dir();
    let server = Server::builder().data_dir(directory.path()).start();
    let sandbox = Sandbox::of(server.await.expect("started"));
    insert_messages(&open(directory.path()));

    let started = Instant::now();
    let deleted = sandbox
        .control("DELETE /_sandbox/messages?to=a@sandbox.test", "")
        .await;

    assert_eq!(deleted.status, 204);
    assert!(started.elapsed() < NOTICEABLE, "{:?}", started.elapsed());
    let rest = sandbox.control("GET /_sandbox/messages", "").await;
    assert_eq!(rest.body, r#"{"data":[],"next":null}"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_email_to_a_thousand_recipients_reaches_twenty_webhooks_quickly() {
    let directory = private_dir();
    let server = Server::builder().data_dir(directory.path()).start();
    let sandbox = Sandbox::of(server.await.expect("started"));
    for n in 0..20 {
        let webhook = format!(
            r#"{{"url":"http://127.0.0.1:1/{n}","events":["email.sent","email.delivered"]}}"#
        );
        assert_eq!(
            sandbox.call("POST /api/v1/webhooks", &webhook).await.status,
            201
        );
    }
    let list = |from: usize, to: usize| {
        let addresses: Vec<_> = (from..to)
            .map(|n| format!("\"r{n}@sandbox.test\""))
            .collect();
        addresses.join(",")
    };
    let email = format!(
        r#"{{"from":"a@sandbox.test","to":[{}],"bcc":[{}],"subject":"s","text":"t"}}"#,
        list(0, 50),
        list(50, 1000),
    );

    let started = Instant::now();
    let sent = sandbox.call("POST /api/v1/emails", &email).await;

    assert_eq!(sent.status, 202, "{sent:?}");
    assert!(
        started.elapsed() < 2 * NOTICEABLE,
        "{:?}",
        started.elapsed()
    );
}
