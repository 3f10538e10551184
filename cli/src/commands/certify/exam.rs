//! Sends the requests of a check and judges the responses.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use hyper::header::{LOCATION, RETRY_AFTER};
use svc_sdk::Service;
use tokio::time::Instant;

use super::request::{Request, Sender};
use crate::deliver::{Deliverer, DeliveryError, DeliveryResponse, RESPONSE_TIMEOUT};

/// How long a receiver may take until it accepts a repeated delivery.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);
/// Responses other than 503 with `Retry-After` after which no attempt is made any more. The email
/// service makes as many retries.
const MAX_ERRORS: u32 = 3;

/// The examination of one receiver.
pub(super) struct Exam {
    pub(super) sender: Sender,
    pub(super) deliverer: Deliverer,
    /// The longest time that the receiver took to accept a delivery.
    pub(super) slowest: Cell<Duration>,
    /// Whether any delivery was accepted.
    pub(super) has_accepted: Cell<bool>,
    /// Whether a connection failed.
    pub(super) is_lost: Cell<bool>,
}

/// The result of a check.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    /// What the receiver did.
    pub(super) received: String,
    /// A shell command that repeats the request.
    pub(super) reproduce: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    NotPassed,
    /// The check could not tell.
    Skipped,
}

/// What was received for a request.
pub(super) struct Received(pub(super) Result<DeliveryResponse, DeliveryError>);

impl Exam {
    pub(super) fn new(sender: Sender, deliverer: Deliverer) -> Self {
        Self {
            sender,
            deliverer,
            slowest: Cell::default(),
            has_accepted: Cell::default(),
            is_lost: Cell::default(),
        }
    }

    pub(super) fn service(&self) -> Service {
        self.sender.service
    }

    pub(super) async fn send(&self, check: &str, request: &Request) -> Received {
        self.send_within(check, request, RESPONSE_TIMEOUT).await
    }

    pub(super) async fn send_within(
        &self,
        check: &str,
        request: &Request,
        within: Duration,
    ) -> Received {
        let received =
            Received(self.deliverer.post(&self.sender.delivery(check, request), within).await);
        if let Received(Ok(response)) = &received
            && received.is_accepted()
        {
            self.slowest.set(self.slowest.get().max(response.duration));
            self.has_accepted.set(true);
        }
        if !received.is_connected() {
            self.is_lost.set(true);
        }
        received
    }

    /// Delivers until the receiver accepts, as a service does. Returns the last response if it
    /// never does.
    pub(super) async fn until_accepted(
        &self,
        check: &str,
        request: &Request,
    ) -> Result<Received, Received> {
        let deadline = Instant::now() + PATIENCE;
        let mut errors = 0;
        loop {
            let received = self.send(check, request).await;
            if received.is_accepted() {
                return Ok(received);
            }
            errors += u32::from(!received.asks_to_retry() && !received.timed_out());
            if errors == MAX_ERRORS || Instant::now() + PAUSE > deadline {
                return Err(received);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    pub(super) fn passed(&self, received: impl fmt::Display, request: &Request) -> Finding {
        self.finding(Verdict::Passed, received, request)
    }

    pub(super) fn not_passed(&self, received: impl fmt::Display, request: &Request) -> Finding {
        self.finding(Verdict::NotPassed, received, request)
    }

    fn finding(&self, verdict: Verdict, received: impl fmt::Display, request: &Request) -> Finding {
        let reproduce = Some(self.sender.command(request));
        Finding { verdict, received: received.to_string(), reproduce }
    }
}

impl Finding {
    pub(super) fn skipped(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Skipped, received: why.into(), reproduce: None }
    }

    /// Replaces the command that reproduces the finding.
    pub(super) fn reproduced_by(self, line: String) -> Self {
        Self { reproduce: Some(line), ..self }
    }
}

impl Received {
    /// Whether the service would regard the delivery as accepted: a 2xx response.
    pub(super) fn is_accepted(&self) -> bool {
        self.status().is_some_and(|status| (200..300).contains(&status))
    }

    /// Whether the delivery reached the receiver and was not accepted. A receiver that cannot be
    /// reached any more has refused nothing.
    pub(super) fn is_refused(&self) -> bool {
        self.is_connected() && !self.is_accepted()
    }

    pub(super) fn is_connected(&self) -> bool {
        !matches!(self.0, Err(DeliveryError::NotSent(_) | DeliveryError::NotTrusted(_)))
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
            Err(DeliveryError::NotSent(why) | DeliveryError::NotTrusted(why)) => {
                return write!(f, "no connection: {why}");
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_receiver_that_can_be_reached_refuses() {
        let received = |error| Received(Err(error));
        assert!(received(DeliveryError::BrokenOff(String::new())).is_refused());
        assert!(received(DeliveryError::TimedOut(PAUSE)).is_refused());
        assert!(!received(DeliveryError::NotSent(String::new())).is_refused());
        assert!(!received(DeliveryError::NotTrusted(String::new())).is_refused());
    }
}
