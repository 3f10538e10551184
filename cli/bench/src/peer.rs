//! A minimal email service that accepts every email, over http and https.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The platform's certificate bundle.
const PLATFORM: &str = "/etc/ssl/certs/ca-certificates.crt";

const ACCEPTED: &str = r#"{"id":"eml_1","status":"queued","from":"hello@sandbox.test","to":["ada@example.test"],"subject":"Hi","createdAt":"2026-01-05T09:00:00.000Z","updatedAt":"2026-01-05T09:00:00.000Z"}"#;

/// Prints the http and https ports, then serves until it is killed.
pub fn serve_forever(dir: &Path) -> ExitCode {
    let config = Arc::new(tls(dir));
    let plain = listener();
    let secure = listener();
    let port = |listener: &TcpListener| listener.local_addr().map_or(0, |addr| addr.port());
    println!("{} {}", port(&plain), port(&secure));
    std::thread::spawn(move || {
        for stream in secure.incoming().flatten() {
            let Ok(connection) = ServerConnection::new(Arc::clone(&config)) else {
                continue;
            };
            respond(StreamOwned::new(connection, stream));
        }
    });
    plain.incoming().flatten().for_each(respond);
    ExitCode::SUCCESS
}

fn listener() -> TcpListener {
    TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port")
}

/// Creates a certificate for `localhost`, and writes a bundle of the platform's certificates plus
/// the one of the test CA.
fn tls(dir: &Path) -> ServerConfig {
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().expect("a key")).expect("a CA");
    let key = KeyPair::generate().expect("a key");
    let names = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = names.signed_by(&key, &ca).expect("signed");
    let mut bundle = std::fs::read_to_string(PLATFORM).expect("the platform's certificates");
    bundle.push_str(&ca.pem());
    std::fs::write(dir.join("bundle.pem"), bundle).expect("written");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("a certificate and its key")
}

fn respond(mut stream: impl Read + Write) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !is_complete(&request) {
        match stream.read(&mut buffer) {
            Ok(read @ 1..) => request.extend_from_slice(&buffer[..read]),
            _ => return,
        }
    }

    let head = format!(
        "HTTP/1.1 202 Accepted\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{ACCEPTED}",
        ACCEPTED.len()
    );
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.flush());
}

fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };

    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    let length = length
        .and_then(|length| length.trim().parse().ok())
        .unwrap_or(0);
    body.len() >= length
}
