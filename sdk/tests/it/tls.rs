//! TLS against a real peer with a certificate of its own.

use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use svc_sdk::{EmailClient, ErrorKind, Outcome};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::peer::answer;

/// A peer's address, and the PEM text of its certificate.
async fn start() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let pem = made.cert.pem();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not trust us hangs up.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut buffer = [0; 4096];
            let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut buffer).await;
            stream.write_all(answer(200, r#"{"id":"x"}"#).as_bytes()).await.unwrap();
            let _ = stream.shutdown().await;
        }
    });
    (format!("https://localhost:{port}"), pem)
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_certainly_no_send() {
    let (url, _) = start().await;
    let client = EmailClient::builder(url, "k").back_off(Duration::ZERO, Duration::ZERO);
    let email = svc_sdk::email::Email::new("a@b", "c@d", "s");
    let error = client.build().unwrap().emails().send(&email).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Tls, Outcome::NotSent));
    assert!(error.is_connect());
}

#[tokio::test]
async fn a_bundle_makes_it_trusted() {
    let (url, pem) = start().await;
    for client in [
        EmailClient::builder(&url, "k").ca_bundle(&pem),
        EmailClient::builder(&url, "k").ca_bundle(&pem).platform_certificates(false),
    ] {
        assert_eq!(client.build().unwrap().emails().get("x").await.unwrap().id, "x");
    }
    let none = EmailClient::builder(&url, "k").platform_certificates(false).retries(0);
    let error = none.build().unwrap().emails().get("x").await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Tls);
}
