//! Answers that are odd, early, or more than was asked for.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use svc_sdk::email::{Attachment, Email};
use svc_sdk::{EmailClient, ErrorKind, Outcome};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::peer::{Fault, FaultyPeer};
use crate::clock::{Clock, settle, until};
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
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream, &mut Vec::new()).await.unwrap();
        while stream.write_all(b"HTTP/1.1 103 Early Hints\r\n\r\n").await.is_ok() {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
    });
    let clock = Clock::stop();
    let client = EmailClient::builder(url, "k").no_proxy().build().unwrap();
    let call = tokio::spawn(client.emails().send(&email()).into_future());
    until("some came", || written.load(Ordering::SeqCst) > 100).await;
    clock.advance(Duration::from_secs(29)).await;
    assert!(!call.is_finished());
    clock.advance(Duration::from_secs(2)).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Timeout, Outcome::Unknown));
}

/// Chunks without end: what is read is bounded, for a success and a refusal.
#[tokio::test]
async fn a_body_without_end_is_not_read_for_ever() {
    for (status, kind) in [
        ("200 OK", ErrorKind::ResponseTooLarge { limit: 16 * 1024 * 1024 }),
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
                assert_eq!(error.kind(), &ErrorKind::ResponseTooLarge { limit: limit as u64 });
            }
        }
    }
}

/// What is announced as too long is not waited for.
#[tokio::test]
async fn a_length_beyond_the_limit_is_enough() {
    let limit = 16 << 20;
    for length in [limit + 1, 1 << 62] {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        let peer = FaultyPeer::start(Fault::Stalls(head), 1).await;
        let error = peer.client().emails().send(&email()).await.unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::ResponseTooLarge { limit });
        assert_eq!((error.outcome(), error.attempts()), (Outcome::Unknown, 1));
    }
}

/// 20 KiB that would be 20 MiB: nobody asked for them, and nothing unpacks them.
#[tokio::test]
async fn a_packed_answer_is_not_unpacked() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    io::copy(&mut io::Read::take(io::repeat(b' '), 20 << 20), &mut gzip).unwrap();
    let packed = gzip.finish().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let bomb = packed.clone();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = Vec::new();
        while let Some(seen) = read_request(&mut stream, &mut buffer).await {
            assert_eq!(seen.header("accept-encoding"), None);
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
                bomb.len()
            );
            stream.write_all(&[head.as_bytes(), &bomb].concat()).await.unwrap();
        }
    });
    let client = EmailClient::builder(url, "k").no_proxy().build().unwrap();
    assert_eq!(client.raw("GET", "/x").await.unwrap().body, packed);
    let error = client.emails().get("x").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::InvalidResponse { .. }), "{error:?}");
}

/// Whatever a layer makes of an answer, the limit is of what comes out of it.
#[cfg(feature = "tower")]
#[tokio::test]
async fn a_layer_that_unpacks_without_end_is_stopped() {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};

    use http_body::Frame;
    use svc_sdk::{AttemptService, Body};
    use tower::ServiceExt as _;

    struct Endless(Arc<AtomicUsize>);

    impl http_body::Body for Endless {
        type Data = bytes::Bytes;
        type Error = io::Error;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<bytes::Bytes>, io::Error>>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Poll::Ready(Some(Ok(Frame::data(bytes::Bytes::from_static(&[b' '; 1 << 16])))))
        }
    }

    for (status, kind, pieces) in
        [(200, ErrorKind::ResponseTooLarge { limit: 16 << 20 }, 257), (500, ErrorKind::Server, 17)]
    {
        let asked = Arc::new(AtomicUsize::new(0));
        let pieces_asked = Arc::clone(&asked);
        let unpack = tower::layer::layer_fn(move |inner: AttemptService| {
            let asked = Arc::clone(&pieces_asked);
            let unpacked = move |_: Body| Body::wrap(Endless(Arc::clone(&asked)));
            inner.map_response(move |answer: http::Response<Body>| answer.map(unpacked.clone()))
        });
        let peer = FaultyPeer::start(Fault::Answers(answer(status, "packed")), 1).await;
        let client = peer.builder().layer(unpack);
        let error = client.build().unwrap().emails().send(&email()).await.unwrap_err();
        assert_eq!(error.kind(), &kind);
        assert_eq!(asked.load(Ordering::Relaxed), pieces, "of 64 KiB each");
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
