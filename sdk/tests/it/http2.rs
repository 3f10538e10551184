//! HTTP/2: a stream that the server refuses was certainly not processed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use svc_sdk::email::Email;
use svc_sdk::{EmailClient, ErrorKind, Outcome};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Refuses the first streams with this reason, then answers.
async fn start(reason: h2::Reason, refusals: usize) -> (EmailClient, Arc<AtomicUsize>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let streams = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&streams);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let stream = acceptor.accept(stream).await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    if count.fetch_add(1, Ordering::SeqCst) < refusals {
                        respond.send_reset(reason);
                        continue;
                    }
                    let head = http::Response::builder().status(202).body(()).unwrap();
                    let mut body = respond.send_response(head, false).unwrap();
                    body.send_data(bytes::Bytes::from_static(b"{\"id\":\"x\"}"), true).unwrap();
                }
            });
        }
    });
    let client = EmailClient::builder(format!("https://localhost:{port}"), "k")
        .ca_bundle(made.cert.pem())
        .platform_certificates(false)
        .back_off(Duration::ZERO, Duration::ZERO)
        .no_proxy()
        .build()
        .unwrap();
    (client, streams)
}

fn email() -> Email {
    Email::new("a@b", "c@d", "s")
}

#[tokio::test]
async fn a_refused_stream_is_sent_again() {
    let (client, streams) = start(h2::Reason::REFUSED_STREAM, 2).await;
    let answer = client.emails().send(&email()).with_response().await.unwrap();
    assert_eq!((answer.status, answer.attempts, answer.value.id.as_str()), (202, 3, "x"));
    assert_eq!(streams.load(Ordering::SeqCst), 3);

    let (client, _) = start(h2::Reason::REFUSED_STREAM, 9).await;
    let error = client.emails().send(&email()).await.unwrap_err();
    assert_eq!((error.outcome(), error.attempts()), (Outcome::NotSent, 3));
}

#[tokio::test]
async fn a_stream_that_breaks_for_another_reason_is_not() {
    let (client, streams) = start(h2::Reason::INTERNAL_ERROR, 1).await;
    let error = client.emails().send(&email()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::ConnectionLost, Outcome::Unknown));
    assert_eq!((error.attempts(), streams.load(Ordering::SeqCst)), (1, 1));
}
