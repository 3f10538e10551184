//! Sends the requests of a call: attempts, retries and the deadline. Every request of this
//! crate goes through [`send`].

use bytes::Bytes;
use http::StatusCode;

use super::attempt::{Failed, Success, attempt};
use super::call::{Options, Request};
use super::observer::Attempt;
use super::response::{ResponseParts, request_id_str};
use super::retry::{Decision, Failure, RetryContext, decide};
use super::shared::Shared;
#[cfg(feature = "rate-limit")]
use super::time::sleep_until;
use super::time::{Duration, Instant, sleep};
use crate::{Error, ErrorKind, Outcome};

/// Sends a request and retries it where that is safe, until the deadline.
pub(crate) async fn send<'a>(
    shared: &'a Shared,
    request: &'a Request,
    options: &'a Options,
) -> Result<ResponseParts<'a>, Error> {
    let mut call = RetryLoop::new(shared, request, options);
    loop {
        match call.attempt_once().await {
            Step::Done(response) => return Ok(response),
            // Skipped, because a timer would wait at least a millisecond.
            Step::Retry(Duration::ZERO) => {}
            Step::Retry(wait) => {
                let permit = shared.budget.permit();
                sleep(wait).await;
                permit.commit();
            }
            Step::Failed(error) => {
                let error = error.with_target(request.target).with_attempts(call.attempts);
                return Err(error
                    .with_idempotent(request.idempotent)
                    .or_unknown_if(call.may_be_processed));
            }
        }
    }
}

/// The state of a call in progress.
struct RetryLoop<'a> {
    shared: &'a Shared,
    request: &'a Request,
    options: &'a Options,
    retry_safe: bool,
    retries: u32,
    start: Instant,
    deadline: Instant,
    attempts: u32,
    /// Whether a failed attempt of this call may have been processed.
    may_be_processed: bool,
    /// The error of the previous attempt.
    last_error: Option<Error>,
}

enum Step<'a> {
    Done(ResponseParts<'a>),
    Retry(Duration),
    Failed(Error),
}

impl<'a> RetryLoop<'a> {
    fn new(shared: &'a Shared, request: &'a Request, options: &'a Options) -> Self {
        let settings = &shared.settings;
        let start = Instant::now();
        let timeout = options.timeout.unwrap_or(settings.timeout);
        let honoured = settings.honours_idempotency_key && options.idempotency_key.is_some();
        Self {
            shared,
            request,
            options,
            retry_safe: request.idempotent || honoured,
            retries: options.retries.unwrap_or(settings.retries),
            start,
            // The clock cannot represent the deadline if the timeout is very long.
            deadline: start.checked_add(timeout).unwrap_or(start + MAX_TIMEOUT),
            attempts: 0,
            may_be_processed: false,
            last_error: None,
        }
    }

    /// Makes one attempt and decides how to continue.
    async fn attempt_once(&mut self) -> Step<'a> {
        #[cfg(feature = "rate-limit")]
        if let Err(error) = self.wait_for_slot().await {
            return Step::Failed(error);
        }
        let started = Instant::now();
        if started >= self.deadline {
            let timeout = || Error::new(ErrorKind::Timeout, Outcome::NotSent);
            return Step::Failed(self.last_error.take().unwrap_or_else(timeout));
        }
        self.attempts += 1;
        let attempt = attempt(self.shared, self.request, self.options, self.deadline);
        #[cfg(feature = "tracing")]
        let span = super::trace::span(self.shared, self.request, self.attempts);
        #[cfg(feature = "tracing")]
        let attempt = tracing::Instrument::instrument(attempt, span.clone());
        let result = attempt.await;
        #[cfg(feature = "tracing")]
        super::trace::record(&span, self.shared, &result);

        let took = started.elapsed();
        match result {
            Ok(success) => {
                self.shared.budget.deposit();
                self.notify(took, Ok(&success));
                Step::Done(self.response_parts(success, false))
            }
            Err(Failed { error, .. }) if self.is_already_deleted(&error) => {
                self.notify(took, Err((&error, None)));
                let headers = error.headers().clone();
                let status = error.status().map_or(0, |status| status.as_u16());
                Step::Done(
                    self.response_parts(Success { status, headers, body: Bytes::new() }, true),
                )
            }
            Err(Failed { failure, error }) => {
                let wait = self.retry_delay(failure, &error, took);
                self.notify(took, Err((&error, wait)));
                self.may_be_processed |= error.outcome() == Outcome::Unknown;
                let Some(wait) = wait else { return Step::Failed(error) };
                self.last_error = Some(error);
                Step::Retry(wait)
            }
        }
    }

    /// The pause before the next attempt; `None` if there is no next attempt.
    fn retry_delay(&self, failure: Failure, error: &Error, took: Duration) -> Option<Duration> {
        let settings = &self.shared.settings;
        let decision = decide(&RetryContext {
            failure,
            retry_safe: self.retry_safe,
            attempts: self.attempts,
            retries: self.retries,
            retry_after: error.retry_after(),
            max_retry_after: settings.max_retry_after,
            time_left: self.deadline.saturating_duration_since(Instant::now()),
            took,
            back_off: settings.back_off,
            jitter: fastrand::f64(),
        });
        match decision {
            Decision::RetryAfter(wait) if self.shared.budget.withdraw() => Some(wait),
            Decision::RetryAfter(_) | Decision::GiveUp => None,
        }
    }

    /// Whether the resource is gone because an earlier attempt, whose response was lost,
    /// most likely deleted it.
    fn is_already_deleted(&self, error: &Error) -> bool {
        let deletes = self.request.method == http::Method::DELETE;
        deletes && self.may_be_processed && error.is_not_found()
    }

    fn response_parts(&self, success: Success, already_gone: bool) -> ResponseParts<'a> {
        ResponseParts {
            shared: self.shared,
            request: self.request,
            status: success.status,
            headers: success.headers,
            body: success.body,
            attempts: self.attempts,
            elapsed: self.start.elapsed(),
            already_gone,
        }
    }

    fn notify(&self, elapsed: Duration, result: Result<&Success, (&Error, Option<Duration>)>) {
        let Some(observer) = &self.shared.observer else { return };
        let id = match result {
            Ok(success) => request_id_str(self.shared, &success.headers),
            Err((error, _)) => error.request_id(),
        };
        observer.notify(&Attempt {
            operation: self.request.target.operation(),
            method: self.request.method.as_str(),
            url: self.shared.url(self.request).as_str(),
            number: self.attempts,
            status: result.map_or_else(
                |(error, _)| error.status(),
                |success| StatusCode::from_u16(success.status).ok(),
            ),
            request_id: id,
            failure: result.err().map(|(error, _)| error.kind()),
            elapsed,
            retry_in: result.err().and_then(|(_, wait)| wait),
        });
    }

    #[cfg(feature = "rate-limit")]
    async fn wait_for_slot(&self) -> Result<(), Error> {
        let Some(limit) = &self.shared.rate_limit else { return Ok(()) };
        let now = Instant::now();
        let Some(slot) = limit.reserve(now, self.deadline) else {
            return Err(Error::new(ErrorKind::Timeout, Outcome::NotSent));
        };
        if slot.start > now {
            sleep_until(slot.start).await;
        }
        slot.commit();
        Ok(())
    }
}

pub(super) const MAX_TIMEOUT: Duration = Duration::from_secs(100 * 365 * 86_400);
