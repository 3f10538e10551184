//! A peer that fails where it is told to, and counts what reached it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use svc_sdk::{EmailClient, EmailClientBuilder};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::peer::{answer, read_request};

/// Where the peer fails.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// Nobody listens.
    Refuses,
    /// Closes a connection as soon as it is made.
    AtConnect,
    /// Reads the first message of the TLS handshake and closes.
    InHandshake,
    /// Answers the TLS handshake with something else.
    NoTls,
    /// Shows a certificate that nobody trusts.
    NotTrusted,
    /// Reads the head and closes.
    AfterHead,
    /// Reads the head and some of the body and closes.
    MidBody,
    /// Reads the head alone, writes this, and takes what else comes.
    Early(String),
    /// Reads the whole request, writes this, which may be nothing, and closes.
    Answers(String),
    /// Reads the whole request, writes this, and leaves the connection open.
    Stalls(String),
}

impl Fault {
    pub(super) fn answers(text: impl Into<String>) -> Self {
        Self::Answers(text.into())
    }

    /// Answers with this status, these header lines, and the end.
    pub(super) fn status(status: u16, headers: &str) -> Self {
        let head = format!("HTTP/1.1 {status} Whatever\r\nConnection: close\r\n{headers}");
        Self::Answers(format!("{head}Content-Length: 0\r\n\r\n"))
    }

    fn needs_tls(&self) -> bool {
        matches!(self, Self::InHandshake | Self::NoTls | Self::NotTrusted)
    }
}

pub(super) struct FaultyPeer {
    url: String,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    connections: AtomicUsize,
    /// Requests whose head came.
    heads: AtomicUsize,
    /// Requests that came whole.
    whole: AtomicUsize,
}

impl FaultyPeer {
    /// Fails so for the first connections, then works.
    pub(super) async fn start(fault: Fault, connections: usize) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = socket.local_addr().unwrap().port();
        let scheme = if fault.needs_tls() { "https" } else { "http" };
        let counts = Arc::new(Counts::default());
        let peer = Self { url: format!("{scheme}://127.0.0.1:{port}"), counts };
        let counts = Arc::clone(&peer.counts);
        if matches!(fault, Fault::Refuses) {
            // Bound, so that nobody else gets the port, and not listening.
            tokio::spawn(async move {
                let _socket = socket;
                std::future::pending::<()>().await;
            });
        } else {
            tokio::spawn(serve(socket.listen(64).unwrap(), fault, connections, counts));
        }
        peer
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

    pub(super) fn whole(&self) -> usize {
        self.counts.whole.load(Ordering::SeqCst)
    }
}

async fn serve(listener: TcpListener, fault: Fault, connections: usize, counts: Arc<Counts>) {
    let tls = fault.needs_tls();
    let mut open = Vec::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let counts = Arc::clone(&counts);
        if counts.connections.fetch_add(1, Ordering::SeqCst) < connections {
            open.extend(fail(stream, &fault, &counts).await);
        } else if tls {
            let acceptor = certificates().0.acceptor.clone();
            tokio::spawn(async move { work(acceptor.accept(stream).await.unwrap(), counts).await });
        } else {
            tokio::spawn(work(stream, counts));
        }
    }
}

/// Gives the stream back where it must stay open.
async fn fail(mut stream: TcpStream, fault: &Fault, counts: &Counts) -> Option<TcpStream> {
    let mut buffer = Vec::new();
    match fault {
        Fault::Refuses | Fault::AtConnect => {}
        Fault::InHandshake => {
            stream.read_buf(&mut buffer).await.unwrap();
        }
        Fault::NoTls => {
            stream.read_buf(&mut buffer).await.unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        }
        Fault::NotTrusted => {
            // The client hangs up.
            assert!(certificates().1.acceptor.accept(stream).await.is_err());
        }
        Fault::AfterHead | Fault::MidBody | Fault::Early(_) => {
            let head = loop {
                if let Some(at) = buffer.windows(4).position(|end| end == b"\r\n\r\n") {
                    break at + 4;
                }
                assert_ne!(stream.read_buf(&mut buffer).await.unwrap(), 0, "no head");
            };
            counts.heads.fetch_add(1, Ordering::SeqCst);
            if let Fault::MidBody = fault {
                // Of a large body some; a small one mostly came with the head,
                // and its end stays unread.
                let some = head + content_length(&buffer[..head]).min(200_000) / 2;
                while buffer.len() < some {
                    assert_ne!(stream.read_buf(&mut buffer).await.unwrap(), 0, "no body");
                }
            }
            if let Fault::Early(text) = fault {
                stream.write_all(text.as_bytes()).await.unwrap();
                // Until the client hangs up.
                while stream.read_buf(&mut buffer).await.is_ok_and(|count| count > 0) {
                    buffer.clear();
                }
            }
        }
        Fault::Answers(text) | Fault::Stalls(text) => {
            read_request(&mut stream, &mut buffer).await.unwrap();
            counts.heads.fetch_add(1, Ordering::SeqCst);
            counts.whole.fetch_add(1, Ordering::SeqCst);
            // The client may have hung up before it is all written.
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
    lines.find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or_default()
}

async fn work<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, counts: Arc<Counts>) {
    let mut buffer = Vec::new();
    while read_request(&mut stream, &mut buffer).await.is_some() {
        counts.heads.fetch_add(1, Ordering::SeqCst);
        counts.whole.fetch_add(1, Ordering::SeqCst);
        let answer = answer(200, r#"{"id":"x","status":200}"#);
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

struct Certificate {
    pem: String,
    acceptor: tokio_rustls::TlsAcceptor,
}

/// One that the clients trust and one that they do not.
fn certificates() -> &'static (Certificate, Certificate) {
    static BOTH: OnceLock<(Certificate, Certificate)> = OnceLock::new();
    BOTH.get_or_init(|| (Certificate::make(), Certificate::make()))
}

impl Certificate {
    fn make() -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = made.signing_key.serialize_der();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.try_into().unwrap())
            .unwrap();
        Self { pem: made.cert.pem(), acceptor: Arc::new(config).into() }
    }
}
