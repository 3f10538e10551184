//! HTTP/2: streams that the server declares as not processed are retried, and no others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use svc_sdk::email::Email;
use svc_sdk::{EmailClient, Error, ErrorKind, Outcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How the server fails a stream.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The server resets the stream with this reason.
    Reset(h2::Reason),
    /// The server sends GOAWAY with this reason and a last stream id before this stream.
    GoAwayBeforeStream(h2::Reason),
    /// The server sends GOAWAY with this reason and a last stream id that includes this
    /// stream, and closes the connection without a response.
    GoAwayAfterStream(h2::Reason),
    /// The connection is closed without a reason.
    ConnectionClosed,
    /// The response is reset after its head and a part of its body.
    ResetMidResponse,
}

/// A server that fails the first streams and responds to the rest.
struct Server {
    client: EmailClient,
    streams: Arc<AtomicUsize>,
}

impl Server {
    async fn start(fault: Fault, failures: usize) -> Self {
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
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
                let count = Arc::clone(&count);
                if count.load(Ordering::SeqCst) < failures
                    && !matches!(fault, Fault::Reset(_) | Fault::ResetMidResponse)
                {
                    tokio::spawn(fail_connection(stream, fault, count));
                } else {
                    tokio::spawn(serve(stream, fault, failures, count));
                }
            }
        });
        let client = EmailClient::builder(format!("https://localhost:{port}"), "k")
            .ca_bundle(certified.cert.pem())
            .platform_certificates(false)
            .back_off(Duration::ZERO, Duration::ZERO)
            .no_proxy()
            .build()
            .unwrap();
        Self { client, streams }
    }

    fn streams(&self) -> usize {
        self.streams.load(Ordering::SeqCst)
    }
}

async fn serve(
    stream: TlsStream<TcpStream>,
    fault: Fault,
    failures: usize,
    count: Arc<AtomicUsize>,
) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        let seen = count.fetch_add(1, Ordering::SeqCst);
        if let Fault::Reset(reason) = fault
            && seen < failures
        {
            respond.send_reset(reason);
            continue;
        }
        let head = http::Response::builder().status(202).body(()).unwrap();
        let mut body = respond.send_response(head, false).unwrap();
        if matches!(fault, Fault::ResetMidResponse) && seen < failures {
            body.send_data(bytes::Bytes::from_static(b"{\"id\""), false).unwrap();
            body.send_reset(h2::Reason::INTERNAL_ERROR);
            continue;
        }
        body.send_data(bytes::Bytes::from_static(b"{\"id\":\"x\"}"), true).unwrap();
    }
}

/// Written frame by frame, because h2's server cannot choose the last stream id.
async fn fail_connection(mut stream: TlsStream<TcpStream>, fault: Fault, count: Arc<AtomicUsize>) {
    const HEADERS: u8 = 1;
    const SETTINGS: u8 = 4;
    const GOAWAY: u8 = 7;
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await.unwrap();
    stream.write_all(&frame(SETTINGS, &[])).await.unwrap();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.unwrap();
        let length = usize::from(head[1]) << 8 | usize::from(head[2]);
        stream.read_exact(&mut vec![0; length]).await.unwrap();
        if head[3] == HEADERS {
            break;
        }
    }
    count.fetch_add(1, Ordering::SeqCst);
    // The first stream of a client has the id 1.
    let (last, reason) = match fault {
        Fault::GoAwayBeforeStream(reason) => (0_u32, reason),
        Fault::GoAwayAfterStream(reason) | Fault::Reset(reason) => (1, reason),
        Fault::ConnectionClosed | Fault::ResetMidResponse => return,
    };
    let content = [last.to_be_bytes(), u32::from(reason).to_be_bytes()].concat();
    stream.write_all(&frame(GOAWAY, &content)).await.unwrap();
    let _ = stream.shutdown().await;
}

/// Builds a frame on stream 0, which is the connection itself.
fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    [&[0, 0, length, kind, 0, 0, 0, 0, 0], content].concat()
}

async fn send(client: &EmailClient) -> Result<u32, Error> {
    let email = Email::new("a@b", "c@d", "s").text("Hello");
    client.emails().send(&email).with_response().await.map(|response| response.attempts)
}

/// A send is retried only if it was certainly not processed.
#[tokio::test]
async fn retries_only_streams_that_were_not_processed() {
    use h2::Reason;
    #[rustfmt::skip]
    let table = [
        (Fault::Reset(Reason::REFUSED_STREAM),                  true),
        (Fault::Reset(Reason::INTERNAL_ERROR),                  false),
        (Fault::Reset(Reason::CANCEL),                          false),
        (Fault::Reset(Reason::ENHANCE_YOUR_CALM),               false),
        (Fault::GoAwayBeforeStream(Reason::NO_ERROR),           true),
        (Fault::GoAwayBeforeStream(Reason::INTERNAL_ERROR),     true),
        (Fault::GoAwayBeforeStream(Reason::ENHANCE_YOUR_CALM),  true),
        (Fault::GoAwayAfterStream(Reason::NO_ERROR),            false),
        (Fault::GoAwayAfterStream(Reason::INTERNAL_ERROR),      false),
        (Fault::ConnectionClosed,                               false),
        (Fault::ResetMidResponse,                               false),
    ];
    for (fault, retried) in table {
        // Fails twice, then works.
        let server = Server::start(fault, 2).await;
        let sent = send(&server.client).await;
        if retried {
            assert_eq!((sent.unwrap(), server.streams()), (3, 3), "{fault:?}");
        } else {
            let error = sent.unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::ConnectionLost, "{fault:?}");
            assert_eq!(error.outcome(), Outcome::Unknown, "{fault:?}");
            assert_eq!((error.attempts(), server.streams()), (1, 1), "{fault:?}");
        }

        // Always fails.
        let server = Server::start(fault, usize::MAX).await;
        let error = send(&server.client).await.unwrap_err();
        let (outcome, attempts) =
            if retried { (Outcome::NotSent, 3) } else { (Outcome::Unknown, 1) };
        assert_eq!((error.outcome(), error.attempts()), (outcome, attempts), "{fault:?}");
        assert_eq!(server.streams(), usize::try_from(attempts).unwrap(), "{fault:?}");

        // A read is always retried.
        let server = Server::start(fault, 1).await;
        assert_eq!(server.client.emails().get("x").await.unwrap().id, "x", "{fault:?}");
        assert_eq!(server.streams(), 2, "{fault:?}");
    }
}
