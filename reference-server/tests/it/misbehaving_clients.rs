//! Clients that misbehave: slow or huge headers, malformed requests, endless bodies. They
//! get an error and do not affect other clients.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{KEY, Sandbox};
use crate::raw::TIMEOUT;

/// Reads everything until the connection is closed.
async fn read_until_closed(stream: &mut TcpStream) -> String {
    let mut response = Vec::new();
    let read = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut response));
    // The server may close the connection with a reset.
    let _ = read.await.expect("the connection was not closed");
    String::from_utf8_lossy(&response).into_owned()
}

#[tokio::test]
async fn slow_headers_end_the_connection() {
    let short = Duration::from_millis(500);
    let sandbox =
        Sandbox::with(|builder| builder.limits(|limits| limits.header_timeout = short)).await;
    let mut slow = TcpStream::connect(sandbox.addr()).await.expect("connect");
    slow.write_all(b"GET /api/v1/audiences HTTP/1.1\r\nhost: localhost\r\n")
        .await
        .expect("write");
    let mut silent = TcpStream::connect(sandbox.addr()).await.expect("connect");
    assert_eq!(sandbox.call("GET /api/v1/audiences", "").await.status, 200);

    // An idle client could take a response for that to its next request.
    for stream in [&mut slow, &mut silent] {
        assert_eq!(read_until_closed(stream).await, "");
    }
}

#[tokio::test]
async fn a_malformed_request_does_not_affect_earlier_responses() {
    let sandbox = Sandbox::start().await;
    let good = format!(
        "GET /api/v1/audiences HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\n\r\n"
    );
    let mut stream = TcpStream::connect(sandbox.addr()).await.expect("connect");
    stream
        .write_all(format!("{good}no HTTP\r\n\r\n").as_bytes())
        .await
        .expect("write");
    let both = read_until_closed(&mut stream).await;
    let (first, second) = both.split_once("[]").expect("the first response");
    assert!(first.starts_with("HTTP/1.1 200 "), "{both}");
    assert!(second.starts_with("HTTP/1.1 400 "), "{both}");
}

#[tokio::test]
async fn huge_headers_are_not_read() {
    let sandbox = Sandbox::start().await;
    let long = "x".repeat(200_000);
    for (query, headers) in [
        ("", format!("x-large: {long}\r\n")),
        (
            "",
            (0..500)
                .map(|number| format!("x-{number}: 1\r\n"))
                .collect::<String>(),
        ),
        (long.as_str(), String::new()),
    ] {
        let mut stream = TcpStream::connect(sandbox.addr()).await.expect("connect");
        let request =
            format!("GET /api/v1/audiences?{query} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        // The server rejects it before it has read all of it, and the end of the connection may
        // take the response with it.
        let _ = stream.write_all(request.as_bytes()).await;
        let response = read_until_closed(&mut stream).await;
        assert!(
            response.is_empty() || response.starts_with("HTTP/1.1 4"),
            "{response}"
        );
    }

    assert_eq!(sandbox.call("GET /api/v1/audiences", "").await.status, 200);
}

#[tokio::test]
async fn malformed_requests_get_400() {
    let sandbox = Sandbox::start().await;
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01"[..],
        b"EHLO me\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nno header\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\nconnection: close\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n",
        // No proxy and no server may disagree about what the body is.
        b"POST /api/v1/audiences HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(sandbox.addr()).await.expect("connect");
        stream.write_all(bytes).await.expect("write");
        stream.shutdown().await.expect("the end");
        let response = read_until_closed(&mut stream).await;
        let request = String::from_utf8_lossy(bytes);
        assert!(response.starts_with("HTTP/1.1 400 "), "{request}: {response}");
    }
    assert_eq!(sandbox.call("GET /api/v1/audiences", "").await.status, 200);
}

/// The server counts the bytes of a chunked body.
#[tokio::test]
async fn limits_a_body_without_a_length() {
    let sandbox = Sandbox::start().await;
    let mut stream = TcpStream::connect(sandbox.addr()).await.expect("connect");
    let head = format!(
        "POST /api/v1/audiences HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("write");
    let (mut reading, mut writing) = stream.into_split();
    let writer = tokio::spawn(async move {
        let chunk = format!("100000\r\n{}\r\n", "[".repeat(1 << 20));
        // Until the server closes the connection.
        for _ in 0..80 {
            if writing.write_all(chunk.as_bytes()).await.is_err() {
                break;
            }
        }
    });
    let mut start = [0; 12];
    reading.read_exact(&mut start).await.expect("a response");
    assert_eq!(&start, b"HTTP/1.1 413");

    drop(reading);
    writer.await.expect("ended");
}
