//! Peers that misbehave: slow heads, slow bodies, huge heads, deep JSON,
//! compressed bodies. None of them holds up the others.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{KEY, Sandbox};
use crate::raw::TIMEOUT;

/// What comes back until the connection ends.
async fn until_end(stream: &mut TcpStream) -> String {
    let mut response = Vec::new();
    let read = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut response));
    // A reset is an end, too.
    let _ = read.await.expect("the connection ends");
    String::from_utf8_lossy(&response).into_owned()
}

/// A refusal of what could not be read as a request: the server's own, with its
/// id, and the last thing on the connection.
fn assert_refused(response: &str, status: u16, code: &str) {
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{response:?}"));
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
    for field in [
        "content-type: application/json\r\n",
        "x-request-id: req_",
        "connection: close\r\n",
        &format!("content-length: {}", body.len()),
    ] {
        assert!(head.contains(field), "{field} in {response}");
    }
    assert!(body.starts_with(&format!(r#"{{"error":{{"code":"{code}","message":""#)), "{response}");
}

#[tokio::test]
async fn a_slow_head_ends_its_connection() {
    let short = Duration::from_millis(500);
    let sandbox = Sandbox::with(|builder| builder.header_timeout(short)).await;
    let mut slow = TcpStream::connect(sandbox.addr()).await.expect("connected");
    slow.write_all(b"GET /api/v1/audiences HTTP/1.1\r\nhost: x\r\n").await.expect("written");
    let mut silent = TcpStream::connect(sandbox.addr()).await.expect("connected");
    assert_eq!(sandbox.call("GET /api/v1/audiences", "").await.status, 200);
    assert_refused(&until_end(&mut slow).await, 408, "request_timeout");
    // Who asks nothing is answered nothing: it would be taken for the response to
    // what is asked next.
    assert_eq!(until_end(&mut silent).await, "");
}

#[tokio::test]
async fn what_was_answered_before_stays_as_it_is() {
    let sandbox = Sandbox::start().await;
    let good =
        format!("GET /api/v1/audiences HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n\r\n");
    for apart in [true, false] {
        let mut stream = TcpStream::connect(sandbox.addr()).await.expect("connected");
        if apart {
            stream.write_all(good.as_bytes()).await.expect("written");
            assert_eq!(crate::raw::read_response(&mut stream).await.body, "[]");
            stream.write_all(b"no HTTP\r\n\r\n").await.expect("written");
            assert_refused(&until_end(&mut stream).await, 400, "invalid_request");
        } else {
            stream.write_all(format!("{good}no HTTP\r\n\r\n").as_bytes()).await.expect("written");
            let both = until_end(&mut stream).await;
            let (first, second) = both.split_once("[]").expect("the first response");
            assert!(first.starts_with("HTTP/1.1 200 "), "{both}");
            assert_refused(second, 400, "invalid_request");
        }
    }
}

#[tokio::test]
async fn a_refusal_has_the_shape_that_was_chosen() {
    let sandbox =
        Sandbox::with(|builder| builder.compatibility("error-format=text").expect("a switch"))
            .await;
    let mut stream = TcpStream::connect(sandbox.addr()).await.expect("connected");
    stream.write_all(b"GET /\0 HTTP/1.1\r\n\r\n").await.expect("written");
    let response = until_end(&mut stream).await;
    assert!(response.contains("content-type: text/plain; charset=utf-8\r\n"), "{response}");
    assert!(response.ends_with("\r\n\r\nwhat came is no HTTP/1.1 request"), "{response}");
}

#[tokio::test]
async fn a_huge_head_is_refused() {
    let sandbox = Sandbox::start().await;
    let long = "x".repeat(200_000);
    for (query, headers) in [
        ("", format!("x-large: {long}\r\n")),
        ("", (0..500).map(|number| format!("x-{number}: 1\r\n")).collect::<String>()),
        (long.as_str(), String::new()),
    ] {
        let mut stream = TcpStream::connect(sandbox.addr()).await.expect("connected");
        let request = format!("GET /api/v1/audiences?{query} HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
        // It may be refused before all of it was taken.
        let _ = stream.write_all(request.as_bytes()).await;
        assert_refused(&until_end(&mut stream).await, 431, "headers_too_large");
    }
    assert_eq!(sandbox.call("GET /api/v1/audiences", "").await.status, 200);
}

#[tokio::test]
async fn what_is_no_http_ends_its_connection() {
    let sandbox = Sandbox::start().await;
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01"[..],
        b"EHLO me\r\n\r\n",
        // HTTP/2 without being asked.
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nno header\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(sandbox.addr()).await.expect("connected");
        stream.write_all(bytes).await.expect("written");
        assert_refused(&until_end(&mut stream).await, 400, "invalid_request");
    }
    assert_eq!(sandbox.call("GET /api/v1/audiences", "").await.status, 200);
}

/// A chunked body is counted as it comes.
#[tokio::test]
async fn a_body_without_a_length_is_limited_too() {
    let sandbox = Sandbox::start().await;
    let mut stream = TcpStream::connect(sandbox.addr()).await.expect("connected");
    let head = format!(
        "POST /api/v1/audiences HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("written");
    let (mut reading, mut writing) = stream.into_split();
    let writer = tokio::spawn(async move {
        let chunk = format!("100000\r\n{}\r\n", "x".repeat(1 << 20));
        // Until the server has had enough.
        for _ in 0..80 {
            if writing.write_all(chunk.as_bytes()).await.is_err() {
                break;
            }
        }
    });
    let mut start = [0; 12];
    reading.read_exact(&mut start).await.expect("an response");
    assert_eq!(&start, b"HTTP/1.1 413");
    drop(reading);
    writer.await.expect("ended");
}

#[tokio::test]
async fn counters_are_there_for_prometheus() {
    let sandbox = Sandbox::start().await;
    sandbox.call("GET /api/v1/audiences", "").await;
    sandbox.call("GET /api/v1/audiences/x", "").await;
    let body = r#"{"from":"a@sandbox.test","to":"b@x.test","subject":"s"}"#;
    sandbox.call("POST /api/v1/emails/batch", &format!("[{body},{body}]")).await;
    sandbox.settle().await;
    let metrics = sandbox.control("GET /metrics", "").await;
    assert_eq!(metrics.status, 200);
    for line in [
        r#"svc_requests_total{service="email",operation="audiences.list",status="2xx"} 1"#,
        r#"svc_requests_total{service="email",operation="audiences.get",status="4xx"} 1"#,
        "svc_emails_accepted_total 2",
        "svc_due 0",
    ] {
        assert!(metrics.body.lines().any(|known| known == line), "{line} in {}", metrics.body);
    }
    let ready = sandbox.control("GET /readyz", "").await;
    assert_eq!((ready.status, ready.body.as_str()), (200, r#"{"status":"ready"}"#));
}
