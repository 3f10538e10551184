//! Work on much data grows with the data, and not with its square: what one statement can do is one
//! statement.

use std::time::{Duration, Instant};

use svc_reference_server::Server;

use super::assert_growth;
use super::deletions::{insert_messages, open};
use crate::harness::{Sandbox, private_dir};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_of_ten_times_as_many_messages_takes_about_ten_times_as_long() {
    let few = Mailbox::start(1_000).await;
    let many = Mailbox::start(10_000).await;

    assert_growth(
        30,
        async || few.fill_and_empty().await,
        async || {
            many.fill_and_empty().await;
        },
    )
    .await;
}

struct Mailbox {
    directory: tempfile::TempDir,
    sandbox: Sandbox,
    messages: usize,
}

impl Mailbox {
    async fn start(messages: usize) -> Self {
        let directory = private_dir();
        let server = Server::builder().data_dir(directory.path()).start();
        Self {
            sandbox: Sandbox::of(server.await.expect("started")),
            directory,
            messages,
        }
    }

    async fn fill_and_empty(&self) {
        insert_messages(&open(self.directory.path()), self.messages);
        let delete = "DELETE /_sandbox/messages?to=a@sandbox.test";
        assert_eq!(self.sandbox.control(delete, "").await.status, 204);
        let rest = self.sandbox.control("GET /_sandbox/messages", "").await;
        assert_eq!(rest.body, r#"{"data":[],"next":null}"#);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_healthy_webhook_does_not_wait_for_dead_ones() {
    let sandbox = Sandbox::start().await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let dead = format!("http://{}/", silent.local_addr().expect("an address"));
    let subscribe = async |url: &str| {
        let webhook = format!(r#"{{"url":"{url}","events":["email.delivered"]}}"#);
        let created = sandbox.call("POST /api/v1/webhooks", &webhook).await;
        assert_eq!(created.status, 201);
    };

    for _ in 0..8 {
        subscribe(&dead).await;
    }

    let email = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"t"}"#;
    for _ in 0..20 {
        assert_eq!(sandbox.call("POST /api/v1/emails", email).await.status, 202);
    }

    let healthy = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    subscribe(&format!(
        "http://{}/",
        healthy.local_addr().expect("an address")
    ))
    .await;
    assert_eq!(sandbox.call("POST /api/v1/emails", email).await.status, 202);

    // The dead ones hold their attempts for ten seconds.
    let attempt = tokio::time::timeout(Duration::from_secs(8), healthy.accept());
    attempt
        .await
        .expect("an attempt meanwhile")
        .expect("a connection");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_shrinks_after_a_large_deletion() {
    let directory = private_dir();
    let server = Server::builder().data_dir(directory.path()).start();
    let sandbox = Sandbox::of(server.await.expect("started"));
    let text = "x".repeat(12 << 20);
    let email =
        format!(r#"{{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"{text}"}}"#);
    assert_eq!(
        sandbox.call("POST /api/v1/emails", &email).await.status,
        202
    );

    let size = || {
        let file = directory.path().join("svc.db").metadata();
        file.expect("the file").len()
    };

    assert_eq!(
        sandbox.control("POST /_sandbox/reset", "").await.status,
        204
    );

    let shrunk = async {
        while size() > 6 << 20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    crate::receiver::within("the file", shrunk).await;
}

/// Each has a domain in the zone, which was read whole for each new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_two_thousandth_organization_takes_no_longer_than_the_first_ones() {
    let sandbox = Sandbox::start().await;
    let create = async || {
        let begun = Instant::now();
        sandbox.organization().await;
        begun.elapsed()
    };
    // The quickest of some: others share the machine.
    let quickest = async |count: usize| {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(create().await);
        }
        all.into_iter().min().expect("one of them")
    };

    quickest(20).await;
    let early = quickest(100).await;
    quickest(1_580).await;
    let late = quickest(300).await;
    assert!(late < early * 3 / 2, "{early:?}, then {late:?}");
}
