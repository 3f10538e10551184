//! `Exam` makes the requests of a `Check` and sends them; `Finding` is what a check found. Each
//! request has an ID of its own, because a receiver may accept one that it knows, however it is
//! signed. A request that cannot be sent is an error; any other end is `Received`, which only says
//! what came back. `judge.rs` turns that into a `Grade`.

use std::fmt;
use std::time::Duration;

use chrono::{SecondsFormat, TimeDelta, Utc};
use hyper::body::Bytes;
use hyper::header::LOCATION;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use svc_sdk::Service;
use uuid::Uuid;

use super::checks::{Body, Check, Key, Variant};
use crate::deliver::{Deliverer, Delivery, DeliveryError, DeliveryResponse};
use crate::diagnose::spaced;
use crate::events;
use crate::signing::{scheme, tag};

/// The examination of one receiver.
pub(super) struct Exam {
    pub(super) service: Service,
    pub(super) url: String,
    pub(super) secret: Vec<u8>,
    pub(super) deliverer: Deliverer,
    /// How long to wait for a response.
    pub(super) timeout: Duration,
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
    /// The requests of a check. Their user agent names it, for the receiver's log.
    pub(super) fn requests(&self, check: &Check) -> Vec<Request> {
        let of_variant = |variant: &Variant| match variant.body {
            Body::EachEvent => {
                let events =
                    events::names().filter(|event| events::service_of(event) == self.service);
                events
                    .map(|event| self.request(check, variant, event))
                    .collect()
            }
            _ => vec![self.request(check, variant, self.event())],
        };
        check.variants.iter().flat_map(of_variant).collect()
    }

    fn request(&self, check: &Check, variant: &Variant, event: &str) -> Request {
        let sample = events::sample(event);
        let body = self.bytes(variant.body, &sample);
        let signed = match variant.signed {
            Some(signed) => self.bytes(signed, &sample),
            None => body.clone(),
        };
        let key = match variant.key {
            Key::Secret => self.secret.clone(),
            Key::Random => Uuid::new_v4().into_bytes().to_vec(),
            Key::Empty => Vec::new(),
        };
        let digits = hex::encode(tag(&key, &signed));
        let prefix = match self.service {
            Service::Email => "",
            _ => "sha256=",
        };
        let signatures = variant.signatures.iter().map(|template| {
            let value = template
                .replace("{prefix}", prefix)
                .replace("{digits}", &digits);
            let value = value
                .replace("{8}", &digits[..8])
                .replace("{32}", &digits[..32]);
            let value = value
                .replace("{63}", &digits[..63])
                .replace("{zeros}", &"0".repeat(64));
            let value = value.replace("{DIGITS}", &digits.to_uppercase());
            (scheme(self.service).signature_header(), value)
        });
        let value = self.value(variant.body, &sample);
        let mut headers = events::headers(self.service, &value);
        headers[1].1 += &format!(" (certify {})", check.name);
        let name = if variant.body == Body::EachEvent {
            event
        } else {
            variant.name
        };
        Request {
            name: name.to_owned(),
            id: value["id"].as_str().unwrap_or_default().to_owned(),
            digits: hex::encode(tag(&self.secret, &body)),
            delivery: Delivery::new(&self.url, headers.into_iter().chain(signatures), body),
        }
    }

    /// The event of deliveries for which any will do.
    fn event(&self) -> &'static str {
        match self.service {
            Service::Email => "email.sent",
            _ => "extraction.completed",
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
            text.bytes()
                .map(|byte| if byte == b'~' { 0xE9 } else { byte })
                .collect()
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

    /// Fails if no connection is possible.
    pub(super) async fn send(&self, request: &Request) -> Result<Received, DeliveryError> {
        match self.deliverer.post(&request.delivery, self.timeout).await {
            Err(error) if error.is_unsent() => Err(error),
            received => Ok(Received(received)),
        }
    }
}

/// The finding of a check.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) result: Grade,
    /// The receiver's answer, or why the check could not tell.
    pub(super) received: String,
    /// The request's body, if the check was not passed.
    pub(super) body: Option<Bytes>,
}

impl Finding {
    pub(super) fn new(result: Grade, received: impl fmt::Display) -> Self {
        Self {
            result,
            received: received.to_string(),
            body: None,
        }
    }

    pub(super) fn failed(received: impl fmt::Display, request: &Request) -> Self {
        Self {
            body: Some(request.delivery.body.clone()),
            ..Self::new(Grade::Failed, received)
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Grade {
    Passed,
    Failed,
    Advice,
    Skipped,
}

/// The receiver's response to a request.
pub(super) struct Received(pub(super) Result<DeliveryResponse, DeliveryError>);

impl Received {
    /// Whether the service would regard the delivery as accepted: a 2xx response.
    pub(super) fn is_accepted(&self) -> bool {
        self.status()
            .is_some_and(|status| (200..300).contains(&status))
    }

    pub(super) fn status(&self) -> Option<u16> {
        self.0.as_ref().ok().map(|response| response.status)
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
            Err(_) => return f.write_str("the connection was closed"),
        };
        write!(f, "{}", response.status)?;
        let location = response
            .headers
            .get(LOCATION)
            .and_then(|value| value.to_str().ok());
        match (response.status, location) {
            (300..400, Some(to)) => write!(f, " to {to}; the services follow no redirect"),
            _ => Ok(()),
        }
    }
}
