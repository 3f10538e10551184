//! A server that injects a fault and counts the requests that reach it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use svc_sdk::{EmailClient, EmailClientBuilder};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::mock_server::{read_request, response};

/// The fault to inject.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// Does not listen on its port.
    ConnectionRefused,
    /// Closes each connection as soon as it is accepted.
    ClosesAfterConnect,
    /// Reads the first message of the TLS handshake and closes.
    ClosesInHandshake,
    /// Responds to the TLS handshake with plain HTTP.
    NotTls,
    /// Presents a certificate that the client does not trust.
    UntrustedCertificate,
    /// Reads the head, then closes the connection.
    ClosesAfterHead,
    /// Reads the head and a part of the body, then closes the connection.
    ClosesMidBody,
    /// Reads the complete request, writes this (possibly nothing), then closes the
    /// connection.
    Responds(String),
    /// Reads the complete request, writes this, and keeps the connection open.
    Stalls(String),
}

impl Fault {
    pub(super) fn responds(text: impl Into<String>) -> Self {
        Self::Responds(text.into())
    }

    /// Responds with this status and these header lines, without a body, then closes the
    /// connection.
    pub(super) fn status(status: u16, headers: &str) -> Self {
        let head = format!("HTTP/1.1 {status} Whatever\r\nConnection: close\r\n{headers}");
        Self::Responds(format!("{head}Content-Length: 0\r\n\r\n"))
    }

    fn needs_tls(&self) -> bool {
        matches!(
            self,
            Self::ClosesInHandshake | Self::NotTls | Self::UntrustedCertificate
        )
    }
}

pub(super) struct FaultyServer {
    url: String,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    connections: AtomicUsize,
    /// Requests whose head was received.
    heads: AtomicUsize,
    /// Requests that were received completely.
    complete: AtomicUsize,
}

impl FaultyServer {
    /// Injects the fault into the first `connections` connections, then works normally.
    pub(super) async fn start(fault: Fault, connections: usize) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = socket.local_addr().unwrap().port();
        let scheme = if fault.needs_tls() { "https" } else { "http" };
        let counts = Arc::new(Counts::default());
        let server = Self {
            url: format!("{scheme}://127.0.0.1:{port}"),
            counts,
        };
        let counts = Arc::clone(&server.counts);
        if matches!(fault, Fault::ConnectionRefused) {
            // Bind the port so that no other process gets it, but do not listen.
            tokio::spawn(async move {
                let _socket = socket;
                std::future::pending::<()>().await;
            });
        } else {
            tokio::spawn(serve(
                socket.listen(64).unwrap(),
                fault,
                connections,
                counts,
            ));
        }

        server
    }

    pub(super) fn builder(&self) -> EmailClientBuilder {
        EmailClient::builder(&self.url, "k")
            .back_off(Duration::ZERO, Duration::ZERO)
            .no_proxy()
            .ca_bundle(&certificates().0.pem)
            .platform_certificates(false)
    }

    pub(super) fn client(&self) -> EmailClient {
        self.builder().build().unwrap()
    }

    pub(super) fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::SeqCst)
    }

    pub(super) fn heads(&self) -> usize {
        self.counts.heads.load(Ordering::SeqCst)
    }

    pub(super) fn complete_requests(&self) -> usize {
        self.counts.complete.load(Ordering::SeqCst)
    }
}

async fn serve(listener: TcpListener, fault: Fault, connections: usize, counts: Arc<Counts>) {
    let tls = fault.needs_tls();
    let mut open = Vec::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let counts = Arc::clone(&counts);
        if counts.connections.fetch_add(1, Ordering::SeqCst) < connections {
            open.extend(inject_fault(stream, &fault, &counts).await);
        } else if tls {
            let acceptor = certificates().0.acceptor.clone();
            tokio::spawn(async move {
                respond_normally(acceptor.accept(stream).await.unwrap(), counts).await;
            });
        } else {
            tokio::spawn(respond_normally(stream, counts));
        }
    }
}

/// Returns the stream if it must stay open.
async fn inject_fault(mut stream: TcpStream, fault: &Fault, counts: &Counts) -> Option<TcpStream> {
    let mut buffer = Vec::new();
    match fault {
        Fault::ConnectionRefused | Fault::ClosesAfterConnect => {}
        Fault::ClosesInHandshake => {
            stream.read_buf(&mut buffer).await.unwrap();
        }
        Fault::NotTls => {
            stream.read_buf(&mut buffer).await.unwrap();
            stream
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .await
                .unwrap();
        }
        Fault::UntrustedCertificate => {
            // The client closes the connection.
            assert!(certificates().1.acceptor.accept(stream).await.is_err());
        }
        Fault::ClosesAfterHead | Fault::ClosesMidBody => {
            let head = loop {
                if let Some(at) = buffer.windows(4).position(|end| end == b"\r\n\r\n") {
                    break at + 4;
                }
                assert_ne!(stream.read_buf(&mut buffer).await.unwrap(), 0, "no head");
            };
            counts.heads.fetch_add(1, Ordering::SeqCst);
            if let Fault::ClosesMidBody = fault {
                // Read a part of a large body. A small one usually arrives with the head,
                // and its end stays unread.
                let some = head + content_length(&buffer[..head]).min(200_000) / 2;
                while buffer.len() < some {
                    assert_ne!(stream.read_buf(&mut buffer).await.unwrap(), 0, "no body");
                }
            }
        }
        Fault::Responds(text) | Fault::Stalls(text) => {
            read_request(&mut stream, &mut buffer).await.unwrap();
            counts.heads.fetch_add(1, Ordering::SeqCst);
            counts.complete.fetch_add(1, Ordering::SeqCst);
            // The client may have closed the connection already.
            let _ = stream.write_all(text.as_bytes()).await;
            if let Fault::Stalls(_) = fault {
                return Some(stream);
            }
            let _ = stream.shutdown().await;
        }
    }
    None
}

fn content_length(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let mut lines = head.lines();
    lines
        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())
        .unwrap_or_default()
}

async fn respond_normally<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, counts: Arc<Counts>) {
    let mut buffer = Vec::new();
    while read_request(&mut stream, &mut buffer).await.is_some() {
        counts.heads.fetch_add(1, Ordering::SeqCst);
        counts.complete.fetch_add(1, Ordering::SeqCst);
        let response = response(200, r#"{"id":"x","status":200}"#);
        if stream
            .write_all(response.to_string().as_bytes())
            .await
            .is_err()
        {
            return;
        }
    }
}

struct Certificate {
    pem: String,
    acceptor: tokio_rustls::TlsAcceptor,
}

/// A certificate that the clients trust, and one that they do not.
fn certificates() -> &'static (Certificate, Certificate) {
    static BOTH: OnceLock<(Certificate, Certificate)> = OnceLock::new();
    BOTH.get_or_init(|| (Certificate::generate(), Certificate::generate()))
}

impl Certificate {
    fn generate() -> Self {
        let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = certified.signing_key.serialize_der();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key.try_into().unwrap())
            .unwrap();
        Self {
            pem: certified.cert.pem(),
            acceptor: Arc::new(config).into(),
        }
    }
}
