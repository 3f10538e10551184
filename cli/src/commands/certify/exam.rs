//! Makes the requests of the checks, sends them and keeps what was found.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use chrono::{SecondsFormat, TimeDelta, Utc};
use hyper::body::Bytes;
use hyper::header::{LOCATION, RETRY_AFTER};
use serde_json::{Value, json};
use svc_sdk::Service;
use tokio::time::Instant;
use uuid::Uuid;

use super::checks::{Body, Check, Key, Variant};
use crate::deliver::{Deliverer, Delivery, DeliveryError, DeliveryResponse, RESPONSE_TIMEOUT};
use crate::diagnose::spaced;
use crate::events;
use crate::signing::{scheme, tag};

/// The examination of one receiver.
pub(super) struct Exam {
    pub(super) service: Service,
    pub(super) url: String,
    pub(super) secret: Vec<u8>,
    pub(super) old_secret: Option<Vec<u8>>,
    pub(super) deliverer: Deliverer,
    pub(super) timings: Timings,
    pub(super) seen: Seen,
}

/// How long the checks wait.
pub(super) struct Timings {
    /// For a response.
    pub(super) response: Duration,
    /// Half of the service's timeout.
    pub(super) slow: Duration,
    /// Until a repeated delivery is accepted, with a pause between two attempts.
    pub(super) patience: Duration,
    pub(super) pause: Duration,
}

impl Timings {
    pub(super) const REAL: Self = Self {
        response: RESPONSE_TIMEOUT,
        slow: Duration::from_secs(5),
        patience: Duration::from_secs(30),
        pause: Duration::from_secs(1),
    };
}

/// What was seen in all checks.
#[derive(Default)]
pub(super) struct Seen {
    /// The longest time that the receiver took to accept a delivery.
    pub(super) slowest: Cell<Duration>,
    pub(super) has_accepted: Cell<bool>,
    /// Why no connection was possible.
    pub(super) lost: RefCell<Option<DeliveryError>>,
}

/// A request of a check.
pub(super) struct Request {
    /// Tells it from the others of its check.
    pub(super) name: String,
    /// The id in the body. Each request has its own, because a receiver may respond with 2xx to one
    /// that it knows, however it is signed.
    pub(super) id: String,
    pub(super) delivery: Delivery,
    /// The digits of the correct signature.
    pub(super) digits: String,
}

impl Exam {
    /// The requests of a check, without those that the secret makes impossible. Their user agent
    /// names the check, for the receiver's log.
    pub(super) fn requests(&self, check: &Check) -> Vec<Request> {
        let of_variant = |variant: &Variant| match variant.body {
            Body::EachEvent => {
                let events =
                    events::names().filter(|event| events::service_of(event) == self.service);
                events.filter_map(|event| self.request(check, variant, event)).collect()
            }
            _ => Vec::from_iter(self.request(check, variant, self.event())),
        };
        check.variants.iter().flat_map(of_variant).collect()
    }

    fn request(&self, check: &Check, variant: &Variant, event: &str) -> Option<Request> {
        let sample = events::sample(event);
        let body = self.bytes(variant.body, &sample);
        let signed = match variant.signed {
            Some(signed) => self.bytes(signed, &sample),
            None => body.clone(),
        };
        let service = match (variant.is_other_service, self.service) {
            (false, service) => service,
            (true, Service::Email) => Service::Extraction,
            (true, _) => Service::Email,
        };
        let digits = hex::encode(tag(&self.key(variant.key)?, &signed));
        let (prefix, other) = match service {
            Service::Email => ("", "sha256="),
            _ => ("sha256=", ""),
        };
        let signatures = variant.signatures.iter().map(|template| {
            let value = template.replace("{prefix}", prefix).replace("{other}", other);
            let value = value.replace("{digits}", &digits).replace("{8}", &digits[..8]);
            let value = value.replace("{32}", &digits[..32]).replace("{63}", &digits[..63]);
            let value = value.replace("{DIGITS}", &digits.to_uppercase());
            (scheme(service).signature_header(), value.replace("{zeros}", &"0".repeat(64)))
        });
        let value = self.value(variant.body, &sample);
        let mut headers = events::headers(self.service, &value);
        headers[1].1 += &format!(" (certify {})", check.name);
        let name = if variant.body == Body::EachEvent { event } else { variant.name };
        Some(Request {
            name: name.to_owned(),
            id: value["id"].as_str().unwrap_or_default().to_owned(),
            digits: hex::encode(tag(&self.secret, &body)),
            delivery: Delivery::new(&self.url, headers.into_iter().chain(signatures), body),
        })
    }

    /// The event of deliveries for which any will do.
    fn event(&self) -> &'static str {
        match self.service {
            Service::Email => "email.sent",
            _ => "extraction.completed",
        }
    }

    fn key(&self, key: Key) -> Option<Vec<u8>> {
        let secret = self.secret.as_slice();
        let without_prefix = secret.splitn(2, |byte| *byte == b'_').nth(1);
        let digits = without_prefix.unwrap_or(secret);
        match key {
            Key::Secret => Some(secret.to_vec()),
            Key::OldSecret => self.old_secret.clone(),
            Key::Random => Some(Uuid::new_v4().to_string().into_bytes()),
            Key::Empty => Some(Vec::new()),
            Key::WithoutPrefix => without_prefix.map(<[u8]>::to_vec),
            Key::WithPrefix => Some([b"whsec_", secret].concat()),
            Key::InHex => Some(hex::encode(secret).into_bytes()),
            Key::FromHex => hex::decode(digits).ok(),
            Key::FromBase64 => {
                let text = String::from_utf8_lossy(digits);
                STANDARD_NO_PAD.decode(text.trim_end_matches('=')).ok()
            }
        }
    }

    fn value(&self, body: Body, sample: &Value) -> Value {
        let mut value = sample.clone();
        match body {
            Body::UnknownEvent => value["event"] = format!("{}.archived", self.service).into(),
            Body::UnknownField => {
                value["certify"] = json!({"nested": [1, null]});
                value["data"]["certify"] = true.into();
            }
            Body::NotUtf8 | Body::Decoded => value["data"]["note"] = "price: ~5".into(),
            Body::SortedKeys => value.sort_all_objects(),
            Body::Another => value = events::sample(self.event()),
            Body::Dated(days) => {
                let created = Utc::now() + TimeDelta::days(days);
                value["created"] = created.to_rfc3339_opts(SecondsFormat::Millis, true).into();
            }
            _ => {}
        }
        value
    }

    fn bytes(&self, body: Body, sample: &Value) -> Vec<u8> {
        let value = self.value(body, sample);
        let text = value.to_string();
        let latin1 = |text: String| {
            text.bytes().map(|byte| if byte == b'~' { 0xE9 } else { byte }).collect()
        };
        match body {
            Body::Formatted => format!("\n{value:#}\t").into_bytes(),
            Body::Spaced => spaced(&value).into_bytes(),
            Body::NotUtf8 => latin1(text),
            Body::Decoded => text.replace('~', "\u{FFFD}").into_bytes(),
            Body::Half => text.as_bytes()[..text.len() / 2].to_vec(),
            _ => text.into_bytes(),
        }
    }

    pub(super) async fn send(&self, request: &Request) -> Received {
        match self.deliverer.post(&request.delivery, self.timings.response).await {
            Ok(response) => {
                let received = Received(Ok(response));
                if let (true, Received(Ok(response))) = (received.is_accepted(), &received) {
                    let slowest = self.seen.slowest.get().max(response.duration);
                    self.seen.slowest.set(slowest);
                    self.seen.has_accepted.set(true);
                }
                received
            }
            Err(error) if error.is_unsent() => {
                let shown = error.to_string();
                self.seen.lost.replace(Some(error));
                Received(Err(DeliveryError::NotSent(shown)))
            }
            Err(error) => Received(Err(error)),
        }
    }

    /// Delivers until the receiver accepts, as a service does. Returns the last response if it
    /// never does.
    pub(super) async fn until_accepted(&self, request: &Request) -> Result<Received, Received> {
        /// Responses other than 503 with `Retry-After` after which no attempt is made any more.
        /// The email service makes as many retries.
        const MAX_ERRORS: u32 = 3;
        let deadline = Instant::now() + self.timings.patience;
        let mut errors = 0;
        loop {
            let received = self.send(request).await;
            if received.is_accepted() {
                return Ok(received);
            }
            errors += u32::from(!received.asks_to_retry() && !received.timed_out());
            if errors == MAX_ERRORS || Instant::now() + self.timings.pause > deadline {
                return Err(received);
            }
            tokio::time::sleep(self.timings.pause).await;
        }
    }
}

/// What a check found: what the receiver did.
#[derive(Debug)]
pub(super) enum Finding {
    Passed(String),
    /// With the body of the request.
    NotPassed(String, Bytes),
    /// The check could not tell.
    Skipped(String),
}

impl Finding {
    pub(super) fn passed(received: impl fmt::Display) -> Self {
        Self::Passed(received.to_string())
    }

    pub(super) fn not_passed(received: impl fmt::Display, request: &Request) -> Self {
        Self::NotPassed(received.to_string(), request.delivery.body.clone())
    }

    pub(super) fn skipped(why: impl fmt::Display) -> Self {
        Self::Skipped(why.to_string())
    }
}

/// What was received for a request.
pub(super) struct Received(pub(super) Result<DeliveryResponse, DeliveryError>);

impl Received {
    /// Whether the service would regard the delivery as accepted: a 2xx response.
    pub(super) fn is_accepted(&self) -> bool {
        self.status().is_some_and(|status| (200..300).contains(&status))
    }

    /// Whether the delivery reached the receiver and was not accepted. A receiver that cannot be
    /// reached any more has refused nothing.
    pub(super) fn is_refused(&self) -> bool {
        !self.0.as_ref().is_err_and(DeliveryError::is_unsent) && !self.is_accepted()
    }

    pub(super) fn status(&self) -> Option<u16> {
        self.0.as_ref().ok().map(|response| response.status)
    }

    /// Whether the response is 503 with `Retry-After`.
    pub(super) fn asks_to_retry(&self) -> bool {
        self.0.as_ref().is_ok_and(|response| {
            response.status == 503 && response.headers.contains_key(RETRY_AFTER)
        })
    }

    pub(super) fn timed_out(&self) -> bool {
        matches!(self.0, Err(DeliveryError::TimedOut(_)))
    }
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let response = match &self.0 {
            Ok(response) => response,
            Err(DeliveryError::TimedOut(limit)) => {
                return write!(f, "no response within {} s", limit.as_secs_f64());
            }
            Err(DeliveryError::BrokenOff(_)) => return f.write_str("the connection was closed"),
            Err(unsent) => return unsent.fmt(f),
        };
        write!(f, "{}", response.status)?;
        let location = response.headers.get(LOCATION).and_then(|value| value.to_str().ok());
        match (response.status, location) {
            (300..400, Some(to)) => write!(f, " to {to}; the services follow no redirect"),
            (503, _) if !self.asks_to_retry() => f.write_str(" without Retry-After"),
            _ => Ok(()),
        }
    }
}
