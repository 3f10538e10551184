//! Posts webhook deliveries to an application: the exact bytes, without following redirects, and
//! without retrying a delivery that may have arrived. Each delivery opens a new connection, because
//! a pooled one may be stale after the application restarts.

use std::io;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body, Bytes};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::http::Extensions;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use svc_sdk::{Outcome, Service};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use url::{Position, Url};
use webhook_verify::Secret;

use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::urls::parse_url;

mod tls;

/// How long a service waits for an endpoint's response: the email service's documented limit
/// (`docs/email-service/limits.md`). The reference of the extraction service names none, so the
/// same is assumed (`docs/undocumented/extraction-service.md`).
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of a response body, in bytes.
const MAX_RESPONSE_SIZE: usize = 64 << 20;

/// A webhook delivery: the request to post, and the URL to post it to.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub url: String,
    /// Names and values. Each character of a value stands for one byte (ISO 8859-1).
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    /// hyper's record of the original spelling of received header names.
    pub extensions: Extensions,
}

/// The application's response.
pub struct DeliveryResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub extensions: Extensions,
    pub duration: Duration,
}

/// Why a delivery got no response.
#[derive(Debug)]
pub enum DeliveryError {
    /// No connection: nothing was sent, so a retry cannot deliver twice.
    NotSent(String),
    /// The TLS handshake failed: nothing was sent, and a retry would fail as well.
    NotTrusted(String),
    /// No response in time. The delivery may have arrived.
    TimedOut(Duration),
    /// The connection broke. The delivery may have arrived.
    BrokenOff(String),
}

impl std::fmt::Display for DeliveryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotSent(why) => write!(f, "cannot connect to the application: {why}"),
            Self::NotTrusted(why) => {
                write!(f, "cannot establish a TLS connection to the application: {why}")
            }
            Self::TimedOut(limit) => {
                write!(f, "the application did not respond within {} s", limit.as_secs_f64())
            }
            Self::BrokenOff(why) => {
                write!(f, "the application closed the connection without a full response: {why}")
            }
        }
    }
}

impl From<DeliveryError> for Failure {
    fn from(error: DeliveryError) -> Self {
        let kind = match error {
            DeliveryError::NotSent(_) | DeliveryError::NotTrusted(_) => Kind::Unavailable,
            DeliveryError::TimedOut(_) | DeliveryError::BrokenOff(_) => Kind::OutcomeUnknown,
        };
        let (code, hint) = match &error {
            DeliveryError::NotSent(_) => {
                ("endpoint_unreachable", "check that the application is running")
            }
            // The names of rustls's errors.
            DeliveryError::NotTrusted(why) if why.contains("InvalidContentType") => (
                "endpoint_not_trusted",
                "the application responds without TLS: use a URL that begins with http:",
            ),
            DeliveryError::NotTrusted(why) if why.contains("CaUsedAsEndEntity") => (
                "endpoint_not_trusted",
                "its certificate is one of an authority: create it with `openssl req -x509 \
                 -addext basicConstraints=critical,CA:FALSE …`, and pass it with --ca-bundle",
            ),
            DeliveryError::NotTrusted(_) => (
                "endpoint_not_trusted",
                "if the application has its own certificate, pass it with --ca-bundle",
            ),
            DeliveryError::TimedOut(_) => {
                ("endpoint_timed_out", "respond immediately, and do the work afterwards")
            }
            DeliveryError::BrokenOff(_) => ("endpoint_broke_off", "check the application's log"),
        };
        let mut failure = Self::new(kind, error.to_string()).code(code).hint(hint);
        if kind == Kind::Unavailable {
            failure.details_mut().outcome = Some(Outcome::NotSent.as_str());
        }
        failure
    }
}

/// Posts deliveries.
pub struct Deliverer {
    tls: Option<TlsConnector>,
}

impl Deliverer {
    /// A deliverer for these URLs. It reads the platform's certificates, which takes
    /// milliseconds, only if one of the URLs is https.
    pub fn to<'a>(
        context: &Context,
        urls: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, Failure> {
        let secure = urls.into_iter().any(|url| url.starts_with("https:"));
        let tls = secure.then(|| tls::connector(context.ca_bundle()?.as_deref())).transpose()?;
        Ok(Self { tls })
    }

    /// Connects and disconnects, and sends no request.
    pub async fn try_connect(&self, url: &str, within: Duration) -> Result<(), DeliveryError> {
        let connected = tokio::time::timeout(within, self.connect(url)).await;
        match connected {
            Ok(connected) => connected.map(drop),
            Err(_) => Err(DeliveryError::NotSent(format!(
                "no connection within {} s",
                within.as_secs_f64()
            ))),
        }
    }

    /// Posts a delivery. A response of any status is `Ok`.
    pub async fn post(
        &self,
        delivery: &Delivery,
        within: Duration,
    ) -> Result<DeliveryResponse, DeliveryError> {
        let request = request(delivery, Full::new(delivery.body.clone()))?;
        self.exchange(delivery, request, within).await
    }

    /// As [`post`](Self::post), with a body that is produced while it is sent, in place of the
    /// delivery's. `length` is the announced size.
    pub async fn post_stream<B>(
        &self,
        delivery: &Delivery,
        length: u64,
        body: B,
        within: Duration,
    ) -> Result<DeliveryResponse, DeliveryError>
    where
        B: Body<Data = Bytes, Error = io::Error> + Send + Unpin + 'static,
    {
        let mut request = request(delivery, body)?;
        request.headers_mut().insert(CONTENT_LENGTH, length.into());
        self.exchange(delivery, request, within).await
    }

    async fn exchange<B>(
        &self,
        delivery: &Delivery,
        request: Request<B>,
        within: Duration,
    ) -> Result<DeliveryResponse, DeliveryError>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let started = Instant::now();
        let exchange = async { send(self.connect(&delivery.url).await?, request, started).await };
        tokio::time::timeout(within, exchange).await.map_err(|_| DeliveryError::TimedOut(within))?
    }

    async fn connect(&self, url: &str) -> Result<Box<dyn Connection>, DeliveryError> {
        let not_sent = |error: io::Error| DeliveryError::NotSent(error.to_string());
        let url = parse_url(url).ok_or_else(invalid_url)?;
        let stream = connect(&url).await.map_err(not_sent)?;
        if url.scheme() == "http" {
            return Ok(Box::new(stream));
        }
        let tls = self.tls.as_ref().ok_or_else(|| not_sent(io::ErrorKind::Unsupported.into()))?;
        let name = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(name).map_err(|error| not_sent(io::Error::other(error)))?;
        let stream = tls.connect(name, stream).await.map_err(|error| match error.get_ref() {
            Some(cause) if cause.is::<rustls::Error>() => {
                DeliveryError::NotTrusted(cause.to_string())
            }
            _ => not_sent(error),
        })?;
        Ok(Box::new(stream))
    }
}

/// A connection to an application, with or without TLS.
trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Connection for T {}

fn invalid_url() -> DeliveryError {
    DeliveryError::NotSent("the URL is invalid".to_owned())
}

impl Delivery {
    /// The delivery as `--dry-run` shows it.
    pub fn to_json(&self) -> Value {
        let headers = self
            .headers
            .iter()
            .filter(|(name, _)| !is_hop_by_hop(name))
            .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
            .collect::<serde_json::Map<_, _>>();
        let body = serde_json::from_slice::<Value>(&self.body)
            .unwrap_or_else(|_| json!({"base64": STANDARD.encode(&self.body)}));
        json!({"method": "POST", "url": self.url, "headers": headers, "body": body})
    }

    /// Signs the body with the current time, and replaces an existing signature header.
    pub fn sign(&mut self, service: Service, secret: &Secret) {
        let (name, value) = crate::signing::sign(service, secret, &self.body);
        self.headers.retain(|(header, _)| !header.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value));
    }
}

/// Whether a header describes one connection rather than the message (RFC 9110, section 7.6.1).
pub fn is_hop_by_hop(name: &str) -> bool {
    const NAMES: [&str; 10] = [
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    NAMES.iter().any(|hop| hop.eq_ignore_ascii_case(name))
}

async fn connect(url: &Url) -> io::Result<TcpStream> {
    let addresses = match url.host() {
        Some(url::Host::Domain(name)) => {
            let port = url.port_or_known_default().unwrap_or(80);
            tokio::net::lookup_host((name, port)).await?.collect()
        }
        _ => url.socket_addrs(|| None)?,
    };
    let stream = TcpStream::connect(&addresses[..]).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn send<B>(
    stream: Box<dyn Connection>,
    request: Request<B>,
    started: Instant,
) -> Result<DeliveryResponse, DeliveryError>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let broken = |error: hyper::Error| DeliveryError::BrokenOff(error.to_string());
    let (mut sender, connection) = http1::Builder::new()
        .preserve_header_case(true)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    // Dropping the set aborts the connection task, however this function returns.
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let (head, body) = sender.send_request(request).await.map_err(broken)?.into_parts();
    let body = Limited::new(body, MAX_RESPONSE_SIZE).collect().await;
    let body = body.map_err(|error| DeliveryError::BrokenOff(error.to_string()))?.to_bytes();
    Ok(DeliveryResponse {
        status: head.status.as_u16(),
        headers: head.headers,
        body,
        extensions: head.extensions,
        duration: started.elapsed(),
    })
}

fn request<B>(delivery: &Delivery, body: B) -> Result<Request<B>, DeliveryError> {
    let url = parse_url(&delivery.url).ok_or_else(invalid_url)?;
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    // The path and query of a parsed URL are always valid in HTTP.
    *request.uri_mut() =
        url[Position::BeforePath..Position::AfterQuery].parse().unwrap_or_default();
    *request.extensions_mut() = delivery.extensions.clone();
    let mut headers = header_map(&delivery.headers);
    let mut put = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.entry(name).or_insert(value);
        }
    };
    put(HOST, &url[Position::BeforeHost..Position::AfterPort]);
    if !url.username().is_empty() {
        let pair = format!("{}:{}", url.username(), url.password().unwrap_or_default());
        put(AUTHORIZATION, &format!("Basic {}", STANDARD.encode(pair)));
    }
    *request.headers_mut() = headers;
    Ok(request)
}

fn bytes(value: &str) -> Vec<u8> {
    value.chars().filter_map(|character| u8::try_from(character).ok()).collect()
}

fn header_map(headers: &[(String, String)]) -> HeaderMap {
    let pairs = headers.iter().filter(|(name, _)| !is_hop_by_hop(name));
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        // Received headers and our own are valid, so nothing is dropped here.
        if let (Ok(name), Ok(value)) =
            (HeaderName::try_from(name), HeaderValue::from_bytes(&bytes(value)))
        {
            map.append(name, value);
        }
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_target_and_host_come_from_the_url() {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let delivery = Delivery {
            url: "http://me:pw@localhost:3000/a%20b?c=d".to_owned(),
            headers: vec![
                header("Host", "elsewhere"),
                header("content-length", "999"),
                header("x-mine", "k\u{e9}pt"),
            ],
            body: Bytes::from_static(b"{}"),
            extensions: Extensions::new(),
        };
        let request = request(&delivery, ()).expect("a URL");
        assert_eq!(request.uri(), "/a%20b?c=d");
        assert_eq!(request.headers()["host"], "localhost:3000");
        assert_eq!(request.headers()["x-mine"].as_bytes(), b"k\xe9pt");
        assert_eq!(request.headers()["authorization"], "Basic bWU6cHc=");
        assert!(!request.headers().contains_key("content-length"));
    }
}
