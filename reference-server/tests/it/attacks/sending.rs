//! What must be sent once, or unchanged.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::harness::{KEY, Sandbox, private_dir};
use crate::receiver::within;

#[tokio::test]
async fn five_tests_of_a_webhook_with_one_idempotency_key() {
    let sandbox = Sandbox::start().await;
    // The first attempt is in progress until the gate opens.
    let requests = Arc::new(AtomicUsize::new(0));
    let gate = Arc::new(Semaphore::new(0));
    let url = gated_endpoint(Arc::clone(&requests), Arc::clone(&gate)).await;
    let body = format!(r#"{{"url":"{url}","events":["email.sent"]}}"#);
    let webhook = sandbox.call("POST /api/v1/webhooks", &body).await.id();
    let line = format!("POST /api/v1/webhooks/{webhook}/test");
    let headers = format!("authorization: Bearer {KEY}\r\nidempotency-key: once\r\n");
    let first = sandbox.raw(&line, &headers, "");
    let others = async {
        let arrived = async {
            while requests.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
        };
        within("the delivery", arrived).await;
        for _ in 0..4 {
            let refused = sandbox.raw(&line, &headers, "").await;
            assert_eq!(
                (refused.status, refused.between(r#""code":""#).as_str()),
                (409, "conflict")
            );
        }
        gate.add_permits(1);
    };
    let (first, ()) = tokio::join!(first, others);
    assert_eq!(first.status, 200, "{first:?}");

    let again = sandbox.raw(&line, &headers, "").await;
    assert_eq!((again.status, &again.body), (200, &first.body));
    assert_eq!(requests.load(Ordering::SeqCst), 1);

    let stored = sandbox
        .control("GET /_sandbox/deliveries?event=webhook.test", "")
        .await;
    assert!(
        stored
            .body
            .contains(r#""state":"delivered","attemptCount":1"#),
        "{stored:?}"
    );
}

/// A mail server that reads whole messages and breaks off instead of confirming them.
async fn breaking_mail_server(messages: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("smtp://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let messages = Arc::clone(&messages);
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                let mut in_data = false;
                stream.write_all(b"220 ready\r\n").await.ok()?;
                while stream
                    .read_line(&mut line)
                    .await
                    .is_ok_and(|count| count > 0)
                {
                    let reply: &[u8] = match line.trim_end() {
                        "." if in_data => {
                            messages.fetch_add(1, Ordering::SeqCst);
                            return None;
                        }
                        "DATA" => {
                            in_data = true;
                            b"354 go\r\n"
                        }
                        _ if in_data => b"",
                        _ => b"250 ok\r\n",
                    };
                    stream.write_all(reply).await.ok()?;
                    line.clear();
                }
                Some(())
            });
        }
    });
    url
}

#[tokio::test]
async fn a_relay_that_breaks_off_after_the_message() {
    let messages = Arc::new(AtomicUsize::new(0));
    let relay = breaking_mail_server(Arc::clone(&messages)).await;
    let sandbox = Sandbox::with(|builder| {
        builder
            .relay(&relay)
            .expect("valid")
            .relay_to("*")
            .expect("valid")
    })
    .await;
    sandbox.freeze().await;
    let body = r#"{"from":"a@sandbox.test","to":"b@x.example","subject":"s","text":"x"}"#;
    let email = sandbox.call("POST /api/v1/emails", body).await.id();
    within("the first attempt", sandbox.settle()).await;
    sandbox.advance("30s").await;
    let shown = sandbox
        .call(&format!("GET /api/v1/emails/{email}"), "")
        .await;
    assert!(
        shown.body.contains("the relay did not confirm the message"),
        "{shown:?}"
    );
    assert!(shown.body.contains(r#""status":"sent""#), "{shown:?}");
    assert_eq!(messages.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_bare_line_break_that_hides_the_end_of_a_message() {
    let sandbox = Sandbox::start().await;
    let body = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s","text":"one\r.\r\ntwo\u0000","html":"<p>\r.\r</p>"}"#;
    assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);

    let message = sandbox
        .control("GET /_sandbox/messages/wait", "")
        .await
        .id();
    let source = sandbox
        .control(&format!("GET /_sandbox/messages/{message}/raw"), "")
        .await
        .body;
    assert!(
        !source.replace("\r\n", "").contains(['\r', '\0']),
        "{source}"
    );
    assert_eq!(
        source.matches("Content-Transfer-Encoding: base64").count(),
        2,
        "{source}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn files_of_a_running_server_are_removed() {
    for file in ["svc.db", "svc.db-wal", "server.lock"] {
        let directory = private_dir();
        let path = directory.path().join("data");
        let sandbox = Sandbox::with(|builder| builder.data_dir(&path)).await;
        let body = r#"{"name":"x"}"#;
        assert_eq!(
            sandbox.call("POST /api/v1/audiences", body).await.status,
            201
        );
        std::fs::remove_file(path.join(file)).expect("removed");
        let refused = sandbox.call("POST /api/v1/audiences", body).await;
        assert_eq!(
            (refused.status, refused.between(r#""code":""#).as_str()),
            (503, "unavailable"),
            "{file}: {refused:?}"
        );
    }
}

/// An endpoint that closes every connection after one response, without saying so.
#[tokio::test]
async fn an_endpoint_that_closes_kept_alive_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                read_request(&mut stream).await;
                let response = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                let _ = stream.write_all(response).await;
            });
        }
    });
    let sandbox = Sandbox::start().await;
    let body = format!(r#"{{"url":"{url}","events":["email.sent","email.delivered"]}}"#);
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", &body).await.status,
        201
    );

    for _ in 0..10 {
        let body = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
        assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);
        within("the deliveries", sandbox.settle()).await;
    }

    let all = sandbox
        .control("GET /_sandbox/deliveries?limit=100", "")
        .await;
    assert_eq!(
        all.body
            .matches(r#""state":"delivered","attemptCount":1"#)
            .count(),
        20,
        "{all:?}"
    );
}

/// Reads one request, if there is one.
async fn read_request(stream: &mut BufReader<TcpStream>) -> bool {
    let mut line = String::new();
    let mut length = 0;
    while stream
        .read_line(&mut line)
        .await
        .is_ok_and(|count| count > 2)
    {
        let lower = line.to_ascii_lowercase();
        if let Some(text) = lower.strip_prefix("content-length: ") {
            length = text.trim().parse().expect("a length");
        }
        line.clear();
    }
    length > 0 && stream.read_exact(&mut vec![0; length]).await.is_ok()
}

/// The endpoint may have processed what it has read.
#[tokio::test]
async fn an_endpoint_that_reads_a_second_request_and_closes_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    let unanswered = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&unanswered);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                read_request(&mut stream).await;
                let response = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                let _ = stream.write_all(response).await;
                if read_request(&mut stream).await {
                    count.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    let sandbox = Sandbox::start().await;
    sandbox.freeze().await;
    let body = format!(r#"{{"url":"{url}","events":["email.delivered"]}}"#);
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", &body).await.status,
        201
    );

    for _ in 0..2 {
        let body = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
        assert_eq!(sandbox.call("POST /api/v1/emails", body).await.status, 202);
        within("the deliveries", sandbox.settle()).await;
    }

    let all = sandbox.control("GET /_sandbox/deliveries", "").await;
    assert!(
        all.body.contains(r#""state":"pending","attemptCount":1"#),
        "{all:?}"
    );
    assert_eq!(
        unanswered.load(Ordering::SeqCst),
        1,
        "one attempt sends one request"
    );
}

/// An endpoint that counts the requests, and responds, with 4 KiB that take room in the
/// database, once it is told to.
async fn gated_endpoint(requests: Arc<AtomicUsize>, gate: Arc<Semaphore>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let requests = Arc::clone(&requests);
            let gate = Arc::clone(&gate);
            tokio::spawn(async move {
                let mut piece = [0; 16 * 1024];
                while stream.read(&mut piece).await.is_ok_and(|count| count > 0) {
                    requests.fetch_add(1, Ordering::SeqCst);
                    let _open = gate.acquire().await;
                    let body = "x".repeat(4096);
                    let response = format!("HTTP/1.1 200 OK\r\ncontent-length: 4096\r\n\r\n{body}");
                    let _ = stream.write_all(response.as_bytes()).await;
                }
            });
        }
    });
    url
}

#[tokio::test]
async fn a_disk_that_is_full_when_the_outcome_is_stored() {
    let sandbox =
        Sandbox::with(|builder| builder.limits(|limits| limits.max_database_bytes = Some(1 << 20)))
            .await;
    let requests = Arc::new(AtomicUsize::new(0));
    let gate = Arc::new(Semaphore::new(0));
    let url = gated_endpoint(Arc::clone(&requests), Arc::clone(&gate)).await;
    let body = format!(r#"{{"url":"{url}","events":["email.sent"]}}"#);
    assert_eq!(
        sandbox.call("POST /api/v1/webhooks", &body).await.status,
        201
    );

    // As many deliveries as are attempted at the same time.
    let email = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
    let batch = format!("[{}]", [email; 16].join(","));
    assert_eq!(
        sandbox
            .call("POST /api/v1/emails/batch", &batch)
            .await
            .status,
        200
    );

    let arrived = async {
        while requests.load(Ordering::SeqCst) < 16 {
            tokio::task::yield_now().await;
        }
    };
    within("the deliveries", arrived).await;
    let mut size = 100_000;
    let mut stored = 0;
    while size > 100 {
        let body = format!(r#"{{"html":"{}"}}"#, "x".repeat(size));
        match sandbox
            .control(&format!("PUT /_sandbox/templates/{stored}"), &body)
            .await
            .status
        {
            507 => size /= 2,
            status => {
                assert_eq!(status, 200);
                stored += 1;
            }
        }
    }

    // The outcomes cannot be stored, neither of the first delivery while the others are in
    // flight, nor of all. No delivery is sent again meanwhile.
    for permits in [1, 15] {
        gate.add_permits(permits);
        let never = tokio::time::timeout(Duration::from_secs(1), sandbox.settle()).await;
        assert!(never.is_err(), "all outcomes were stored on a full disk");
        assert_eq!(requests.load(Ordering::SeqCst), 16);
    }

    // With room, they are stored.
    assert_eq!(
        sandbox
            .control("DELETE /_sandbox/templates/0", "")
            .await
            .status,
        204
    );

    within("the outcomes", sandbox.settle()).await;
    let all = sandbox.control("GET /_sandbox/deliveries", "").await;
    assert_eq!(
        all.body
            .matches(r#""state":"delivered","attemptCount":1"#)
            .count(),
        16
    );
    assert_eq!(requests.load(Ordering::SeqCst), 16);
}

#[tokio::test]
async fn a_webhook_that_is_deleted_while_its_delivery_waits() {
    let sandbox = Sandbox::start().await;
    let requests = Arc::new(AtomicUsize::new(0));
    let gate = Arc::new(Semaphore::new(0));
    let url = gated_endpoint(Arc::clone(&requests), Arc::clone(&gate)).await;
    let body = format!(r#"{{"url":"{url}","events":["email.delivered"]}}"#);
    let webhook = sandbox.call("POST /api/v1/webhooks", &body).await.id();
    let list = format!("GET /_sandbox/deliveries?webhook={webhook}");
    // More than the server attempts at the same time for one webhook.
    let email = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
    let batch = format!("[{}]", [email; 20].join(","));
    assert_eq!(
        sandbox
            .call("POST /api/v1/emails/batch", &batch)
            .await
            .status,
        200
    );

    let arrived = async {
        while requests.load(Ordering::SeqCst) < 16 {
            tokio::task::yield_now().await;
        }
    };
    within("the attempts", arrived).await;

    let deleted = sandbox
        .call(&format!("DELETE /api/v1/webhooks/{webhook}"), "")
        .await;

    assert_eq!(deleted.status, 204);

    gate.add_permits(1000);
    within("the end", sandbox.settle()).await;
    assert_eq!(
        requests.load(Ordering::SeqCst),
        16,
        "sent to a deleted webhook"
    );

    let dropped = sandbox.control(&list, "").await;
    assert!(
        dropped
            .body
            .contains(r#""state":"dropped","attemptCount":0"#),
        "{dropped:?}"
    );
}
