//! Sends the requests of a call: attempts, retries and the deadline. Every request of this
//! crate goes through [`send`].

use bytes::Bytes;
use http::StatusCode;

use super::attempt::{AttemptEnd, EarlyEnd, Failed, Pace, Success, attempt};
#[cfg(feature = "bulk")]
use super::call::MayTry;
use super::call::{Options, Request};
use super::connections::Connections;
use super::hold::Place;
use super::observer::Attempt;
use super::payload::Payload;
use super::response::{ResponseParts, request_id_str};
use super::retry::{Decision, Failure, RetryContext, RetryPermit, decide};
use super::shared::Shared;
#[cfg(feature = "rate-limit")]
use super::time::sleep_until;
use super::time::{Duration, Instant, sleep};
use crate::error::Stopped;
use crate::{Error, ErrorKind, Outcome};

/// Sends a request and retries it where that is safe, until the deadline.
pub(crate) async fn send<'a>(
    shared: &'a Shared,
    request: &'a Request,
    options: &'a Options,
) -> Result<ResponseParts<'a>, Error> {
    Connections::check_runtime().map_err(|error| error.with_target(request.target))?;
    let mut call = RetryLoop::new(shared, request, options);
    loop {
        match call.attempt_once().await {
            Step::Done(response) => return Ok(response),
            Step::Retry(wait, permit) => {
                // A timer would wait at least a millisecond.
                if !wait.is_zero() && while_allowed(options, sleep(wait)).await.is_none() {
                    // The next attempt ends the call, and the permit is not used.
                    continue;
                }
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

/// Waits as long as the call may be tried. Returns nothing as soon as it may not.
#[cfg(feature = "bulk")]
async fn while_allowed<T>(options: &Options, waiting: impl Future<Output = T>) -> Option<T> {
    use futures_util::future::{Either, pending, select};

    let Some(may_try) = &options.may_try else { return Some(waiting.await) };
    let mut may_try = may_try.clone();
    let forbidden = async {
        if may_try.wait_for(|may_try| *may_try != MayTry::Yes).await.is_err() {
            // The job is gone, and with it this call.
            pending::<()>().await;
        }
    };
    match select(std::pin::pin!(forbidden), std::pin::pin!(waiting)).await {
        Either::Left(_) => None,
        Either::Right((value, _)) => Some(value),
    }
}

#[cfg(not(feature = "bulk"))]
async fn while_allowed<T>(_: &Options, waiting: impl Future<Output = T>) -> Option<T> {
    Some(waiting.await)
}

/// The state of a call in progress.
struct RetryLoop<'a> {
    shared: &'a Shared,
    request: &'a Request,
    options: &'a Options,
    retry_safe: bool,
    retries: u32,
    start: Instant,
    timeout: Duration,
    deadline: Instant,
    attempts: u32,
    /// Those of the attempts that do not count: after them, the service said when to come
    /// back, or an upload was repeated to read the response.
    free: u32,
    pace: Pace,
    /// The place in the queue after a pause of all calls.
    place: Option<Place>,
    /// Whether a failed attempt of this call may have been processed.
    may_be_processed: bool,
    /// The error of the previous attempt.
    last_error: Option<Error>,
}

enum Step<'a> {
    Done(ResponseParts<'a>),
    Retry(Duration, RetryPermit<'a>),
    Failed(Error),
}

impl<'a> RetryLoop<'a> {
    fn new(shared: &'a Shared, request: &'a Request, options: &'a Options) -> Self {
        let settings = &shared.settings;
        let start = Instant::now();
        let timeout = options.timeout.unwrap_or(settings.timeout);
        let honored = settings.honors_idempotency_key && options.idempotency_key.is_some();
        Self {
            shared,
            request,
            options,
            retry_safe: request.idempotent || honored,
            retries: options.retries.unwrap_or(settings.retries),
            start,
            timeout,
            // The clock cannot represent the deadline if the timeout is very long.
            deadline: start.checked_add(timeout).unwrap_or(start + MAX_TIMEOUT),
            attempts: 0,
            free: 0,
            pace: Pace::Fast,
            place: None,
            may_be_processed: false,
            last_error: None,
        }
    }

    /// Makes one attempt and decides how to continue.
    async fn attempt_once(&mut self) -> Step<'a> {
        let shared = self.shared;
        let turn = shared.hold.turn(&mut self.place, self.deadline);
        let turn = match while_allowed(self.options, turn).await {
            Some(Ok(turn)) => turn,
            Some(Err(until)) => return Step::Failed(self.held_back(until)),
            None => return Step::Failed(self.not_allowed()),
        };
        #[cfg(feature = "rate-limit")]
        match while_allowed(self.options, self.wait_for_slot()).await {
            Some(Ok(())) => {}
            Some(Err(error)) => return Step::Failed(error),
            None => return Step::Failed(self.not_allowed()),
        }
        let started = Instant::now();
        if started >= self.deadline {
            let timeout = || Error::new(ErrorKind::Timeout, Outcome::NotSent);
            return Step::Failed(self.last_error.take().unwrap_or_else(timeout));
        }
        self.attempts += 1;
        let end = self.attempt_end(started);
        let attempt = attempt(self.shared, self.request, self.options, end, self.pace);
        #[cfg(feature = "tracing")]
        let span = super::trace::span(self.shared, self.request, self.attempts);
        #[cfg(feature = "tracing")]
        let attempt = tracing::Instrument::instrument(attempt, span.clone());
        let result = attempt.await;
        #[cfg(feature = "tracing")]
        super::trace::record(&span, self.shared, &result);

        let took = started.elapsed();
        let status = match &result {
            Ok(success) => Some(success.status),
            Err(failed) => failed.error.status().map(|status| status.as_u16()),
        };
        if status.is_some_and(|status| status != 429) {
            turn.was_not_limited();
        }
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
                let (error, retry) = self.retry(failure, error, took);
                self.notify(took, Err((&error, retry.as_ref().map(|retry| retry.wait))));
                self.may_be_processed |= error.outcome() == Outcome::Unknown;
                let Some(retry) = retry else { return Step::Failed(error) };
                self.last_error = Some(error);
                // The pause of all calls is waited for in turn.
                let wait = if retry.is_invited { Duration::ZERO } else { retry.wait };
                Step::Retry(wait, retry.permit)
            }
        }
    }

    /// When the attempt that starts now ends.
    fn attempt_end(&self, now: Instant) -> AttemptEnd {
        let limit = self.options.attempt_timeout.or(self.shared.settings.attempt_timeout);
        let early = match limit {
            Some(limit) => now.checked_add(limit).map(|at| EarlyEnd { at, only_unsent: false }),
            // The last attempt has all the time that is left.
            None if self.attempts - self.free > self.retries => None,
            None => {
                let is_streamed = matches!(self.request.payload, Payload::Streamed(_));
                let only_unsent = !self.retry_safe || is_streamed;
                let at = now.checked_add(self.timeout / 3);
                at.map(|at| EarlyEnd { at, only_unsent })
            }
        };
        AttemptEnd { deadline: self.deadline, early }
    }

    /// Decides about the next attempt.
    fn retry(
        &mut self,
        failure: Failure,
        error: Error,
        took: Duration,
    ) -> (Error, Option<Retry<'a>>) {
        // An upload that was cut off is repeated once, and carefully: perhaps the service
        // refused it, and its response was lost. An incomplete request was not processed.
        if failure == Failure::CutOff && self.pace == Pace::Fast {
            self.pace = Pace::Careful;
            self.free += 1;
            let permit = RetryPermit::FREE;
            return (error, Some(Retry { wait: Duration::ZERO, is_invited: false, permit }));
        }
        let settings = &self.shared.settings;
        let now = Instant::now();
        let mut context = RetryContext {
            failure,
            retry_safe: self.retry_safe,
            attempts: self.attempts - self.free,
            retries: self.retries,
            retry_after: error.retry_after(),
            max_retry_after: settings.max_retry_after,
            time_left: self.deadline.saturating_duration_since(now),
            // An attempt that was given up does not tell how long the next one takes.
            took: if error.is_timeout() { Duration::ZERO } else { took },
            back_off: settings.back_off,
            jitter: fastrand::f64(),
        };
        let is_invited = context.is_invited();
        if is_invited {
            self.free += 1;
            context.attempts -= 1;
            let pause = context.retry_after.filter(|pause| *pause <= context.max_retry_after);
            if let Some(until) = pause.and_then(|pause| now.checked_add(pause)) {
                self.shared.hold.pause_until(until);
            }
        }
        let Decision::RetryAfter(wait) = decide(&context) else { return (error, None) };
        if is_invited {
            return (error, Some(Retry { wait, is_invited, permit: RetryPermit::FREE }));
        }
        match self.shared.budget.withdraw() {
            Some(permit) => (error, Some(Retry { wait, is_invited, permit })),
            None => (error.with_stopped(Stopped::BudgetSpent), None),
        }
    }

    /// The error of a call that cannot start before its deadline, because the service asked
    /// for a pause.
    fn held_back(&mut self, until: Instant) -> Error {
        self.last_error.take().unwrap_or_else(|| {
            Error::new(ErrorKind::RateLimited, Outcome::NotSent)
                .with_stopped(Stopped::HeldBack)
                .with_retry_after(Some(until.saturating_duration_since(Instant::now())))
        })
    }

    /// The error of a call that must not be tried, or not again.
    fn not_allowed(&mut self) -> Error {
        let never_tried = || Error::new(ErrorKind::RateLimited, Outcome::NotSent);
        let error = self.last_error.take().unwrap_or_else(never_tried);
        #[cfg(feature = "bulk")]
        let error = error.with_stopped(Stopped::JobPaused);
        error
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
        let observers = &self.shared.observers;
        if observers.is_empty() {
            return;
        }
        let id = match result {
            Ok(success) => request_id_str(self.shared, &success.headers),
            Err((error, _)) => error.request_id(),
        };
        observers.notify(&Attempt {
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
    async fn wait_for_slot(&mut self) -> Result<(), Error> {
        let Some(limit) = &self.shared.rate_limit else { return Ok(()) };
        let now = Instant::now();
        let slot = match limit.reserve(now, self.deadline) {
            Ok(slot) => slot,
            Err(next) => {
                return Err(self.last_error.take().unwrap_or_else(|| {
                    Error::new(ErrorKind::RateLimited, Outcome::NotSent)
                        .with_stopped(Stopped::OwnRateLimit)
                        .with_retry_after(Some(next.saturating_duration_since(now)))
                }));
            }
        };
        if slot.start > now {
            sleep_until(slot.start).await;
        }
        slot.commit();
        Ok(())
    }
}

/// The next attempt.
struct Retry<'a> {
    /// The pause before it.
    wait: Duration,
    /// Whether the service said when to come back.
    is_invited: bool,
    permit: RetryPermit<'a>,
}

pub(super) const MAX_TIMEOUT: Duration = Duration::from_secs(100 * 365 * 86_400);
