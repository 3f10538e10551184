//! The loop of a call: attempt, decide, sleep. Every request of this crate goes through
//! [`send`].
//!
//! A request is retry-safe if it is idempotent, or if it carries an idempotency key that the
//! service honors. Retry-safe requests are retried after any transient failure. All others are
//! retried only if they were certainly not processed: no connection was established, or the
//! service responded with 429.

use std::borrow::Cow;

use bytes::Bytes;
use http::Method;
use tokio::time::{Duration, Instant, sleep};

use super::attempt::{Failed, Failure, Success, attempt, headers};
use super::observer::Attempt;
use super::payload::{Options, Payload, Request};
use super::response::{ResponseParts, request_id};
use super::shared::Shared;
use crate::decode::{parse_value, read_object};
use crate::email::email_record::EmailRecord;
use crate::error::{Error, ErrorKind, Outcome, Stopped, Target};
use crate::operation::Operation;

/// After a 429 with `Retry-After: 0`, also if the back-off is shorter.
const MIN_PAUSE: Duration = Duration::from_millis(100);

pub(super) const MAX_TIMEOUT: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Sends a request and retries it where that is safe, until the deadline.
pub(super) async fn send<'a>(
    shared: &'a Shared,
    request: &'a Request,
    options: &'a Options,
) -> Result<ResponseParts<'a>, Error> {
    let start = Instant::now();
    let timeout = options.timeout.unwrap_or(shared.settings.timeout);
    let mut call = Progress {
        shared,
        request,
        retry_safe: request.idempotent || honors_key(shared, options),
        retries: options.retries.unwrap_or(shared.settings.retries),
        // The clock cannot represent the deadline if the timeout is very long.
        deadline: start.checked_add(timeout).unwrap_or(start + MAX_TIMEOUT),
        attempts: 0,
        limited: 0,
        took: Duration::ZERO,
    };
    let attempt_timeout = options.attempt_timeout.or(shared.settings.attempt_timeout);
    let base_headers = headers(shared, request, options);
    let mut may_be_processed = false;
    let mut last_error = None;
    let success = |success: Success, attempts, already_gone| {
        let Success { status, headers, body } = success;
        let elapsed = start.elapsed();
        Ok(ResponseParts {
            shared,
            request,
            status,
            headers,
            body,
            attempts,
            elapsed,
            already_gone,
        })
    };
    let error = loop {
        let (key, pause) = match shared.current_key() {
            Ok(key) => key,
            Err(error) => break error,
        };
        if let Err(end) = shared.pauses.wait(pause, timeout, call.latest_start()).await {
            break last_error.unwrap_or_else(|| held_back(end));
        }
        let started = Instant::now();
        if started >= call.deadline {
            break last_error.unwrap_or_else(|| Error::new(ErrorKind::Timeout, Outcome::NotSent));
        }
        call.attempts += 1;
        let end = attempt_timeout.and_then(|limit| started.checked_add(limit));
        let end = end.map_or(call.deadline, |end| end.min(call.deadline));
        let attempt = attempt(shared, request, &base_headers, key, end);
        #[cfg(feature = "tracing")]
        let attempt = super::trace::traced(shared, request, call.attempts, attempt);
        let result = attempt.await;
        let elapsed = started.elapsed();
        let Failed { failure, error } = match result {
            Ok(response) => {
                shared.budget.deposit();
                call.notify(elapsed, Ok(&response));
                return success(response, call.attempts, false);
            }
            Err(failed) => failed,
        };
        if may_be_processed && error.is_not_found() && request.method == Method::DELETE {
            // The earlier attempt, whose response was lost, most likely deleted it.
            call.notify(elapsed, Err((&error, None)));
            let status = error.status().unwrap_or_default();
            let headers = error.headers().clone();
            let gone = Success { status, headers, body: Bytes::new() };
            return success(gone, call.attempts, true);
        }
        // An attempt that was given up does not tell how long the next one takes.
        call.took = if error.is_timeout() { Duration::ZERO } else { elapsed };
        may_be_processed |= error.outcome() == Outcome::Unknown;
        let (error, wait) = call.decide(failure, error, pause);
        call.notify(elapsed, Err((&error, wait)));
        match wait {
            // A timer would wait at least a millisecond.
            Some(Duration::ZERO) => {}
            Some(wait) => sleep(wait).await,
            None if may_be_processed
                && error.kind() == &ErrorKind::Conflict
                && request.target == Target::Operation(Operation::EmailsCancel) =>
            {
                match call.find_cancelled(options).await {
                    Some(cancelled) => return success(cancelled, call.attempts, false),
                    None => break error,
                }
            }
            None => break error,
        }
        last_error = Some(error);
    };
    let error = error.with_target(request.target).with_attempts(call.attempts);
    let error = error.with_retry_safe(request.idempotent, call.retry_safe);
    Err(error.or_unknown_if(may_be_processed))
}

fn honors_key(shared: &Shared, options: &Options) -> bool {
    shared.settings.honors_idempotency_key && options.idempotency_key.is_some()
}

/// The error of a call that cannot start before its deadline.
fn held_back(end: Instant) -> Error {
    Error::new(ErrorKind::RateLimited, Outcome::NotSent)
        .with_stopped(Stopped::HeldBack)
        .with_retry_after(Some(end.saturating_duration_since(Instant::now())))
}

/// A call in progress.
struct Progress<'a> {
    shared: &'a Shared,
    request: &'a Request,
    retry_safe: bool,
    retries: u32,
    deadline: Instant,
    attempts: u32,
    /// Those of the attempts after which the service said when to come back. They do not count.
    limited: u32,
    /// Duration of the last attempt: the next one will hardly be faster.
    took: Duration,
}

impl Progress<'_> {
    /// When the next attempt must have started.
    fn latest_start(&self) -> Instant {
        self.deadline.checked_sub(self.took).unwrap_or(self.deadline)
    }

    /// Decides whether there is another attempt, and returns the pause before it. The pause
    /// that a 429 asks for is not part of it: all calls with this key wait for that.
    fn decide(&mut self, failure: Failure, error: Error, key: u64) -> (Error, Option<Duration>) {
        let settings = &self.shared.settings;
        let now = Instant::now();
        let requested = error.retry_after();
        let is_possible = requested.is_none_or(|requested| requested <= settings.max_retry_after);
        let invited = failure == Failure::Limited && requested.is_some();
        if invited {
            self.limited += 1;
            let end = requested.and_then(|requested| now.checked_add(requested));
            if let Some(end) = end.filter(|_| is_possible) {
                self.shared.pauses.pause(key, end);
            }
        }
        let may_repeat = match failure {
            Failure::NotSent | Failure::Limited => true,
            Failure::Transient => self.retry_safe,
            Failure::Permanent => false,
        };
        let counted = self.attempts - self.limited;
        let has_retries = self.retries > 0 && (invited || counted <= self.retries);
        if !may_repeat || !has_retries || !is_possible {
            return (error, None);
        }
        let jitter = fastrand::f64();
        let requested = requested.unwrap_or_default();
        let wait = match invited {
            // Zero says nothing about the time.
            true if requested.is_zero() => {
                let most = settings.back_off.after(self.limited).max(MIN_PAUSE);
                most.mul_f64(0.5 + jitter / 2.0)
            }
            true => Duration::ZERO,
            false => settings.back_off.after(counted).mul_f64(jitter).max(requested),
        };
        let fits = |start: Instant| start < self.latest_start();
        if !now.checked_add(wait.max(requested)).is_some_and(fits) {
            return (error, None);
        }
        if !invited && !self.shared.budget.withdraw() {
            return (error.with_stopped(Stopped::BudgetSpent), None);
        }
        (error, Some(wait))
    }

    /// Fetches the email that a cancellation found in conflict, and returns it if it is
    /// cancelled: then the attempt whose response was lost did it.
    async fn find_cancelled(&mut self, options: &Options) -> Option<Success> {
        let get = Request {
            target: Target::Operation(Operation::EmailsGet),
            method: Method::GET,
            path: Cow::Owned(self.request.path.strip_suffix("/cancel")?.to_owned()),
            payload: Payload::Empty,
            idempotent: true,
            recipients: 0,
            batch: Default::default(),
            organization: None,
        };
        let (key, _) = self.shared.current_key().ok()?;
        let headers = headers(self.shared, &get, options);
        self.attempts += 1;
        let response = attempt(self.shared, &get, &headers, key, self.deadline).await.ok()?;
        let email: EmailRecord = read_object(&parse_value(&response.body).ok()?);
        let status = email.status?;
        matches!(status.as_str(), "cancelled" | "canceled").then_some(response)
    }

    fn notify(&self, elapsed: Duration, result: Result<&Success, (&Error, Option<Duration>)>) {
        if self.shared.observers.is_empty() {
            return;
        }
        let (status, id, failure, retry_in) = match result {
            Ok(success) => {
                let id = request_id(self.shared, &success.headers);
                (Some(success.status), id, None, None)
            }
            Err((error, wait)) => {
                let wait = wait.map(|wait| wait.max(error.retry_after().unwrap_or_default()));
                (error.status(), error.request_id(), Some(error.kind()), wait)
            }
        };
        let url = self.shared.url(&self.request.path);
        let attempt = Attempt {
            operation: self.request.target.operation(),
            method: self.request.method.as_str(),
            url: url.as_str(),
            number: self.attempts,
            status,
            request_id: id,
            failure,
            elapsed,
            retry_in,
        };
        self.shared.observers.iter().for_each(|observe| observe(&attempt));
    }
}
