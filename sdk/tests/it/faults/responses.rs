//! Responses that are unusual, early, too long or unsolicited.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use svc_sdk::email::Email;
use svc_sdk::{EmailClient, ErrorKind, Outcome};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::faulty_server::{Fault, FaultyServer};
use crate::clock::{Clock, settle, wait_until};
use crate::mock_server::{read_request, response};

fn email() -> Email {
    Email::new("a@b", "c@d", "s")
}

#[tokio::test]
async fn skips_informational_responses() {
    let text = format!(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n\
         HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n{}",
        response(202, r#"{"id":"eml_1"}"#)
    );
    let server = FaultyServer::start(Fault::Responds(text), 1).await;
    assert_eq!(
        server.client().emails().send(email()).await.unwrap().id,
        "eml_1"
    );
    assert_eq!(server.complete_requests(), 1);
}

#[tokio::test]
async fn endless_informational_responses_time_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream, &mut Vec::new()).await.unwrap();
        while stream
            .write_all(b"HTTP/1.1 103 Early Hints\r\n\r\n")
            .await
            .is_ok()
        {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
    });
    let clock = Clock::pause();
    let client = EmailClient::builder(url, "k").no_proxy().build().unwrap();
    let call = tokio::spawn(client.emails().send(email()).into_future());
    wait_until("some responses sent", || {
        written.load(Ordering::SeqCst) > 100
    })
    .await;
    clock.advance(Duration::from_secs(29)).await;
    assert!(!call.is_finished());

    clock.advance(Duration::from_secs(2)).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (&ErrorKind::Timeout, Outcome::Unknown)
    );
}

/// The client reads a bounded part of an endless body, for success and error responses.
#[tokio::test]
async fn stops_reading_an_endless_body() {
    for (status, kind) in [
        ("200 OK", ErrorKind::response_too_large(16 * 1024 * 1024)),
        ("422 No", ErrorKind::Invalid),
        ("500 Ah", ErrorKind::Server),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let written = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_request(&mut stream, &mut Vec::new()).await.unwrap();
            let head = format!("HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
            let mut written = 0;
            while stream.write_all(chunk.as_bytes()).await.is_ok() {
                written += 0x10000;
            }
            written
        });
        let client = EmailClient::builder(url, "k").no_proxy().build().unwrap();
        let error = client.emails().send(email()).await.unwrap_err();
        assert_eq!(error.kind(), &kind);
        // The first part of an error body is kept.
        let kept = if status.starts_with('2') {
            0
        } else {
            64 * 1024
        };
        assert_eq!(error.body().len(), kept);
        // The client closes the connection, after little more than the sockets can buffer.
        assert!(written.await.unwrap() < 40 << 20);
    }
}

#[tokio::test]
async fn the_default_size_limit_is_16_mib() {
    let limit = 16 << 20;
    for (length, fits) in [(limit, true), (limit + 1, false)] {
        let body = format!("\"{}\"", "x".repeat(length - 2));
        let chunked = format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"
        );
        for text in [response(200, &body).to_string(), chunked] {
            let server = FaultyServer::start(Fault::Responds(text), 1).await;
            let response = server.client().raw("GET", "/x").await;
            assert_eq!(
                response
                    .as_ref()
                    .is_ok_and(|response| response.body.len() == length),
                fits
            );
            if let Err(error) = response {
                assert_eq!(error.kind(), &ErrorKind::response_too_large(limit as u64));
            }
        }
    }
}

/// A body with an excessive `Content-Length` is not read.
#[tokio::test]
async fn rejects_an_excessive_content_length_without_reading() {
    let limit = 16 << 20;
    for length in [limit + 1, 1 << 62] {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        let server = FaultyServer::start(Fault::Stalls(head), 1).await;
        let error = server.client().emails().send(email()).await.unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::response_too_large(limit));
        assert_eq!((error.outcome(), error.attempts()), (Outcome::Unknown, 1));
    }
}

/// A response of 20 KiB that would decompress to 20 MiB is not decompressed, as the client
/// did not ask for compression.
#[tokio::test]
async fn does_not_decompress_responses() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    io::copy(&mut io::Read::take(io::repeat(b' '), 20 << 20), &mut gzip).unwrap();
    let compressed = gzip.finish().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let bomb = compressed.clone();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = Vec::new();
        while let Some(request) = read_request(&mut stream, &mut buffer).await {
            assert_eq!(request.header("accept-encoding"), None);
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
                bomb.len()
            );
            stream
                .write_all(&[head.as_bytes(), &bomb].concat())
                .await
                .unwrap();
        }
    });
    let client = EmailClient::builder(url, "k").no_proxy().build().unwrap();
    assert_eq!(client.raw("GET", "/x").await.unwrap().body, compressed);

    let error = client.emails().get("x").await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::InvalidResponse { .. }),
        "{error:?}"
    );
}

/// An unsolicited second response is not used for the next call.
#[tokio::test]
async fn discards_an_unsolicited_second_response() {
    let twice = format!(
        "{}{}",
        response(200, r#"{"id":"first"}"#),
        response(200, r#"{"id":"smuggled"}"#)
    );
    let server = FaultyServer::start(Fault::Stalls(twice), 1).await;
    let client = server.client();
    assert_eq!(client.emails().get("x").await.unwrap().id, "first");

    settle().await;
    assert_eq!(client.emails().get("x").await.unwrap().id, "x");
    assert_eq!(server.connections(), 2);
}

/// If the server closes an idle connection, no request fails.
#[tokio::test]
async fn does_not_reuse_a_connection_closed_while_idle() {
    let server = FaultyServer::start(
        Fault::Responds(response(200, r#"{"id":"x"}"#).to_string()),
        5,
    )
    .await;
    let client = server.client();
    for connections in 1..=5 {
        let sent = client.emails().send(email()).with_response().await.unwrap();
        assert_eq!(
            (
                sent.attempts,
                server.complete_requests(),
                server.connections()
            ),
            (1, connections, connections)
        );
        settle().await;
    }
}
