//! Attempts to deliver webhooks: posts the exact bytes over HTTP(S) and reports the
//! outcome.

mod body;
mod connect;
mod target;
mod tcp;

use std::error::Error as _;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::capture_connection;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::timeout;
use url::Url;

use crate::net::slots::{Slot, Slots};
pub(crate) use body::RequestBody;
use connect::{ConnectError, Connector};
pub(crate) use target::{Policy, RefusedTarget};

/// HTTP client for webhook deliveries, with pooled connections. Creating one is cheap:
/// TLS is set up for the first `https` target.
pub(crate) struct Outbound {
    client: Client<Connector, RequestBody>,
    /// Uses every connection once.
    unpooled: Client<Connector, RequestBody>,
    timeout: Duration,
    slots: Slots,
}

/// Maximum number of attempts in progress. Each takes a file descriptor, or two while its
/// host name is looked up.
const MAX_ATTEMPTS: usize = 512;
/// Maximum number of attempts in progress of one organization, so that its slow endpoints
/// leave room for others.
const MAX_ATTEMPTS_EACH: usize = 128;

impl Outbound {
    /// Asks the name server `resolver`, or without it those of the system.
    pub(crate) fn new(policy: Policy, resolver: Option<SocketAddr>) -> Self {
        let connector = Connector::new(policy, resolver);
        let client = |max_idle| {
            Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                // Shorter than the five seconds after which many servers close idle
                // connections.
                .pool_idle_timeout(Duration::from_secs(4))
                .pool_max_idle_per_host(max_idle)
                .http1_max_buf_size(64 * 1024)
                .build(connector.clone())
        };
        let slots = Slots::new(MAX_ATTEMPTS, MAX_ATTEMPTS_EACH);
        Self { client: client(32), unpooled: client(0), timeout: ATTEMPT_TIMEOUT, slots }
    }

    /// Waits until another attempt may start. The wait is not part of the attempt.
    pub(crate) async fn slot(&self, organization: i64) -> Slot {
        self.slots.acquire(organization).await
    }

    /// Posts the body unchanged. Redirects are not followed.
    ///
    /// Takes at most ten seconds of real time, from the DNS lookup to the end of the
    /// response or its first 4 KiB.
    pub(crate) async fn post(&self, url: &Url, headers: HeaderMap, body: RequestBody) -> Attempt {
        let started = Instant::now();
        let exchange = async {
            // An endpoint may close a kept-alive connection at any moment. If it has certainly
            // not read the request, the request is sent once more.
            match exchange(&self.client, url, headers.clone(), body.clone()).await {
                Err((_, true)) => exchange(&self.unpooled, url, headers, body).await,
                outcome => outcome,
            }
        };
        let outcome = match timeout(self.timeout, exchange).await {
            Ok(outcome) => outcome.map_err(|(error, _)| error),
            Err(_) => Err(AttemptError::TimedOut(self.timeout)),
        };
        Attempt { outcome, duration: started.elapsed() }
    }
}

/// Sends one request. An error comes with whether the endpoint has certainly not read the
/// request, because it had closed the kept-alive connection before.
async fn exchange(
    client: &Client<Connector, RequestBody>,
    url: &Url,
    mut headers: HeaderMap,
    body: RequestBody,
) -> Result<Response, (AttemptError, bool)> {
    if let Some(credentials) = basic_credentials(url) {
        headers.entry(AUTHORIZATION).or_insert(credentials);
    }
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    *request.uri_mut() = request_uri(url).ok_or((AttemptError::InvalidUrl, false))?;
    *request.headers_mut() = headers;
    let connection = capture_connection(&mut request);
    let result = client.request(request).await;
    let traffic = connect::traffic(&connection);
    let mut response = result.map_err(|error| {
        let is_unread = traffic.as_ref().is_some_and(|traffic| traffic.is_unread());
        (AttemptError::from_client(&error), is_unread)
    })?;
    if let Some(traffic) = traffic {
        traffic.count_response();
    }

    let status = response.status();
    let mut body_start = BytesMut::new();
    while body_start.len() < MAX_KEPT_BODY {
        let Some(frame) = response.body_mut().frame().await else { break };
        if let Ok(data) = frame.map_err(|_| (AttemptError::Interrupted, false))?.into_data() {
            body_start.extend_from_slice(&data[..data.len().min(MAX_KEPT_BODY - body_start.len())]);
        }
    }
    Ok(Response { status, body: body_start.freeze() })
}

/// Outcome and duration of an attempt.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) outcome: Result<Response, AttemptError>,
    pub(crate) duration: Duration,
}

impl Attempt {
    /// Whether the delivery succeeded: a response with a 2xx status.
    pub(crate) fn is_delivered(&self) -> bool {
        self.outcome.as_ref().is_ok_and(|response| response.status.is_success())
    }
}

/// Response of the receiver.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    /// The first 4 KiB of the body.
    pub(crate) body: Bytes,
}

// Responses are user data, so `Debug` does not print them.
impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Response({}, {} bytes)", self.status.as_u16(), self.body.len())
    }
}

/// Why there was no response. Messages do not contain the URL, because its path may be
/// secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AttemptError {
    #[error("the URL cannot be used for a request")]
    InvalidUrl,
    #[error("{0}")]
    Refused(RefusedTarget),
    #[error("the host name could not be resolved")]
    Unresolved,
    /// The attempt did not reach the network.
    #[error("this machine has no free file descriptor")]
    NoDescriptor,
    #[error("the attempt failed on this machine; see the log of the server")]
    Internal,
    #[error("cannot connect: {}", describe(.0))]
    NoConnection(io::Error),
    #[error("the TLS handshake failed: {0}")]
    Tls(io::Error),
    #[error("no complete response within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("the connection was closed before the response was complete")]
    Interrupted,
    #[error("the response was not HTTP")]
    NotHttp,
    #[error("the response is too long")]
    TooLong,
}

impl AttemptError {
    fn from_client(error: &hyper_util::client::legacy::Error) -> Self {
        let mut source = error.source();
        while let Some(cause) = source {
            if let Some(hyper) = cause.downcast_ref::<hyper::Error>() {
                let io = hyper.source().and_then(|source| source.downcast_ref::<io::Error>());
                return match io.map(io::Error::kind) {
                    Some(io::ErrorKind::FileTooLarge) => Self::TooLong,
                    _ if hyper.is_parse() => Self::NotHttp,
                    _ => Self::Interrupted,
                };
            }
            if let Some(connect) = cause.downcast_ref::<ConnectError>() {
                return connect.to_attempt_error();
            }
            source = cause.source();
        }
        Self::Interrupted
    }
}

const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_KEPT_BODY: usize = 4096;

fn describe(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::TimedOut => "connection timed out",
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            "host or network unreachable"
        }
        io::ErrorKind::ConnectionReset => "connection reset",
        _ => "network error",
    }
}

fn request_uri(url: &Url) -> Option<Uri> {
    let mut url = url.clone();
    url.set_fragment(None);
    // Credentials are sent in the `Authorization` header.
    url.set_username("").and_then(|()| url.set_password(None)).ok()?;
    Uri::try_from(url.as_str()).ok()
}

fn basic_credentials(url: &Url) -> Option<HeaderValue> {
    use base64::Engine as _;

    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let decode = |text| percent_encoding::percent_decode_str(text).decode_utf8_lossy();
    let pair = format!("{}:{}", decode(url.username()), decode(url.password().unwrap_or("")));
    let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
    let mut value = HeaderValue::from_str(&format!("Basic {encoded}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinHandle;

    use super::*;

    /// A server that reads one request, responds with `response`, and then closes the
    /// connection unless `hold` is set.
    async fn receiver(response: &'static [u8], hold: bool) -> (Url, JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/hook?x=1", listener.local_addr().expect("an address"));
        let seen = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let request = read_request(&mut stream).await;
            stream.write_all(response).await.expect("written");
            if hold {
                std::future::pending::<()>().await;
            }
            request
        });
        (Url::parse(&url).expect("a URL"), seen)
    }

    async fn read_request(stream: &mut TcpStream) -> Vec<u8> {
        let mut request = vec![0; 64 * 1024];
        let mut length = 0;
        while !request[..length].ends_with(b"{\"a\": 1}") {
            length += stream.read(&mut request[length..]).await.expect("read");
        }
        request.truncate(length);
        request
    }

    fn headers() -> HeaderMap {
        HeaderMap::from_iter([(
            http::HeaderName::from_static("mail-event"),
            HeaderValue::from_static("email.sent"),
        )])
    }

    async fn post(url: &Url, policy: Policy) -> Attempt {
        let mut outbound = Outbound::new(policy, None);
        outbound.timeout = Duration::from_millis(300);
        outbound
            .post(
                url,
                headers(),
                RequestBody::new([Bytes::from_static(b"{\"a\""), Bytes::from_static(b": 1}")]),
            )
            .await
    }

    #[tokio::test]
    async fn posts_the_exact_bytes_and_headers() {
        let response = b"HTTP/1.1 204 No Content\r\n\r\n";
        let (url, seen) = receiver(response, false).await;
        let attempt = post(&url, Policy::Development).await;
        assert!(attempt.is_delivered(), "{attempt:?}");
        let request = String::from_utf8(seen.await.expect("seen")).expect("text");
        let (head, body) = request.split_once("\r\n\r\n").expect("a body");
        assert_eq!(body, "{\"a\": 1}");
        assert!(head.starts_with("POST /hook?x=1 HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("mail-event: email.sent\r\n"), "{head}");
        assert!(head.contains("content-length: 8"), "{head}");
        assert!(head.contains(&format!("host: {}", url.authority())), "{head}");
    }

    #[tokio::test]
    async fn redirects_are_failures_and_not_followed() {
        let response =
            b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 2\r\n\r\nno";
        let (url, _seen) = receiver(response, false).await;
        let attempt = post(&url, Policy::Development).await;
        assert!(!attempt.is_delivered());
        let response = attempt.outcome.expect("a response");
        assert_eq!((response.status, &response.body[..]), (StatusCode::FOUND, &b"no"[..]));
    }

    #[tokio::test]
    async fn long_responses_are_truncated() {
        let body = "x".repeat(10_000);
        let response = format!("HTTP/1.1 500 No\r\ncontent-length: 10000\r\n\r\n{body}");
        let (url, _seen) = receiver(response.leak().as_bytes(), false).await;
        let response = post(&url, Policy::Development).await.outcome.expect("a response");
        assert_eq!(response.body.len(), 4096);
        assert_eq!(format!("{response:?}"), "Response(500, 4096 bytes)");
    }

    #[tokio::test]
    async fn informational_responses_without_end_end_the_attempt() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let endless = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            read_request(&mut stream).await;
            let many = "HTTP/1.1 100 Continue\r\n\r\n".repeat(100);
            while stream.write_all(many.as_bytes()).await.is_ok() {}
        });
        let body = [Bytes::from_static(b"{\"a\""), Bytes::from_static(b": 1}")];
        let outbound = Outbound::new(Policy::Development, None);
        let url = Url::parse(&url).expect("a URL");
        let attempt = outbound.post(&url, headers(), RequestBody::new(body)).await;
        assert!(matches!(attempt.outcome, Err(AttemptError::TooLong)), "{attempt:?}");
        endless.await.expect("the end of the connection");
    }

    #[tokio::test]
    async fn the_time_out_covers_the_whole_attempt() {
        let slow: [&[u8]; 3] =
            [b"", b"HTTP/1.1 2", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx"];
        for response in slow {
            let (url, _seen) = receiver(response, true).await;
            let attempt = post(&url, Policy::Development).await;
            assert!(matches!(attempt.outcome, Err(AttemptError::TimedOut(_))), "{attempt:?}");
            assert!(attempt.duration >= Duration::from_millis(300));
        }
        assert_eq!(
            AttemptError::TimedOut(ATTEMPT_TIMEOUT).to_string(),
            "no complete response within 10 s"
        );
    }

    #[tokio::test]
    async fn errors_name_the_cause() {
        let message = |attempt: Attempt| attempt.outcome.expect_err("an error").to_string();

        let (url, _seen) = receiver(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx", false).await;
        let broken = "the connection was closed before the response was complete";
        assert_eq!(message(post(&url, Policy::Development).await), broken);
        let (url, _seen) = receiver(b"", false).await;
        assert_eq!(message(post(&url, Policy::Development).await), broken);
        let (url, _seen) = receiver(b"SSH-2.0-x\r\n\r\n", false).await;
        let message_ = message(post(&url, Policy::Development).await);
        assert_eq!(message_, "the response was not HTTP");

        let free = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/secret", free.local_addr().expect("an address"));
        drop(free);
        let refused = message(post(&Url::parse(&url).expect("a URL"), Policy::Development).await);
        assert_eq!(refused, "cannot connect: connection refused");

        let plain = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://{}/", plain.local_addr().expect("an address"));
        tokio::spawn(async move {
            let (mut stream, _) = plain.accept().await.expect("a connection");
            stream.write_all(b"plain text, no TLS").await.expect("written");
            // Read until the client closes, because unread bytes would cause a reset.
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        });
        let failed = message(post(&Url::parse(&url).expect("a URL"), Policy::Development).await);
        assert!(failed.starts_with("the TLS handshake failed: "), "{failed}");

        let unknown = Url::parse("http://no-such-host.invalid/").expect("a URL");
        let attempt = post(&unknown, Policy::Development).await;
        assert!(
            matches!(attempt.outcome, Err(AttemptError::Unresolved | AttemptError::TimedOut(_))),
            "{attempt:?}"
        );
    }

    #[tokio::test]
    async fn private_addresses_are_rejected_after_name_resolution() {
        for url in ["http://127.0.0.1:9/", "http://[::ffff:127.0.0.1]:9/", "http://localhost:9/"] {
            let attempt = post(&Url::parse(url).expect("a URL"), Policy::Public).await;
            let error = attempt.outcome.expect_err("refused").to_string();
            assert_eq!(error, "the host name could not be resolved to a public address", "{url}");
        }
        let url = Url::parse("http://169.254.169.254/latest/meta-data").expect("a URL");
        let error = post(&url, Policy::Development).await.outcome.expect_err("refused").to_string();
        assert_eq!(
            error,
            "the target 169.254.169.254 is in the link-local range 169.254.0.0/16, which webhooks may not reach"
        );
    }

    #[tokio::test]
    async fn url_credentials_are_sent_as_a_header() {
        let (mut url, seen) =
            receiver(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", false).await;
        url.set_username("ada").expect("a user");
        url.set_password(Some("p%40ss")).expect("a password");
        assert!(post(&url, Policy::Development).await.is_delivered());
        let request = String::from_utf8(seen.await.expect("seen")).expect("text");
        assert!(request.contains("authorization: Basic YWRhOnBAc3M=\r\n"), "{request}");
        assert!(!request.contains("p%40ss"), "{request}");
    }
}
