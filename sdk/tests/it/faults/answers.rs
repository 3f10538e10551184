//! Answers that are odd, early, or more than was asked for.

use std::io;
use std::time::Duration;

use svc_sdk::email::{Attachment, Email};
use svc_sdk::{EmailClient, ErrorKind, Outcome};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::clock::settle;
use super::peer::{Fault, FaultyPeer};
use crate::peer::{answer, read_request, with_headers};

fn email() -> Email {
    Email::new("a@b", "c@d", "s")
}

#[tokio::test]
async fn informational_answers_are_passed_over() {
    let text = format!(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n\
         HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n{}",
        answer(202, r#"{"id":"eml_1"}"#)
    );
    let peer = FaultyPeer::start(Fault::Answers(text), 1).await;
    assert_eq!(peer.client().emails().send(&email()).await.unwrap().id, "eml_1");
    assert_eq!(peer.whole(), 1);
}

#[tokio::test]
async fn informational_answers_without_end_meet_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream, &mut Vec::new()).await.unwrap();
        while stream.write_all(b"HTTP/1.1 103 Early Hints\r\n\r\n").await.is_ok() {}
    });
    let client = EmailClient::builder(url, "k").no_proxy().build().unwrap();
    let call = client.emails().send(&email()).timeout(Duration::from_millis(300));
    assert_eq!(call.await.unwrap_err().kind(), &ErrorKind::Timeout);
}

/// Chunks without end: what is read is bounded, for a success and a refusal.
#[tokio::test]
async fn a_body_without_end_is_not_read_for_ever() {
    for (status, kind) in [
        ("200 OK", ErrorKind::AnswerTooLarge { limit: 16 * 1024 * 1024 }),
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
        let error = client.emails().send(&email()).await.unwrap_err();
        assert_eq!(error.kind(), &kind);
        // What a refusal said first is kept.
        let kept = if status.starts_with('2') { 0 } else { 64 * 1024 };
        assert_eq!(error.body().len(), kept);
        // The connection is given up; what the sockets' buffers took is little.
        assert!(written.await.unwrap() < 40 << 20);
    }
}

#[tokio::test]
async fn sixteen_mebibytes_are_read_and_one_byte_more_is_not() {
    let limit = 16 << 20;
    for (length, fits) in [(limit, true), (limit + 1, false)] {
        let body = format!("\"{}\"", "x".repeat(length - 2));
        let chunked = format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"
        );
        for text in [answer(200, &body), chunked] {
            let peer = FaultyPeer::start(Fault::Answers(text), 1).await;
            let answer = peer.client().raw("GET", "/x").await;
            assert_eq!(answer.as_ref().is_ok_and(|answer| answer.body.len() == length), fits);
            if let Err(error) = answer {
                assert_eq!(error.kind(), &ErrorKind::AnswerTooLarge { limit: limit as u64 });
            }
        }
    }
}

/// A second answer that nobody asked for is not the next call's.
#[tokio::test]
async fn an_answer_too_many_is_nobody_s() {
    let twice =
        format!("{}{}", answer(200, r#"{"id":"first"}"#), answer(200, r#"{"id":"smuggled"}"#));
    let peer = FaultyPeer::start(Fault::Stalls(twice), 1).await;
    let client = peer.client();
    assert_eq!(client.emails().get("x").await.unwrap().id, "first");
    settle().await;
    assert_eq!(client.emails().get("x").await.unwrap().id, "x");
    assert_eq!(peer.connections(), 2);
}

/// A peer that closes a connection while it is idle costs nothing.
#[tokio::test]
async fn a_connection_that_was_closed_while_idle_is_not_used_again() {
    let peer = FaultyPeer::start(Fault::Answers(answer(200, r#"{"id":"x"}"#)), 5).await;
    let client = peer.client();
    for connections in 1..=5 {
        let sent = client.emails().send(&email()).with_response().await.unwrap();
        assert_eq!(
            (sent.attempts, peer.whole(), peer.connections()),
            (1, connections, connections)
        );
        settle().await;
    }
}

/// A refusal that comes before the body was taken is heard.
#[tokio::test]
async fn an_answer_before_the_request_is_over() {
    let length = 32 << 20;
    let zeros = move || Ok(io::Read::take(io::repeat(0), length));
    let large = email().attachment(Attachment::from_opener("z", length, zeros));
    for (status, kind) in
        [(413, ErrorKind::TooLarge), (401, ErrorKind::Unauthorized), (503, ErrorKind::Server)]
    {
        let text = with_headers(status, "Connection: close\r\n", r#"{"code":"early"}"#);
        let peer = FaultyPeer::start(Fault::Early(text), 9).await;
        let error = peer.client().emails().send(&large).await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (&kind, Some("early")));
        assert_eq!((error.attempts(), peer.heads(), peer.whole()), (1, 1, 0), "{error:?}");
        assert_ne!(error.outcome(), Outcome::NotSent);
    }
}
