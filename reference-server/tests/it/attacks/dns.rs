//! Names that resolve slowly, and work that takes the threads of others.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::time::Duration;

use hickory_proto::op::Message;
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{RData, Record, RecordType};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::watch;

use crate::harness::{KEY, Sandbox, private_dir};
use crate::receiver::within;

/// A name server that knows `quick.example` and never responds for other names. Also
/// returns how many others were asked for.
async fn slow_name_server() -> (SocketAddr, watch::Receiver<usize>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let address = socket.local_addr().expect("an address");
    let (sender, count) = watch::channel(0);
    tokio::spawn(async move {
        let mut buffer = [0; 2048];
        let mut slow = BTreeSet::new();
        while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
            let query = Message::from_vec(&buffer[..length]).expect("decodes");
            let name = query.queries[0].name().clone();
            if name.to_ascii().trim_end_matches('.') != "quick.example" {
                slow.insert(name);
                sender.send_replace(slow.len());
                continue;
            }
            let mut response = Message::response(query.metadata.id, query.metadata.op_code);
            response.add_queries(query.queries.iter().cloned());
            if query.queries[0].query_type() == RecordType::A {
                response.add_answer(Record::from_rdata(
                    name,
                    0,
                    RData::A(A(Ipv4Addr::LOCALHOST)),
                ));
            }
            socket
                .send_to(&response.to_vec().expect("encodes"), peer)
                .await
                .expect("sent");
        }
    });
    (address, count)
}

#[tokio::test]
async fn a_hundred_endpoints_with_names_that_resolve_slowly() {
    let (resolver, mut slow) = slow_name_server().await;
    let sandbox = Sandbox::with(|builder| builder.resolver(resolver)).await;
    let subscribe = async |key: &str, url: &str| {
        let body = format!(r#"{{"url":"{url}","events":["email.sent"]}}"#);
        let created = sandbox.with_key(key, "POST /api/v1/webhooks", &body).await;
        assert_eq!(created.status, 201, "{created:?}");
    };
    let send = async |key: &str, from: &str| {
        let body = format!(r#"{{"from":"{from}","to":"b@x.test","subject":"s"}}"#);
        let sent = sandbox.with_key(key, "POST /api/v1/emails", &body).await;
        assert_eq!(sent.status, 202, "{sent:?}");
    };

    for number in 0..100 {
        subscribe(KEY, &format!("https://slow-{number}.example/")).await;
    }

    send(KEY, "a@sandbox.test").await;
    within("the look-ups", slow.wait_for(|count| *count == 100))
        .await
        .expect("a name server");

    // All look-ups are under way, and another organization is not affected.
    let other = sandbox
        .control("POST /_sandbox/organizations", r#"{"name":"Other"}"#)
        .await;
    let key = other.between(r#""email_key":""#);
    let body = r#"{"name":"other.test"}"#;
    let domain = sandbox
        .with_key(&key, "POST /api/v1/domains", body)
        .await
        .id();
    let publish = "POST /_sandbox/dns/other.test/publish?organization=Other";
    assert_eq!(sandbox.control(publish, "").await.status, 200);

    let verify = format!("POST /api/v1/domains/{domain}/verify");
    assert_eq!(sandbox.with_key(&key, &verify, "").await.status, 200);

    let endpoint = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = endpoint.local_addr().expect("an address").port();
    subscribe(&key, &format!("https://quick.example:{port}/")).await;
    send(&key, "a@other.test").await;
    let connection = tokio::time::timeout(Duration::from_secs(10), endpoint.accept()).await;
    connection.expect("a connection").expect("accepted");
}

/// Slow work on tokio's blocking threads, of the server or of the application that embeds it.
#[test]
fn blocking_work_on_all_threads_of_the_runtime() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime
        .worker_threads(2)
        .max_blocking_threads(3)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let directory = private_dir();
        let sandbox = Sandbox::with(|builder| builder.data_dir(directory.path())).await;
        let (started, mut running) = tokio::sync::mpsc::unbounded_channel();
        let ends: Vec<mpsc::Sender<()>> = (0..3)
            .map(|_| {
                let (end, wait) = mpsc::channel();
                let started = started.clone();
                tokio::task::spawn_blocking(move || {
                    let _ = (started.send(()), wait.recv());
                });
                end
            })
            .collect();
        for _ in 0..3 {
            running.recv().await.expect("a thread");
        }
        let work = async {
            for line in [
                "GET /api/v1/audiences",
                "GET /api/v1/webhooks",
                "GET /api/v1/domains",
            ] {
                assert_eq!(sandbox.call(line, "").await.status, 200, "{line}");
            }
            sandbox.server.stop().await;
        };
        let done = tokio::time::timeout(Duration::from_secs(60), work).await;
        drop(ends);
        done.expect("reads or a stop wait for other blocking work");
    });
}
