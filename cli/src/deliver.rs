//! Delivering webhooks to an application: exact bytes, no redirects, no retries
//! of what may have arrived.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use svc_sdk::Service;
use webhook_verify::{Extraction, ExtractionSigner, Mail, MailSigner, Scheme as _, Secret};

use crate::failure::{Failure, Kind, with_causes};

/// The documents' limit of time for an endpoint's answer.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// One delivery: what is posted, and where to.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub url: String,
    /// Values hold a character for each byte.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// What the application answered.
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub duration: Duration,
}

/// Why there is no answer.
pub struct NoAnswer {
    /// Nothing was sent: trying again delivers nothing twice.
    pub certainly_not_sent: bool,
    pub message: String,
}

/// Posts deliveries over one pool of connections.
#[derive(Clone)]
pub struct Deliverer(reqwest::Client);

impl Deliverer {
    pub fn new() -> Result<Self, Failure> {
        // Another part of the program may have chosen one; ours is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            .build()
            .map(Self)
            .map_err(|error| Failure::other(with_causes(&error)))
    }

    /// Posts a delivery; the answer counts whatever its status is.
    pub async fn post(&self, delivery: &Delivery, within: Duration) -> Result<Answer, NoAnswer> {
        let started = Instant::now();
        let no_answer = |error: reqwest::Error| NoAnswer {
            certainly_not_sent: error.is_connect() || error.is_builder(),
            message: with_causes(&error.without_url()),
        };
        let response = self
            .0
            .post(&delivery.url)
            .headers(header_map(&delivery.headers))
            .body(delivery.body.clone())
            .timeout(within)
            .send()
            .await
            .map_err(no_answer)?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let body = response.bytes().await.map_err(no_answer)?.to_vec();
        Ok(Answer { status, headers, body, duration: started.elapsed() })
    }
}

impl Delivery {
    /// The delivery as `--dry-run` shows it.
    pub fn to_json(&self) -> Value {
        let headers = self
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
            .collect::<serde_json::Map<_, _>>();
        let body = serde_json::from_slice::<Value>(&self.body)
            .unwrap_or_else(|_| json!({"base64": STANDARD.encode(&self.body)}));
        json!({"method": "POST", "url": self.url, "headers": headers, "body": body})
    }

    /// Puts a new signature in place of an old one.
    pub fn sign(&mut self, service: Service, secret: &Secret) {
        let (name, value) = match service {
            Service::Email => {
                (Mail::SIGNATURE_HEADER, MailSigner::new(secret).sign(&self.body).to_string())
            }
            Service::Extraction => (
                Extraction::SIGNATURE_HEADER,
                ExtractionSigner::new(secret).sign(&self.body).to_string(),
            ),
        };
        self.headers.retain(|(header, _)| !header.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value));
    }
}

impl From<NoAnswer> for Failure {
    fn from(none: NoAnswer) -> Self {
        let kind = if none.certainly_not_sent { Kind::Unavailable } else { Kind::OutcomeUnknown };
        Self::new(kind, format!("the application did not answer: {}", none.message))
    }
}

/// An absolute http or https address.
pub fn check_url(option: &str, url: &str) -> Result<(), Failure> {
    let parsed = url::Url::parse(url);
    if parsed.is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host()) {
        return Ok(());
    }
    Err(Failure::usage(format!("{option}: `{url}` is no http or https address")))
}

/// Headers that belong to one connection and not to the message.
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

fn bytes(value: &str) -> Vec<u8> {
    value.chars().filter_map(|character| u8::try_from(character).ok()).collect()
}

fn header_map(headers: &[(String, String)]) -> HeaderMap {
    let pairs = headers.iter().filter(|(name, _)| !is_hop_by_hop(name));
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        // They came in over HTTP or are ours, so that they can go out again.
        if let (Ok(name), Ok(value)) =
            (HeaderName::try_from(name), HeaderValue::from_bytes(&bytes(value)))
        {
            map.append(name, value);
        }
    }
    map
}
