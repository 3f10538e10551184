//! A program with rustls, its default provider, and crates that take that one, beside all of ours.

use hyper_rustls::HttpsConnectorBuilder;
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, RootCertStore};
use svc_reference_server::Server;
use svc_sdk::EmailClient;
use svc_sdk::email::Email;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() {
    let server = Server::start().await.expect("a sandbox");
    let client = EmailClient::builder(server.base_url(), "mk_test_sandbox")
        .build()
        .expect("a client");
    let email = Email::new("hello@sandbox.test", "ada@example.test", "Hi").text("Hello");
    client.emails().send(&email).await.expect("sent");
    EmailClient::builder("https://mail.test", "mk_test_x")
        .build()
        .expect("a client with TLS");

    assert!(CryptoProvider::get_default().is_none(), "one of our crates installed a provider");

    // The README says so: with `rustls-ring`, there are two, and the program names one.
    #[cfg(feature = "rustls-ring")]
    rustls::crypto::ring::default_provider().install_default().expect("the first");

    ClientConfig::builder()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    HttpsConnectorBuilder::new()
        .with_native_roots()
        .expect("roots")
        .https_or_http()
        .enable_http1()
        .build();

    // Fails, because nobody speaks TLS there. It must not panic before it finds out.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            drop(connection);
        }
    });
    let websocket = tokio_tungstenite::connect_async(format!("wss://{address}/")).await;
    websocket.expect_err("no TLS there");
}
