//! Graceful stop: work in flight is completed, new work is rejected, and the next
//! server does the rest.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
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
    let patient = |builder: Builder| {
        builder
            .data_dir(&path)
            .limits(|limits| limits.stop_timeout = Duration::from_secs(100))
    };

    let sandbox = Sandbox::with(patient).await;
    let body = format!(
        r#"{{"url":"{}","events":["email.delivered"]}}"#,
        receiver.url()
    );
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", &body).await.status,
        201
    );

    let emails = [EMAIL; EMAILS / 2].join(",");
    for _ in 0..2 {
        let batch = format!("[{emails}]");
        assert_eq!(
            sandbox
                .call("POST /api/v1/emails/batch", &batch)
                .await
                .status,
            200
        );
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

    within("the server to stop", stopping)
        .await
        .expect("stopped");

    let sandbox = Sandbox::of(
        Server::builder()
            .data_dir(&path)
            .start()
            .await
            .expect("started"),
    );
    sandbox.settle().await;
    let found = sandbox
        .call(&format!("GET /api/v1/emails/{}", response.id()), "")
        .await;
    assert_eq!(found.between(r#""status":""#), "delivered");

    let received = receiver.received();
    let ids: BTreeSet<&str> = received.iter().map(Received::id).collect();
    assert_eq!(ids.len(), EMAILS + 1);
    assert_eq!(received.len(), ids.len(), "no delivery was repeated");
}

/// A stop cuts the attempts to an endpoint that never responds. The next server makes them, and
/// those that were waiting, and none counts twice.
#[tokio::test]
async fn a_stop_cuts_attempts_and_does_not_count_them() {
    // More than the server makes at the same time.
    const WEBHOOKS: usize = 9;
    const EMAILS: usize = 16;
    // Each of nine busy webhooks has a tenth of 64.
    const IN_PROGRESS: usize = WEBHOOKS * 6;

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    let receiver = Receiver::start(&[NEVER; IN_PROGRESS]).await;
    let sandbox = Sandbox::with(|builder| builder.data_dir(&path)).await;
    let body = format!(
        r#"{{"url":"{}","events":["email.delivered"]}}"#,
        receiver.url()
    );
    for _ in 0..WEBHOOKS {
        assert_eq!(
            sandbox.call("POST /api/v1/webhooks", &body).await.status,
            201
        );
    }

    let batch = format!("[{}]", [EMAIL; EMAILS].join(","));
    assert_eq!(
        sandbox
            .call("POST /api/v1/emails/batch", &batch)
            .await
            .status,
        200
    );

    receiver.until(IN_PROGRESS).await;
    assert_stops(sandbox).await;

    let sandbox = Sandbox::with(|builder| builder.data_dir(&path)).await;
    within("the deliveries", sandbox.settle()).await;
    let deliveries = sandbox
        .control("GET /_sandbox/deliveries?limit=100", "")
        .await;
    let delivered = deliveries
        .body
        .matches(r#""state":"delivered","attemptCount":1,"#)
        .count();
    assert_eq!(delivered, 100, "{deliveries:?}");
    assert_eq!(receiver.received().len(), IN_PROGRESS + WEBHOOKS * EMAILS);

    sandbox.server.stop().await;
}

/// Stops the server, which takes at most 2 s on a machine that is not busy.
async fn assert_stops(sandbox: Sandbox) {
    let started = Instant::now();
    within("the server to stop", sandbox.server.stop()).await;
    let took = started.elapsed();
    assert!(took < Duration::from_secs(6), "the stop took {took:?}");
}

/// What hangs takes longer than a stop: the shortest of these time limits is 10 s.
#[tokio::test]
async fn a_stop_waits_for_nothing_that_hangs() {
    let directory = tempfile::tempdir().unwrap();
    let name_server = tokio::net::UdpSocket::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let resolver = name_server.local_addr().expect("an address");
    let any_port = "127.0.0.1:0".parse().expect("an address");
    let sandbox = Sandbox::with(|builder| {
        builder
            .data_dir(directory.path())
            .smtp(any_port)
            .resolver(resolver)
    })
    .await;
    let addr = sandbox.addr();
    let smtp = sandbox.server.addresses().smtp.expect("a listener");
    let mut open = Vec::new();
    let mut hang = async |addr, text: &str, answer: &str| {
        let mut stream = TcpStream::connect(addr).await.expect("connected");
        stream.write_all(text.as_bytes()).await.expect("written");
        let mut read = vec![0; answer.len()];
        within(text, stream.read_exact(&mut read))
            .await
            .expect("an answer");
        assert_eq!(String::from_utf8_lossy(&read), answer);
        open.push(stream);
    };
    let http = |line: &str, rest: &str| {
        format!("{line} HTTP/1.1\r\nhost: {addr}\r\nauthorization: Bearer {KEY}\r\n{rest}")
    };
    // Requests: a slow body, a wait, a lease, and responses that are not read.
    let body =
        "content-type: application/json\r\nexpect: 100-continue\r\ncontent-length: 100\r\n\r\n{";
    hang(addr, &http("POST /api/v1/emails", body), "HTTP/1.1 100").await;
    hang(
        addr,
        &http("GET /_sandbox/messages/wait?timeout=10m", "\r\n"),
        "",
    )
    .await;
    hang(addr, &http("GET /_sandbox/lease", "\r\n"), "HTTP/1.1 200").await;
    hang(
        addr,
        &http("GET /openapi.json", "\r\n").repeat(200),
        "HTTP/1.1 200",
    )
    .await;
    // SMTP: a silent client, a message in transfer, and one whose sender's domain is looked up.
    let transfer = "EHLO a.test\r\nMAIL FROM:<a@slow.example.net>\r\nRCPT TO:<x@sandbox.test>\r\nDATA\r\nSubject: x\r\n\r\nx";
    hang(smtp, "", "220 ").await;
    hang(smtp, transfer, "220 ").await;
    hang(smtp, &format!("{transfer}\r\n.\r\n"), "220 ").await;
    let query = within("a look-up", name_server.recv(&mut [0; 512])).await;
    query.expect("a query");
    // A webhook with a name that does not resolve.
    let body = r#"{"url":"https://slow3.example.net/","events":["email.delivered"]}"#;
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", body).await.status,
        201
    );
    assert_eq!(sandbox.call("POST /api/v1/emails", EMAIL).await.status, 202);

    let mut asked = String::new();
    while !asked.contains("slow3") {
        let mut query = [0; 512];
        let length = within("the other look-up", name_server.recv(&mut query))
            .await
            .expect("a query");
        asked.push_str(&String::from_utf8_lossy(&query[..length]));
    }

    assert_stops(sandbox).await;
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
        assert!(
            !log.exists(),
            "round {round}: the write-ahead log still exists"
        );
    }
}
