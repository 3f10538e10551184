//! [`Outbound`] posts the exact bytes of a webhook delivery and returns the response, or an
//! `AttemptError`. Each address is checked with `target.rs` after the name was resolved, and the
//! connection goes to that address, so that no name can lead to one that is refused. For the same
//! reason there are no redirects and no proxy. An attempt takes at most `ATTEMPT_TIMEOUT`, and is
//! never retried here: `webhooks/webhook_rules.rs` signs it and schedules the next one.

use std::error::Error as StdError;
use std::io;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::HeaderMap;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, redirect, retry};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::target::{self, RefusedTarget};
use super::{name_servers, tls};
use crate::model::Network;

/// HTTP client for webhook deliveries, with pooled connections.
pub(crate) struct Outbound {
    lookup: Lookup,
    /// Created when the first attempt needs it: to load the platform's certificates takes time,
    /// and only `https` needs them.
    http: OnceLock<Client>,
    https: OnceLock<Client>,
    timeout: Duration,
}

/// The whole attempt, from the look-up to the end of the response or its first 4 KiB.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// For all addresses of a host together, so that one that does not respond leaves time for the
/// next one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(8);
const MAX_KEPT_BODY: usize = 4096;

impl Outbound {
    /// Asks the name server `resolver`, or without it those of the system.
    pub(crate) fn new(network: Network, resolver: Option<SocketAddr>) -> Self {
        Self {
            lookup: Lookup {
                network,
                server: resolver,
            },
            http: OnceLock::new(),
            https: OnceLock::new(),
            timeout: ATTEMPT_TIMEOUT,
        }
    }

    /// Posts the body, unchanged. Redirects are not followed. Takes at most ten
    /// seconds of real time.
    ///
    /// The status decides about the attempt, so a body that breaks off or does not end in time is
    /// kept as far as it came.
    pub(crate) async fn post(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response, AttemptError> {
        let deadline = Instant::now() + self.timeout;

        let response = timeout_at(deadline, self.send(url, headers, body)).await;
        let mut response = response.unwrap_or(Err(AttemptError::TimedOut(self.timeout)))?;

        let mut start = BytesMut::new();
        while start.len() < MAX_KEPT_BODY {
            let Ok(Ok(Some(chunk))) = timeout_at(deadline, response.chunk()).await else {
                break;
            };
            start.extend_from_slice(&chunk[..chunk.len().min(MAX_KEPT_BODY - start.len())]);
        }

        Ok(Response {
            status: response.status(),
            body: start.freeze(),
        })
    }

    async fn send(
        &self,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<reqwest::Response, AttemptError> {
        // Only names reach the resolver.
        target::check_url(self.lookup.network, url)?;
        let request = self
            .client(url)?
            .post(url.clone())
            .headers(headers)
            .body(body);
        request
            .send()
            .await
            .map_err(|error| AttemptError::of(&error))
    }

    fn client(&self, url: &Url) -> Result<&Client, AttemptError> {
        let is_https = url.scheme() == "https";
        let slot = if is_https { &self.https } else { &self.http };
        if let Some(client) = slot.get() {
            return Ok(client);
        }

        let client = with_tls(is_https)?
            .dns_resolver(self.lookup)
            .http1_only()
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            // A proxy would connect to addresses that nothing has checked.
            .no_proxy()
            // The response is recorded as it is.
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            .connect_timeout(CONNECT_TIMEOUT)
            // Shorter than the five seconds after which many servers close idle connections.
            .pool_idle_timeout(Duration::from_secs(4))
            .pool_max_idle_per_host(32)
            .build()
            .map_err(|error| AttemptError::of(&error))?;
        Ok(slot.get_or_init(|| client))
    }
}

/// A builder of a client that trusts the certificates of the platform if it `is_https`.
#[cfg(any(feature = "rustls", feature = "rustls-ring"))]
fn with_tls(is_https: bool) -> Result<reqwest::ClientBuilder, AttemptError> {
    let config = tls::config(is_https).map_err(|error| AttemptError::Tls(error.to_string()))?;
    Ok(Client::builder().tls_backend_preconfigured(config))
}

/// Without TLS of this crate's own, its HTTP client may have none.
#[cfg(not(any(feature = "rustls", feature = "rustls-ring")))]
fn with_tls(is_https: bool) -> Result<reqwest::ClientBuilder, AttemptError> {
    if is_https {
        return Err(AttemptError::Tls(tls::NO_PROVIDER.to_owned()));
    }
    Ok(Client::builder())
}

/// Resolves host names to the addresses that webhooks may reach.
#[derive(Clone, Copy)]
struct Lookup {
    network: Network,
    /// Asked instead of those of the system.
    server: Option<SocketAddr>,
}

impl Resolve for Lookup {
    fn resolve(&self, name: Name) -> Resolving {
        let Self { network, server } = *self;
        Box::pin(async move {
            let found = name_servers::addresses(server, name.as_str()).await;
            let found = found.map_err(|_| AttemptError::Unresolved)?;
            let mut allowed = Vec::new();
            let mut refused = AttemptError::Unresolved;
            for address in found {
                match target::check(network, address) {
                    Ok(()) => allowed.push(SocketAddr::new(address, 0)),
                    Err(reason) => refused = reason.into(),
                }
            }
            if allowed.is_empty() {
                Err(refused.into())
            } else {
                Ok(Box::new(allowed.into_iter()) as Addrs)
            }
        })
    }
}

/// Response of the receiver. It has no `Debug`: responses are user data.
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    /// The first 4 KiB of the body.
    pub(crate) body: Bytes,
}

/// Why there was no response. Messages do not contain the URL, because its path may be
/// secret.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum AttemptError {
    #[error("the URL cannot be used for a request")]
    InvalidUrl,
    #[error("{0}")]
    Refused(#[from] RefusedTarget),
    #[error("the host name could not be resolved")]
    Unresolved,
    #[error("cannot connect: {0}")]
    NoConnection(io::ErrorKind),
    #[error("the TLS handshake failed: {0}")]
    Tls(String),
    #[error("no complete response within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("the connection was closed before the response was complete")]
    Interrupted,
    #[error("the response was not HTTP")]
    NotHttp,
}

impl AttemptError {
    fn of(error: &reqwest::Error) -> Self {
        for cause in causes(error) {
            if let Some(own) = cause.downcast_ref::<Self>() {
                return own.clone();
            }
            if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
                return Self::Tls(tls.to_string());
            }
            if cause.downcast_ref().is_some_and(hyper::Error::is_parse) {
                return Self::NotHttp;
            }
        }

        if error.is_builder() {
            return Self::InvalidUrl;
        }
        if !error.is_connect() {
            return Self::Interrupted;
        }

        let io = causes(error)
            .filter_map(|cause| cause.downcast_ref::<io::Error>())
            .last();
        Self::NoConnection(match io {
            _ if error.is_timeout() => io::ErrorKind::TimedOut,
            Some(io) => io.kind(),
            None => io::ErrorKind::Other,
        })
    }
}

fn causes<'a>(error: &'a reqwest::Error) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(error.source(), |&error| {
        // An I/O error does not return its inner error from `source`.
        match error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(inner) => Some(inner as &(dyn StdError + 'static)),
            None => error.source(),
        }
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinHandle;

    use super::*;

    /// A server that reads one request, responds with `response`, and then closes the
    /// connection unless `hold` is set.
    async fn receiver(response: &'static [u8], hold: bool) -> (Url, JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!(
            "http://{}/hook?x=1",
            listener.local_addr().expect("an address")
        );
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

    async fn post(url: &Url, network: Network) -> Result<Response, AttemptError> {
        post_within(ATTEMPT_TIMEOUT, url, network).await
    }

    async fn post_within(
        timeout: Duration,
        url: &Url,
        network: Network,
    ) -> Result<Response, AttemptError> {
        let mut outbound = Outbound::new(network, None);
        outbound.timeout = timeout;
        outbound
            .post(url, headers(), Bytes::from_static(b"{\"a\": 1}"))
            .await
    }

    #[tokio::test]
    async fn posts_the_exact_bytes_and_headers() {
        let response = b"HTTP/1.1 204 No Content\r\n\r\n";
        let (url, seen) = receiver(response, false).await;
        let status = post(&url, Network::Loopback)
            .await
            .map(|response| response.status);
        assert!(matches!(status, Ok(StatusCode::NO_CONTENT)), "{status:?}");
        let request = String::from_utf8(seen.await.expect("seen")).expect("text");
        let (head, body) = request.split_once("\r\n\r\n").expect("a body");
        assert_eq!(body, "{\"a\": 1}");
        assert!(head.starts_with("POST /hook?x=1 HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("mail-event: email.sent\r\n"), "{head}");
        assert!(head.contains("content-length: 8"), "{head}");
        assert!(
            head.contains(&format!("host: {}", url.authority())),
            "{head}"
        );
    }

    #[tokio::test]
    async fn redirects_are_failures_and_not_followed() {
        let response =
            b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 2\r\n\r\nno";
        let (url, _seen) = receiver(response, false).await;
        let response = post(&url, Network::Loopback).await.expect("a response");
        assert_eq!(
            (response.status, &response.body[..]),
            (StatusCode::FOUND, &b"no"[..])
        );
    }

    #[tokio::test]
    async fn long_responses_are_truncated() {
        let body = "x".repeat(10_000);
        let response = format!("HTTP/1.1 500 No\r\ncontent-length: 10000\r\n\r\n{body}");
        let (url, _seen) = receiver(response.leak().as_bytes(), false).await;
        let response = post(&url, Network::Loopback).await.expect("a response");
        assert_eq!(response.body.len(), 4096);
    }

    #[tokio::test]
    async fn the_time_out_covers_everything_up_to_the_status() {
        let slow: [&[u8]; 2] = [b"", b"HTTP/1.1 2"];
        for response in slow {
            let (url, _seen) = receiver(response, true).await;
            let limit = Duration::from_millis(300);
            let started = std::time::Instant::now();
            let error = post_within(limit, &url, Network::Loopback).await.err();
            assert!(
                matches!(error, Some(AttemptError::TimedOut(_))),
                "{error:?}"
            );
            assert!(started.elapsed() >= limit);
        }
        assert_eq!(
            AttemptError::TimedOut(ATTEMPT_TIMEOUT).to_string(),
            "no complete response within 10 s"
        );
    }

    #[tokio::test]
    async fn a_status_counts_whatever_becomes_of_the_body() {
        for hold in [false, true] {
            let response = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx";
            let (url, _seen) = receiver(response, hold).await;
            let limit = Duration::from_millis(300);
            let response = post_within(limit, &url, Network::Loopback).await;
            let response = response.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(
                (response.status, &response.body[..]),
                (StatusCode::OK, &b"x"[..])
            );
        }
    }

    #[tokio::test]
    async fn errors_name_the_cause() {
        let message = |outcome: Result<_, AttemptError>| match outcome {
            Ok(Response { status, .. }) => panic!("a response with the status {status}"),
            Err(error) => error.to_string(),
        };

        let broken = "the connection was closed before the response was complete";
        let (url, _seen) = receiver(b"", false).await;
        assert_eq!(message(post(&url, Network::Loopback).await), broken);
        let (url, _seen) = receiver(b"SSH-2.0-x\r\n\r\n", false).await;
        let message_ = message(post(&url, Network::Loopback).await);
        assert_eq!(message_, "the response was not HTTP");

        let free = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/secret", free.local_addr().expect("an address"));
        drop(free);
        let refused = message(post(&Url::parse(&url).expect("a URL"), Network::Loopback).await);
        assert_eq!(refused, "cannot connect: connection refused");

        let plain = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://{}/", plain.local_addr().expect("an address"));
        tokio::spawn(async move {
            let (mut stream, _) = plain.accept().await.expect("a connection");
            stream
                .write_all(b"plain text, no TLS")
                .await
                .expect("written");
            // Read until the client closes, because unread bytes would cause a reset.
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        });
        let failed = message(post(&Url::parse(&url).expect("a URL"), Network::Loopback).await);
        assert!(failed.starts_with("the TLS handshake failed: "), "{failed}");

        let unknown = Url::parse("http://no-such-host.invalid/").expect("a URL");
        let error = post(&unknown, Network::Loopback).await.err();
        assert!(
            matches!(
                error,
                Some(AttemptError::Unresolved | AttemptError::TimedOut(_))
            ),
            "{error:?}"
        );
    }

    #[tokio::test]
    async fn private_addresses_are_refused_by_name() {
        for (url, reason) in [
            (
                "http://127.0.0.1:9/",
                "127.0.0.1 is a loopback address (127.0.0.0/8); ",
            ),
            (
                "http://[::ffff:127.0.0.1]:9/",
                "::ffff:127.0.0.1 is a loopback address (127.0.0.0/8); ",
            ),
            (
                "http://localhost:9/",
                "127.0.0.1 is a loopback address (127.0.0.0/8); ",
            ),
        ] {
            let outcome = post(&Url::parse(url).expect("a URL"), Network::Public).await;
            let error = outcome.err().expect("refused").to_string();
            assert!(
                error.starts_with(reason) || error.starts_with("::1 is a loopback"),
                "{error}"
            );
        }

        let url = Url::parse("http://169.254.169.254/latest/meta-data").expect("a URL");
        let error = post(&url, Network::Loopback)
            .await
            .err()
            .expect("refused")
            .to_string();
        assert_eq!(
            error,
            "169.254.169.254 is a link-local address (169.254.0.0/16); with --network loopback, \
             webhooks do not reach it"
        );
    }

    #[tokio::test]
    async fn url_credentials_are_sent_as_a_header() {
        let (mut url, seen) =
            receiver(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", false).await;
        url.set_username("ada").expect("a user");
        url.set_password(Some("p%40ss")).expect("a password");
        assert!(post(&url, Network::Loopback).await.is_ok());
        let request = String::from_utf8(seen.await.expect("seen")).expect("text");
        assert!(
            request.contains("authorization: Basic YWRhOnBAc3M=\r\n"),
            "{request}"
        );
        assert!(!request.contains("p%40ss"), "{request}");
    }
}
