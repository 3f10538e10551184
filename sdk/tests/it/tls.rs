//! TLS against a real server with its own certificate authority.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use svc_sdk::{EmailClient, EmailClientBuilder, ErrorKind, Outcome};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::mock_server::response;

/// Starts a server. Returns its URL and the PEM of its certificate authority.
pub(crate) async fn start() -> (String, String) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority
        .distinguished_name
        .push(DnType::CommonName, "an authority of these tests");
    let signing = KeyPair::generate().unwrap();
    let pem = authority.self_signed(&signing).unwrap().pem();
    let issuer = Issuer::new(authority, signing);
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not trust the certificate closes the connection.
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut buffer = [0; 4096];
            let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut buffer).await;
            stream
                .write_all(response(200, r#"{"id":"x"}"#).to_string().as_bytes())
                .await
                .unwrap();
            let _ = stream.shutdown().await;
        }
    });
    (format!("https://localhost:{port}"), pem)
}

/// The platform's library does not tell why a connection failed.
fn is_tls(kind: &ErrorKind) -> bool {
    kind == &ErrorKind::Tls || (cfg!(feature = "native-tls") && kind == &ErrorKind::Connect)
}

/// A builder for each TLS library in this build.
fn builders(url: &str) -> Vec<EmailClientBuilder> {
    let builder = EmailClient::builder(url, "k").no_proxy();
    let builder = builder.back_off(Duration::ZERO, Duration::ZERO);
    vec![
        #[cfg(feature = "native-tls")]
        builder.clone().native_tls(true),
        builder,
    ]
}

#[tokio::test]
async fn an_untrusted_certificate_means_not_sent() {
    let (url, pem) = start().await;
    let email = svc_sdk::email::Email::new("a@b", "c@d", "s");
    for builder in builders(&url) {
        let error = builder
            .build()
            .unwrap()
            .emails()
            .send(&email)
            .await
            .unwrap_err();
        assert!(is_tls(error.kind()), "{error:?}");
        assert_eq!(error.outcome(), Outcome::NotSent);
        assert!(error.is_connect());
        assert_eq!(error.attempts(), 3);
    }

    // Nor is a certificate for another name trusted.
    let other = url.replace("localhost", "127.0.0.1");
    for builder in builders(&other) {
        let client = builder.ca_bundle(&pem).build().unwrap();
        let error = client.emails().send(&email).await.unwrap_err();
        assert!(is_tls(error.kind()), "{error:?}");
        assert_eq!(error.outcome(), Outcome::NotSent);
    }
}

#[tokio::test]
async fn ca_bundle_adds_trusted_certificates() {
    let (url, pem) = start().await;
    let email = svc_sdk::email::Email::new("a@b", "c@d", "s");
    for builder in builders(&url) {
        let trusting = builder.clone().ca_bundle(&pem);
        for client in [trusting.clone(), trusting.platform_certificates(false)] {
            let client = client.build().unwrap();
            assert_eq!(client.emails().get("x").await.unwrap().id, "x");
            assert_eq!(client.emails().send(&email).await.unwrap().id, "x");
        }
        let none = builder
            .clone()
            .platform_certificates(false)
            .build()
            .unwrap();
        assert!(is_tls(none.emails().get("x").await.unwrap_err().kind()));
        for bad in [
            "",
            "no pem",
            "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----",
        ] {
            let error = builder.clone().ca_bundle(bad).build().unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Config { .. }), "{bad}");
        }
    }
}
