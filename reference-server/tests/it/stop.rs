//! Graceful stop: work in flight is completed, new work is rejected, and the next
//! server does the rest.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use svc_reference_server::{Builder, Server};

use crate::harness::{KEY, Sandbox};
use crate::raw;
use crate::receiver::{NEVER, Received, Receiver, within};

const EMAIL: &str = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;

#[tokio::test]
async fn completes_work_in_flight_and_keeps_pending_work() {
    const EMAILS: usize = 200;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    let receiver = Receiver::start(&[]).await;
    let sandbox = Sandbox::with(|builder| builder.data_dir(&path)).await;
    let body = format!(r#"{{"url":"{}","events":["email.delivered"]}}"#, receiver.url());
    assert_eq!(sandbox.call("POST /api/v1/webhooks", &body).await.status, 201);
    let emails = [EMAIL; EMAILS / 2].join(",");
    for _ in 0..2 {
        let batch = format!("[{emails}]");
        assert_eq!(sandbox.call("POST /api/v1/emails/batch", &batch).await.status, 200);
    }
    // A request of which the server has only a part, and an idle connection.
    let addr = sandbox.addr();
    let mut slow = TcpStream::connect(addr).await.expect("connected");
    let (first, second) = EMAIL.split_at(20);
    let head = format!(
        "POST /api/v1/emails HTTP/1.1\r\nhost: {addr}\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        EMAIL.len()
    );
    slow.write_all(head.as_bytes()).await.expect("written");
    // The server asks for the body, so the request is in flight.
    let interim = within("the interim response", raw::read_head(&mut slow)).await;
    assert!(interim.starts_with("HTTP/1.1 100"), "{interim}");
    slow.write_all(first.as_bytes()).await.expect("written");
    let _idle = TcpStream::connect(addr).await.expect("connected");

    let stopping = tokio::spawn(sandbox.server.stop());
    // New connections are refused once the server has begun to stop.
    let refused = async {
        while TcpStream::connect(addr).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    within("the server to refuse connections", refused).await;
    slow.write_all(second.as_bytes()).await.expect("written");
    let response = within("the response", raw::read_response(&mut slow)).await;
    assert_eq!(response.status, 202, "{response:?}");
    within("the server to stop", stopping).await.expect("stopped");

    let sandbox = Sandbox::of(Server::builder().data_dir(&path).start().await.expect("started"));
    sandbox.settle().await;
    let found = sandbox.call(&format!("GET /api/v1/emails/{}", response.id()), "").await;
    assert_eq!(found.between(r#""status":""#), "delivered");
    let received = receiver.received();
    let ids: BTreeSet<&str> = received.iter().map(Received::id).collect();
    assert_eq!(ids.len(), EMAILS + 1);
    assert_eq!(received.len(), ids.len(), "no delivery was repeated");
}

/// An endpoint that never responds delays a stop only for the timeout of an attempt.
/// The next server repeats the attempt.
#[tokio::test]
async fn a_stop_does_not_wait_for_a_hanging_endpoint() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    let receiver = Receiver::start(&[NEVER]).await;
    let short = |builder: Builder| builder.data_dir(&path).stop_timeout(Duration::from_secs(1));
    let sandbox = Sandbox::with(short).await;
    let body = format!(r#"{{"url":"{}","events":["email.delivered"]}}"#, receiver.url());
    assert_eq!(sandbox.call("POST /api/v1/webhooks", &body).await.status, 201);
    assert_eq!(sandbox.call("POST /api/v1/emails", EMAIL).await.status, 202);
    let first = receiver.until(1).await;
    within("the server to stop", sandbox.server.stop()).await;

    let server = short(Server::builder()).start().await.expect("started");
    let all = receiver.until(2).await;
    assert_eq!(all[1].body, first[0].body);
    server.stop().await;
}

#[tokio::test]
async fn a_stop_leaves_all_data_in_one_file() {
    for round in 0..5 {
        let directory = tempfile::tempdir().unwrap();
        let sandbox = Sandbox::with(|builder| builder.data_dir(directory.path())).await;
        // Several concurrent reads open several connections.
        let id = sandbox.call("POST /api/v1/emails", EMAIL).await.id();
        let line = format!("GET /api/v1/emails/{id}");
        let reads = (0..4).map(|_| sandbox.call(&line, ""));
        futures_util::future::join_all(reads).await;
        sandbox.settle().await;
        sandbox.server.stop().await;
        assert!(directory.path().join("svc.db").exists());
        let log = directory.path().join("svc.db-wal");
        assert!(!log.exists(), "round {round}: the write-ahead log still exists");
    }
}
