//! Posts webhook deliveries to an application: the exact bytes, without following redirects, and
//! without retrying a delivery that may have arrived. Each delivery opens a new connection, because
//! a pooled one may be stale after the application restarts.

use std::error::Error as StdError;
use std::io;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt as _, Limited};
use reqwest::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Body, Certificate, Client, ClientBuilder, Response, redirect, retry};
use serde_json::{Value, json};
use svc_sdk::{Dialect, Outcome, Point, Service};
use tokio::time::timeout;
use url::Url;
use webhook_verify::Secret;

use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::signing;
use crate::urls::without_password;

/// How long a service waits for an endpoint's response: the email service's documented limit
/// (`docs/email-service/README.md#limits`). The reference of the extraction service names none, so the
/// same is assumed (`docs/undocumented/services.md#the-extraction-service`).
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of a response body, in bytes.
const MAX_RESPONSE_SIZE: usize = 64 << 20;

/// A webhook delivery: the request to post, and the URL to post it to.
#[derive(Clone)]
pub struct Delivery {
    pub url: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Delivery {
    /// A delivery with those of the headers that are valid and describe the message rather than a
    /// connection.
    pub fn new<N: AsRef<str>, V: AsRef<[u8]>>(
        url: &str,
        headers: impl IntoIterator<Item = (N, V)>,
        body: impl Into<Bytes>,
    ) -> Self {
        let header = |(name, value): (N, V)| {
            let name = HeaderName::try_from(name.as_ref()).ok()?;
            Some((name, HeaderValue::from_bytes(value.as_ref()).ok()?))
        };

        let mut map = HeaderMap::new();
        for (name, value) in headers.into_iter().filter_map(header) {
            map.append(name, value);
        }

        remove_hop_by_hop(&mut map);
        Self {
            url: url.to_owned(),
            headers: map,
            body: body.into(),
        }
    }

    /// The delivery as `--dry-run` shows it.
    pub fn to_json(&self) -> Value {
        let mut headers = serde_json::Map::new();
        for name in self.headers.keys() {
            let values = self.headers.get_all(name).iter();
            let values = values.map(|value| String::from_utf8_lossy(value.as_bytes()).into());
            let value = match values.collect::<Vec<Value>>() {
                mut one if one.len() == 1 => one.remove(0),
                several => several.into(),
            };
            headers.insert(name.to_string(), value);
        }

        let body = serde_json::from_slice::<Value>(&self.body)
            .unwrap_or_else(|_| json!({"base64": STANDARD.encode(&self.body)}));
        let url = without_password(&self.url);
        json!({"method": "POST", "url": url, "headers": headers, "body": body})
    }

    /// [`restrict`](Self::restrict), if there is a recipient guard.
    pub fn check_guard(&mut self, context: &Context) -> Result<(), Failure> {
        if context.settings.guard.for_run()?.is_none() {
            return Ok(());
        }
        self.restrict(context.clients.dialect())
            .map_err(stopped_by_guard)
    }

    /// Under a recipient guard, only events go out, with their own headers: another header could make
    /// a request to send an email of it. Returns what the guard has against the delivery.
    pub fn restrict(&mut self, dialect: &Dialect) -> Result<(), &'static str> {
        let has_credentials = [AUTHORIZATION, COOKIE]
            .iter()
            .any(|name| self.headers.contains_key(name));
        if has_credentials || has_user_or_query(&self.url) {
            return Err(NO_CREDENTIALS);
        }
        if !is_event(&self.body) {
            return Err(
                "the body is not an event: an object with `event`, `id`, `created` and `data` alone",
            );
        }

        let event_header = dialect.choice(Point::EventHeader);
        let mut kept = HeaderMap::new();
        for (name, value) in &self.headers {
            let name_of_event = name.as_str().eq_ignore_ascii_case(event_header);
            if name_of_event || EVENT_HEADERS.contains(&name.as_str()) {
                kept.append(name, value.clone());
            }
        }

        self.headers = kept;
        Ok(())
    }

    /// Signs the body, in place of an existing signature.
    pub fn sign(&mut self, service: Service, secret: &Secret) {
        let (name, value) = signing::sign(service, secret, &self.body);
        // Signatures are hex digits.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            self.headers.insert(name, value);
        }
    }
}

const NO_CREDENTIALS: &str = "no credentials, and no query in the URL, may be sent with an event";

/// Under a recipient guard, refuses a URL with credentials or a query, before anything is received or
/// made for it.
pub fn check_guarded_url(context: &Context, url: &str) -> Result<(), Failure> {
    if context.settings.guard.for_run()?.is_some() && has_user_or_query(url) {
        Err(stopped_by_guard(NO_CREDENTIALS))
    } else {
        Ok(())
    }
}

fn has_user_or_query(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| {
        !url.username().is_empty() || url.password().is_some() || url.query().is_some()
    })
}

fn stopped_by_guard(problem: &str) -> Failure {
    Failure::input(format!("stopped by the recipient guard: {problem}"))
        .code("recipient_guard")
        .hint("send emails with svc emails send; the guard: svc config show")
}

/// The headers of an event and of its body, in lower case.
const EVENT_HEADERS: [&str; 11] = [
    "accept",
    "content-type",
    "mail-attempt",
    "mail-delivery-id",
    "mail-event",
    "mail-signature",
    "traceparent",
    "tracestate",
    "user-agent",
    "x-service-event",
    "x-service-signature",
];

/// Whether a body has the form of an event of the services, and no other fields.
fn is_event(body: &[u8]) -> bool {
    let Ok(Value::Object(fields)) = serde_json::from_slice(body) else {
        return false;
    };
    let known = ["event", "id", "created", "data"];
    let is_known = |name: &String| known.contains(&name.as_str());
    fields.get("event").is_some_and(Value::is_string) && fields.keys().all(is_known)
}

/// Removes the headers that describe one connection (RFC 9110, section 7.6.1).
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    for name in [
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
    ] {
        headers.remove(name);
    }
}

/// The application's response.
pub struct DeliveryResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub duration: Duration,
}

impl DeliveryResponse {
    /// Fails unless the status is 2xx.
    pub fn verdict(&self) -> Result<(), Failure> {
        if (200..300).contains(&self.status) {
            return Ok(());
        }

        let body = String::from_utf8_lossy(&self.body);
        let line = body
            .lines()
            .next()
            .unwrap_or_default()
            .chars()
            .take(200)
            .collect::<String>();
        let failure = Failure::check(format!(
            "the application responded with {}, which is not 2xx",
            self.status
        ))
        .code("endpoint_answered_error");
        Err(match (line.is_empty(), self.status) {
            (false, _) => failure.hint(format!("response body: {line}")),
            (true, 401) => failure.hint(
                "give the application's signing secret with --secret-file, or give the application \
                 the secret of this profile: svc listen --print-secret",
            ),
            (true, _) => failure,
        })
    }
}

/// Why a delivery got no response.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// No connection: nothing was sent, so a retry cannot deliver twice.
    #[error("cannot connect to the application: {0}")]
    NotSent(String),
    /// The TLS handshake failed: nothing was sent, and a retry would fail as well.
    #[error("cannot establish a TLS connection to the application: {0}")]
    NotTrusted(String),
    /// No response in time. The delivery may have arrived.
    #[error("the application did not respond within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The connection broke. The delivery may have arrived.
    #[error("the application closed the connection without a full response: {0}")]
    BrokenOff(String),
}

impl DeliveryError {
    fn of(error: &reqwest::Error) -> Self {
        let causes = causes(error);
        let why = causes.last().map(ToString::to_string).unwrap_or_default();
        if error.is_builder() {
            return Self::NotSent("the URL is invalid".to_owned());
        }
        if !error.is_connect() {
            return Self::BrokenOff(why);
        }
        if causes.iter().any(|cause| cause.is::<rustls::Error>()) {
            return Self::NotTrusted(why);
        }

        Self::NotSent(why)
    }

    /// The error, and the next step if it is about a certificate.
    pub fn explained(&self) -> String {
        match self {
            Self::NotTrusted(why) => format!("{self}; {}", trust_hint(why)),
            _ => self.to_string(),
        }
    }

    /// Whether certainly nothing was sent.
    pub fn is_unsent(&self) -> bool {
        matches!(self, Self::NotSent(_) | Self::NotTrusted(_))
    }
}

impl From<DeliveryError> for Failure {
    fn from(error: DeliveryError) -> Self {
        let (code, hint) = match &error {
            DeliveryError::NotSent(_) => (
                "endpoint_unreachable",
                "check that the application is running",
            ),
            DeliveryError::NotTrusted(why) => ("endpoint_not_trusted", trust_hint(why)),
            DeliveryError::TimedOut(_) => (
                "endpoint_timed_out",
                "respond immediately, and do the work afterwards",
            ),
            DeliveryError::BrokenOff(_) => ("endpoint_broke_off", "check the application's log"),
        };
        if !error.is_unsent() {
            return Self::new(Kind::OutcomeUnknown, error.to_string())
                .code(code)
                .hint(hint);
        }

        let mut failure = Self::new(Kind::Unavailable, error.to_string())
            .code(code)
            .hint(hint);
        failure.outcome = Some(Outcome::NotSent.as_str());
        failure
    }
}

/// The causes of an error, the innermost last.
fn causes(error: &reqwest::Error) -> Vec<&(dyn StdError + 'static)> {
    let causes = std::iter::successors(error.source(), |&error| {
        // An I/O error does not return its inner error from `source`.
        match error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(inner) => Some(inner as &(dyn StdError + 'static)),
            None => error.source(),
        }
    });
    causes.collect()
}

/// The next step after an error of rustls, by its name.
fn trust_hint(why: &str) -> &'static str {
    match why {
        _ if why.contains("InvalidContentType") => {
            "the application responds without TLS: use a URL that begins with http:"
        }
        _ if why.contains("CaUsedAsEndEntity") => {
            "its certificate is one of an authority: create it with `openssl req -x509 -addext \
             basicConstraints=critical,CA:FALSE …`, and pass it with --ca-bundle"
        }
        _ => "if the application has its own certificate, pass it with --ca-bundle",
    }
}

/// Posts deliveries, over HTTP/1.1, or over HTTP/2 to an application that has only that.
pub struct Deliverer {
    http1: Client,
    http2: Client,
}

/// Which certificates are trusted.
enum Trust {
    /// None, for http only, so that the platform's certificates are not read, which takes
    /// milliseconds.
    NotNeeded,
    /// The platform's, and those of this PEM file.
    And(Vec<u8>),
    /// Any.
    Any,
}

impl Deliverer {
    /// A deliverer for these URLs, which trusts the platform's certificates and those of
    /// `--ca-bundle`.
    pub fn to<'a>(
        context: &Context,
        urls: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, Failure> {
        let trust = if urls.into_iter().any(|url| url.starts_with("https:")) {
            Trust::And(context.clients.ca_bundle()?.unwrap_or_default())
        } else {
            Trust::NotNeeded
        };
        Self::trusting(&trust)
    }

    /// A deliverer to this machine, whatever the certificates of its applications are.
    pub fn without_verification() -> Result<Self, Failure> {
        Self::trusting(&Trust::Any)
    }

    /// A deliverer for http only.
    #[cfg(test)]
    pub fn for_http() -> Result<Self, Failure> {
        Self::trusting(&Trust::NotNeeded)
    }

    fn trusting(trust: &Trust) -> Result<Self, Failure> {
        // It fails if there is one already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Self {
            http1: client(Client::builder().http1_only(), trust)?,
            http2: client(Client::builder().http2_prior_knowledge(), trust)?,
        })
    }

    /// Posts a delivery. A response of any status is `Ok`.
    pub async fn post(
        &self,
        delivery: &Delivery,
        within: Duration,
    ) -> Result<DeliveryResponse, DeliveryError> {
        let started = Instant::now();
        let exchange = async {
            let response = match begin(&self.http1, delivery).await {
                Err(error) if speaks_only_http2(&error) => begin(&self.http2, delivery).await,
                response => response,
            };
            let response = response.map_err(|error| DeliveryError::of(&error))?;
            let status = response.status().as_u16();
            let headers = response.headers().clone();
            let body = Limited::new(Body::from(response), MAX_RESPONSE_SIZE)
                .collect()
                .await;
            let body = body.map_err(|error| DeliveryError::BrokenOff(error.to_string()))?;
            let body = body.to_bytes();
            let duration = started.elapsed();
            Ok(DeliveryResponse {
                status,
                headers,
                body,
                duration,
            })
        };
        timeout(within, exchange)
            .await
            .map_err(|_| DeliveryError::TimedOut(within))?
    }
}

fn client(builder: ClientBuilder, trust: &Trust) -> Result<Client, Failure> {
    let builder = builder
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .no_proxy()
        .pool_max_idle_per_host(0)
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate();
    let builder = match trust {
        Trust::NotNeeded => builder.tls_certs_only([]),
        Trust::Any => builder
            .tls_certs_only([])
            .tls_danger_accept_invalid_certs(true),
        Trust::And(pem) => {
            builder.tls_certs_merge(Certificate::from_pem_bundle(pem).map_err(|_| {
                Failure::input("--ca-bundle: the file contains an invalid certificate")
            })?)
        }
    };
    builder
        .build()
        .map_err(|error| Failure::other(format!("cannot set up TLS: {error}")))
}

/// Sends a delivery, up to the head of the response.
async fn begin(client: &Client, delivery: &Delivery) -> Result<Response, reqwest::Error> {
    let request = client.post(&delivery.url).headers(delivery.headers.clone());
    request.body(delivery.body.clone()).send().await
}

/// Whether an application has refused HTTP/1.1, so that it has processed nothing: its first bytes are
/// those of HTTP/2, or its TLS demands that.
fn speaks_only_http2(error: &reqwest::Error) -> bool {
    causes(error).into_iter().any(|cause| {
        let http = cause.downcast_ref::<hyper::Error>();
        let is_http2 = http.is_some_and(|error| {
            error.is_parse() || error.to_string().contains("unexpected message")
        });
        let tls = cause.downcast_ref::<rustls::Error>();
        is_http2
            || matches!(
                tls,
                Some(rustls::Error::AlertReceived(
                    rustls::AlertDescription::NoApplicationProtocol
                ))
            )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_a_connection_are_left_out_and_bytes_kept() {
        let headers = [
            ("Host", &b"elsewhere"[..]),
            ("content-length", b"999"),
            ("x-mine", b"k\xe9pt"),
        ];
        let delivery = Delivery::new("http://me:pw@localhost:3000/a?c=d", headers, "{}");
        assert_eq!(delivery.headers.len(), 1);
        assert_eq!(delivery.headers["x-mine"].as_bytes(), b"k\xe9pt");
        assert_eq!(
            delivery.to_json()["url"],
            "http://me:***@localhost:3000/a?c=d"
        );
        let delivery = Delivery::new("http://x.test", [("a", "1"), ("b", "2"), ("A", "3")], "{}");
        assert_eq!(
            delivery.to_json()["headers"],
            json!({"a": ["1", "3"], "b": "2"})
        );
    }
}
