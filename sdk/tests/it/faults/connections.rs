//! Connections that cannot be made, or die at an awkward moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use svc_sdk::email::Email;
use svc_sdk::{EmailClient, ErrorKind, Outcome};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::peer::{Fault, FaultyPeer};
use crate::peer::{answer, read_request};

fn email() -> Email {
    Email::new("a@b", "c@d", "s")
}

#[tokio::test]
async fn nobody_listens() {
    let peer = FaultyPeer::start(Fault::Refuses, 9).await;
    let error = peer.client().emails().send(&email()).await.unwrap_err();
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

/// What an id or a query holds is nobody's but the caller's.
#[tokio::test]
async fn an_error_shows_no_address_of_the_call() {
    for fault in [Fault::Refuses, Fault::answers(""), Fault::answers("HTTP/1.1 200 OK\r\nX")] {
        let peer = FaultyPeer::start(fault, 9).await;
        let client = peer.builder().retries(0).build().unwrap();
        for error in [
            client.emails().get("private-id").await.unwrap_err(),
            client.raw("GET", "/x").query("q", "private").await.unwrap_err(),
        ] {
            assert!(std::error::Error::source(&error).is_some());
            assert!(!format!("{error} {error:?}").contains("private"), "{error:?}");
        }
    }
}

#[tokio::test]
async fn a_host_that_has_no_address() {
    let client = EmailClient::builder("http://nobody.invalid", "k").retries(0).no_proxy();
    let error = client.build().unwrap().emails().send(&email()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Connect, Outcome::NotSent));
}

#[tokio::test]
async fn a_connection_that_dies_when_it_is_used_again_is_no_second_send() {
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
    let error = client.emails().send(&email()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::ConnectionLost, Outcome::Unknown));
    assert_eq!((error.attempts(), whole.load(Ordering::SeqCst)), (1, 1));
    // A read goes on over a new connection.
    client.emails().get("x").await.unwrap();
    let answer = client.emails().get("x").with_response().await.unwrap();
    assert_eq!(answer.attempts, 2);
}
