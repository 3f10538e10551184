//! A program that gives the SDK its own HTTP client. Without any TLS, the call says so.

use svc_sdk::{EmailClient, ErrorKind};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let _ = connection.write_all(b"not TLS").await;
        }
    });

    let builder = EmailClient::builder(format!("https://{address}"), "mk_test_x").retries(1);
    #[cfg(feature = "own")]
    let builder = builder.http_client(reqwest::Client::new());
    let client = builder.build().expect("https is accepted");

    let error = client.emails().get("eml_1").await.expect_err("no TLS there");
    let has_tls = cfg!(any(
        feature = "own",
        feature = "rustls",
        feature = "rustls-ring",
        feature = "native-tls"
    ));
    if has_tls {
        assert!(error.is_connect(), "{error}");
        assert_eq!(error.attempts(), 2);
    } else {
        assert!(matches!(error.kind(), ErrorKind::Config { .. }), "{error}");
        assert!(error.to_string().contains("without TLS"), "{error}");
        assert_eq!(error.attempts(), 1);
    }
}
