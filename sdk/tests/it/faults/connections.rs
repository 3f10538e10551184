//! Connections that cannot be established or break at an inconvenient moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use svc_sdk::email::Email;
use svc_sdk::{EmailClient, ErrorKind, Outcome};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::faulty_server::{Fault, FaultyServer};
use crate::mock_server::{read_request, response};

fn email() -> Email {
    Email::new("a@b", "c@d", "s")
}

#[tokio::test]
async fn a_refused_connection_is_a_connect_error() {
    let server = FaultyServer::start(Fault::ConnectionRefused, 9).await;
    let error = server.client().emails().send(email()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (&ErrorKind::Connect, Outcome::NotSent)
    );
    // Certainly not processed, so even a send was retried.
    assert_eq!(error.attempts(), 3);
    assert!(error.is_retryable());
    assert!(std::error::Error::source(&error).is_some());
    assert_eq!(
        error.to_string(),
        "email emails.send: cannot connect to the service; after 3 attempts; \
         check the base URL and the network"
    );
}

/// Ids and query parameters may be private.
#[tokio::test]
async fn errors_contain_no_request_url() {
    for fault in [
        Fault::ConnectionRefused,
        Fault::responds(""),
        Fault::responds("HTTP/1.1 200 OK\r\nX"),
    ] {
        let server = FaultyServer::start(fault, 9).await;
        let client = server.builder().retries(0).build().unwrap();
        for error in [
            client.emails().get("private-id").await.unwrap_err(),
            client
                .raw("GET", "/x")
                .query("q", "private")
                .await
                .unwrap_err(),
        ] {
            assert!(std::error::Error::source(&error).is_some());
            assert!(
                !format!("{error} {error:?}").contains("private"),
                "{error:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_dns_failure_is_a_connect_error() {
    let client = EmailClient::builder("http://unknown.invalid", "k")
        .retries(0)
        .no_proxy();
    let error = client
        .build()
        .unwrap()
        .emails()
        .send(email())
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (&ErrorKind::Connect, Outcome::NotSent)
    );
}

#[tokio::test]
async fn does_not_resend_after_a_reused_connection_breaks() {
    // Responds once per connection, and closes it when the next request arrives.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let second_requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&second_requests);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = Vec::new();
            read_request(&mut stream, &mut buffer).await.unwrap();
            stream
                .write_all(response(200, r#"{"id":"x"}"#).to_string().as_bytes())
                .await
                .unwrap();
            if read_request(&mut stream, &mut buffer).await.is_some() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let client = EmailClient::builder(format!("http://{address}"), "k")
        .back_off(Duration::ZERO, Duration::ZERO)
        .build()
        .unwrap();
    client.emails().get("x").await.unwrap();
    let error = client.emails().send(email()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (&ErrorKind::ConnectionLost, Outcome::Unknown)
    );
    assert_eq!(
        (error.attempts(), second_requests.load(Ordering::SeqCst)),
        (1, 1)
    );

    // A read is retried on a new connection.
    client.emails().get("x").await.unwrap();
    let response = client.emails().get("x").with_response().await.unwrap();
    assert_eq!(response.attempts, 2);
}
