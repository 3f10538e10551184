//! A peer that fails at every stage of a call: what the client says became of
//! the request is right, and no send reaches the peer twice unless its first
//! try certainly was not processed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use svc_sdk::email::Email;
use svc_sdk::{EmailClient, Error, ErrorKind, Outcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::peer::{answer, read_request};

/// Where the peer fails.
#[derive(Clone, Debug)]
enum Fault {
    /// Closes a connection as soon as it is made.
    AtConnect,
    /// Reads the head and closes.
    AfterHead,
    /// Reads some of the body and closes.
    MidBody,
    /// Reads the whole request and closes.
    AfterBody,
    /// Never answers.
    Silent,
    /// Reads the whole request, writes this, and closes.
    Answers(String),
}

struct FaultyPeer {
    address: String,
    /// Requests that came whole.
    whole: Arc<AtomicUsize>,
}

impl FaultyPeer {
    /// Fails so for the first connections, then works.
    async fn start(fault: Fault, connections: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let whole = Arc::new(AtomicUsize::new(0));
        let peer = Self { address, whole: Arc::clone(&whole) };
        tokio::spawn(async move {
            let mut open = Vec::new();
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                if connection < connections {
                    open.extend(fail(stream, &fault, &whole).await);
                } else {
                    tokio::spawn(work(stream, Arc::clone(&whole)));
                }
            }
        });
        peer
    }

    fn client(&self) -> EmailClient {
        EmailClient::builder(format!("http://{}", self.address), "k")
            .back_off(Duration::ZERO, Duration::ZERO)
            .answer_limit(100_000)
            .no_proxy()
            .build()
            .unwrap()
    }

    fn whole(&self) -> usize {
        self.whole.load(Ordering::SeqCst)
    }
}

/// Gives the stream back where it must stay open.
async fn fail(mut stream: TcpStream, fault: &Fault, whole: &AtomicUsize) -> Option<TcpStream> {
    let mut buffer = Vec::new();
    match fault {
        Fault::AtConnect => {}
        Fault::AfterHead => {
            while !buffer.windows(4).any(|end| end == b"\r\n\r\n") {
                if stream.read_buf(&mut buffer).await.unwrap() == 0 {
                    break;
                }
            }
        }
        Fault::MidBody => {
            while buffer.len() < 100_000 && stream.read_buf(&mut buffer).await.unwrap() > 0 {}
        }
        Fault::AfterBody => {
            read_request(&mut stream, &mut buffer).await.unwrap();
            whole.fetch_add(1, Ordering::SeqCst);
        }
        Fault::Silent => {
            read_request(&mut stream, &mut buffer).await.unwrap();
            whole.fetch_add(1, Ordering::SeqCst);
            return Some(stream);
        }
        Fault::Answers(text) => {
            read_request(&mut stream, &mut buffer).await.unwrap();
            whole.fetch_add(1, Ordering::SeqCst);
            // The client may have hung up before it is all written.
            let _ = stream.write_all(text.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    }
    None
}

async fn work(mut stream: TcpStream, whole: Arc<AtomicUsize>) {
    let mut buffer = Vec::new();
    while read_request(&mut stream, &mut buffer).await.is_some() {
        whole.fetch_add(1, Ordering::SeqCst);
        stream.write_all(answer(200, r#"{"id":"x"}"#).as_bytes()).await.unwrap();
    }
}

/// An email whose body does not fit into the socket's buffers.
fn large() -> Email {
    Email::new("a@b", "c@d", "s").text("x".repeat(16 << 20))
}

fn small() -> Email {
    Email::new("a@b", "c@d", "s")
}

async fn send(fault: Fault, email: &Email) -> (Error, usize) {
    let peer = FaultyPeer::start(fault, 1).await;
    let error = peer.client().emails().send(email).await.unwrap_err();
    (error, peer.whole())
}

#[tokio::test]
async fn a_send_is_not_repeated_once_it_may_have_gone_out() {
    let answers = |text: &str| Fault::Answers(text.to_owned());
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = format!("8000\r\n{}\r\n", "x".repeat(0x8000));
    let too_much = ErrorKind::AnswerTooLarge { limit: 100_000 };
    let no_http = ErrorKind::UnreadableAnswer { problem: "it is not http".to_owned() };
    for (fault, email, kind) in [
        (Fault::AfterHead, large(), ErrorKind::ConnectionLost),
        (Fault::MidBody, large(), ErrorKind::ConnectionLost),
        (Fault::AfterBody, small(), ErrorKind::ConnectionLost),
        // In the middle of the answer's head, at its end, and in its body.
        (answers("HTTP/1.1 20"), small(), ErrorKind::ConnectionLost),
        (answers("HTTP/1.1 202 Accepted\r\nX-A: b"), small(), ErrorKind::ConnectionLost),
        (
            answers("HTTP/1.1 202 Accepted\r\nContent-Length: 20\r\n\r\n"),
            small(),
            ErrorKind::ConnectionLost,
        ),
        (
            answers("HTTP/1.1 202 Accepted\r\nContent-Length: 20\r\n\r\n{\"id\":"),
            small(),
            ErrorKind::ConnectionLost,
        ),
        (answers(&format!("{chunked}5\r\n{{\"id\"\r\n")), small(), ErrorKind::ConnectionLost),
        // What is no HTTP, and what is too much of it.
        (answers("220 smtp.example ESMTP\r\n"), small(), no_http.clone()),
        (answers("\0\0\0\0\0\0\0\0\r\n\r\n"), small(), no_http),
        (answers(&format!("{chunked}zz\r\n")), small(), ErrorKind::ConnectionLost),
        (answers("HTTP/1.1 200 OK\r\nContent-Length: 100001\r\n\r\n"), small(), too_much.clone()),
        (answers(&format!("{chunked}{}", chunk.repeat(4))), small(), too_much),
        (answers("HTTP/1.1 101 Switching Protocols\r\n\r\n"), small(), ErrorKind::ConnectionLost),
    ] {
        let shown = format!("{fault:?}").chars().take(90).collect::<String>();
        let (error, whole) = send(fault, &email).await;
        // A 101 has a status of its own; everything else has its kind.
        if error.status() != Some(101) {
            assert_eq!(error.kind(), &kind, "{shown}");
        }
        assert_eq!((error.outcome(), error.attempts()), (Outcome::Unknown, 1), "{shown}");
        assert!(whole <= 1, "{shown}");
        assert!(!error.is_retryable(), "{shown}");
    }
}

/// Whether the client notices before it writes is a race, and both ends are
/// right: what was not begun is sent again, what was begun is not.
#[tokio::test]
async fn a_connection_that_closes_at_once() {
    for _ in 0..20 {
        let peer = FaultyPeer::start(Fault::AtConnect, 1).await;
        match peer.client().emails().send(&small()).with_response().await {
            Ok(answer) => assert_eq!((answer.attempts, peer.whole()), (2, 1)),
            Err(error) => {
                assert_eq!(error.kind(), &ErrorKind::ConnectionLost);
                assert_eq!((error.outcome(), error.attempts()), (Outcome::Unknown, 1));
                assert_eq!(peer.whole(), 0);
            }
        }
    }
}

#[tokio::test]
async fn a_read_is_repeated_after_every_one_of_them() {
    for fault in [
        Fault::AtConnect,
        Fault::AfterHead,
        Fault::AfterBody,
        Fault::Answers("HTTP/1.1 20".into()),
        Fault::Answers("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{".into()),
        Fault::Answers("HTTP/1.1 502 Bad\r\nContent-Length: 0\r\n\r\n".into()),
        Fault::Answers("HTTP/1.1 503 Bad\r\nRetry-After: 0\r\n\r\n".into()),
    ] {
        let shown = format!("{fault:?}");
        let peer = FaultyPeer::start(fault, 2).await;
        let answer = peer.client().emails().get("x").with_response().await.unwrap();
        assert_eq!(answer.attempts, 3, "{shown}");

        // And no more often than allowed.
        let peer = FaultyPeer::start(Fault::AfterHead, 9).await;
        let error = peer.client().emails().get("x").retries(1).await.unwrap_err();
        assert_eq!(error.attempts(), 2);
        assert!(error.is_retryable());
    }
}

#[tokio::test]
async fn a_send_with_an_honoured_key_is_repeated() {
    let peer = FaultyPeer::start(Fault::AfterBody, 1).await;
    let client = EmailClient::builder(format!("http://{}", peer.address), "k")
        .back_off(Duration::ZERO, Duration::ZERO)
        .service_honours_idempotency_key(true)
        .build()
        .unwrap();
    client.emails().send(&small()).idempotency_key("k").await.unwrap();
    assert_eq!(peer.whole(), 2);

    // The key alone is no promise of the service, and the promise alone no key.
    let peer = FaultyPeer::start(Fault::AfterBody, 1).await;
    peer.client().emails().send(&small()).idempotency_key("k").await.unwrap_err();
    let peer = FaultyPeer::start(Fault::AfterBody, 1).await;
    let client = EmailClient::builder(format!("http://{}", peer.address), "k")
        .service_honours_idempotency_key(true)
        .build()
        .unwrap();
    client.emails().send(&small()).await.unwrap_err();
    assert_eq!(peer.whole(), 1);
}

#[tokio::test]
async fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = EmailClient::builder(format!("http://{address}"), "k")
        .back_off(Duration::ZERO, Duration::ZERO)
        .build()
        .unwrap();
    let error = client.emails().send(&small()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Connect, Outcome::NotSent));
    // Certainly not processed, so even a send was tried again.
    assert_eq!(error.attempts(), 3);
    assert!(error.is_retryable());
    assert!(std::error::Error::source(&error).is_some());
    assert_eq!(
        error.to_string(),
        "email emails.send: no connection to the service; after 3 attempts"
    );
}

#[tokio::test]
async fn a_host_that_has_no_address() {
    let client = EmailClient::builder("http://nobody.invalid", "k").retries(0).no_proxy();
    let error = client.build().unwrap().emails().send(&small()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Connect, Outcome::NotSent));
}

#[tokio::test]
async fn the_deadline_covers_everything() {
    let peer = FaultyPeer::start(Fault::Silent, 9).await;
    let soon = Duration::from_millis(30);
    let error = peer.client().emails().send(&small()).timeout(soon).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Timeout, Outcome::Unknown));
    assert_eq!((error.attempts(), peer.whole()), (1, 1));
    // Not once for each attempt.
    let error = peer.client().emails().get("x").timeout(soon).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (&ErrorKind::Timeout, 1));
    assert!(error.is_retryable());
}

#[tokio::test]
async fn a_late_body_meets_the_same_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream, &mut Vec::new()).await.unwrap();
        stream.write_all(b"HTTP/1.1 202 OK\r\nContent-Length: 9\r\n\r\n{").await.unwrap();
        // Held open until the client hangs up.
        let _ = stream.read_u8().await;
    });
    let client = EmailClient::builder(format!("http://{address}"), "k").build().unwrap();
    let soon = Duration::from_millis(50);
    let error = client.emails().send(&small()).timeout(soon).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Timeout, Outcome::Unknown));
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_certainly_no_send() {
    // Takes connections and says nothing: the TLS handshake waits.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = |soon: u64, connect: u64| {
        EmailClient::builder(format!("https://{address}"), "k")
            .connect_timeout(Duration::from_millis(connect))
            .timeout(Duration::from_millis(soon))
            .retries(0)
            .build()
            .unwrap()
    };
    // By the deadline: nothing of the body was taken.
    let error = client(30, 9_000).emails().send(&small()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Timeout, Outcome::NotSent));
    // By the connection's own time-out.
    let error = client(9_000, 30).emails().send(&small()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Connect, Outcome::NotSent));
}

#[tokio::test]
async fn informational_answers_are_passed_over() {
    let text = format!(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n{}",
        answer(202, r#"{"id":"eml_1"}"#)
    );
    let peer = FaultyPeer::start(Fault::Answers(text), 1).await;
    assert_eq!(peer.client().emails().send(&small()).await.unwrap().id, "eml_1");
}

#[tokio::test]
async fn the_key_never_follows_a_redirect() {
    let elsewhere = crate::peer::Peer::json(200, r#"{"id":"stolen"}"#).await;
    for status in [301, 302, 303, 307, 308] {
        let text = format!(
            "HTTP/1.1 {status} Moved\r\nLocation: {}/x\r\nContent-Length: 0\r\n\r\n",
            elsewhere.url()
        );
        let peer = FaultyPeer::start(Fault::Answers(text), 9).await;
        let error = peer.client().emails().get("x").await.unwrap_err();
        assert_eq!((error.kind(), error.status()), (&ErrorKind::Redirected, Some(status)));
        assert_eq!(error.attempts(), 1);
        peer.client().emails().send(&small()).await.unwrap_err();
    }
    assert_eq!(elsewhere.lines().len(), 0);
}

#[tokio::test]
async fn a_connection_that_dies_while_idle_is_no_second_send() {
    // Answers once on each connection and dies when the next request comes.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let whole = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&whole);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = Vec::new();
            read_request(&mut stream, &mut buffer).await.unwrap();
            stream.write_all(answer(200, r#"{"id":"x"}"#).as_bytes()).await.unwrap();
            if read_request(&mut stream, &mut buffer).await.is_some() {
                seen.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let client = EmailClient::builder(format!("http://{address}"), "k")
        .back_off(Duration::ZERO, Duration::ZERO)
        .build()
        .unwrap();
    client.emails().get("x").await.unwrap();
    let error = client.emails().send(&small()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::ConnectionLost, Outcome::Unknown));
    assert_eq!((error.attempts(), whole.load(Ordering::SeqCst)), (1, 1));
    // A read goes on over a new connection.
    client.emails().get("x").await.unwrap();
    let answer = client.emails().get("x").with_response().await.unwrap();
    assert_eq!(answer.attempts, 2);
}
