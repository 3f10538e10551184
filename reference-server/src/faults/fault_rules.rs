//! What a fault may be, and what it does to a request or to an SMTP session. `NewFault::check`
//! accepts a fault only if its fields can have their effect together. Then `delay`, `header_map`,
//! `content` and `reply` give the parts of that effect. Which fault a request or step triggers is
//! decided in `fault_rows.rs`; `fault_api.rs` applies it to HTTP, `smtp/session.rs` to SMTP.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use svc_sdk::Operation;

use crate::faults::fault_wire::{DropPoint, FRAMING, NewFault, SmtpStep, operation};
use crate::model::nearest::did_you_mean;
use crate::model::{Failure, Result, time};

impl NewFault {
    /// Returns an error if the fault cannot affect a request or a step as it says.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(name) = &self.operation {
            find_operation(name)?;
        }
        let is_http = self.smtp.is_none();
        let is_recipient = matches!(self.smtp, Some(SmtpStep::Rcpt | SmtpStep::Data));
        let is_sender = is_recipient || self.smtp == Some(SmtpStep::Mail);
        let is_greylist = self.greylist == Some(true);
        let codes = match (is_http, is_greylist) {
            (true, _) => 200..=599,
            (false, true) => 400..=499,
            (false, false) => 400..=599,
        };
        let is_line = |body: &Value| {
            body.as_str().is_some_and(|text| {
                !text.is_empty() && text.len() <= MAX_REPLY && !text.chars().any(char::is_control)
            })
        };

        let is_code = self.status.is_none_or(|code| codes.contains(&code));
        let is_whole = self.drop.is_some_and(|point| point != DropPoint::Midway);

        let mistakes = [
            ("times", self.times == Some(0), "must be at least 1"),
            (
                "share",
                self.share
                    .is_some_and(|share| !(share > 0.0 && share <= 1.0)),
                "must be above 0, and at most 1",
            ),
            ("to", is_http && self.to.is_some(), ONLY_SMTP),
            ("from", is_http && self.from.is_some(), ONLY_SMTP),
            ("greylist", is_http && self.greylist.is_some(), ONLY_SMTP),
            ("slow", is_http && self.slow.is_some(), ONLY_SMTP),
            ("operation", !is_http && self.operation.is_some(), NOT_SMTP),
            ("headers", !is_http && self.headers.is_some(), NOT_SMTP),
            (
                "drop",
                !is_http && self.drop == Some(DropPoint::Midway),
                "must be before or after with smtp",
            ),
            (
                "to",
                self.to.is_some() && !is_recipient,
                "goes with the steps rcpt and data",
            ),
            (
                "from",
                self.from.is_some() && !is_sender,
                "goes with the steps mail, rcpt and data",
            ),
            (
                "greylist",
                is_greylist && self.smtp != Some(SmtpStep::Rcpt),
                "goes with the step rcpt",
            ),
            (
                "status",
                !is_code,
                "must be from 200 to 599; with smtp from 400, and with greylist below 500",
            ),
            (
                "body",
                !is_http && !self.body.as_ref().is_none_or(is_line),
                "must be one line of at most 400 bytes with smtp",
            ),
            (
                "slow",
                self.slow == Some(true) && self.latency.is_none(),
                "requires latency",
            ),
            (
                "status",
                self.status.is_none() && (self.body.is_some() || self.headers.is_some()),
                "is required with body or headers",
            ),
            (
                "latency",
                self.latency.is_some() && self.delay().is_none(),
                "must be a duration of at most 10m, such as 250ms",
            ),
            (
                "drop",
                is_whole && self.status.is_some(),
                "must be midway with status: the connection is cut within that response",
            ),
            (
                "",
                self.status.is_none()
                    && self.drop.is_none()
                    && self.latency.is_none()
                    && !is_greylist,
                "must contain at least one of status, latency and drop",
            ),
        ];
        match mistakes.into_iter().find(|(_, is_made, _)| *is_made) {
            Some((field, _, message)) => Err(Failure::field(field, message)),
            None => self.header_map().map(drop),
        }
    }

    /// The reply to an SMTP client, if it is refused.
    pub(crate) fn reply(&self) -> Option<String> {
        let is_greylist = self.greylist == Some(true);
        let code = self.status.or(is_greylist.then_some(451))?;
        let text = match self.content() {
            Some(text) => text,
            None if is_greylist => "4.7.1 greylisted, try again later".to_owned(),
            None => format!("{}.3.0 refused by a fault of the sandbox", code / 100),
        };
        Some(format!("{code} {text}"))
    }

    /// How long a request waits before anything else.
    pub(crate) fn delay(&self) -> Option<Duration> {
        let delay = time::parse_duration(self.latency.as_deref()?)?;
        (delay <= MAX_LATENCY).then(|| Duration::from_millis(delay.unsigned_abs()))
    }

    /// The body of the response, unless it is the service's own.
    pub(crate) fn content(&self) -> Option<String> {
        match self.body.as_ref()? {
            Value::String(text) => Some(text.clone()),
            json => Some(json.to_string()),
        }
    }

    /// The headers of the response.
    pub(crate) fn header_map(&self) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        if self
            .headers
            .as_ref()
            .is_some_and(|headers| headers.len() > MAX_HEADERS)
        {
            return Err(Failure::field(
                "headers",
                format!("has more than {MAX_HEADERS} headers"),
            ));
        }

        if !matches!(self.body, None | Some(Value::String(_))) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        for (name, value) in self.headers.iter().flatten() {
            let name = HeaderName::try_from(name)
                .map_err(|_| Failure::field("headers", "contains an invalid header name"))?;
            let refuse = |message| Failure::field(format!("headers.{name}"), message);
            if FRAMING.contains(&name.as_str()) {
                return Err(refuse("cannot be set; the server manages it"));
            }
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                _ => return Err(refuse("must be a string")),
            };
            let value = HeaderValue::try_from(text);
            headers.insert(
                &name,
                value.map_err(|_| refuse("contains control characters"))?,
            );
        }
        Ok(headers)
    }
}

/// Like [`operation`]. The error for an unknown name suggests a known one.
pub(crate) fn find_operation(name: &str) -> Result<Operation> {
    operation(name).ok_or_else(|| {
        let known = did_you_mean(
            name,
            Operation::ALL.iter().map(|operation| operation.name()),
        );
        let message = "must be the name of a documented operation, such as emails.send";
        Failure::field("operation", format!("{message}{known}"))
    })
}

const ONLY_SMTP: &str = "requires smtp, the step of the session";
const NOT_SMTP: &str = "cannot be combined with smtp";

/// Maximum number of headers of a response.
const MAX_HEADERS: usize = 100;

/// Maximum size of the text of an SMTP reply, in bytes (RFC 5321 §4.5.3.1.5).
const MAX_REPLY: usize = 400;

/// Maximum latency, in milliseconds.
const MAX_LATENCY: i64 = 10 * 60_000;
