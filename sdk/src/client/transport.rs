//! The one way out: every request of this crate goes through [`send`].

use bytes::Bytes;

use super::attempt::{Failed, Success, attempt};
use super::call::{Options, Request};
use super::observe::Attempt;
use super::response::{Answer, shown_request_id};
use super::retry::{Decision, Failure, Situation, decide};
use super::shared::Shared;
#[cfg(feature = "rate-limit")]
use super::time::sleep_until;
use super::time::{Duration, Instant, sleep};
use crate::{Error, ErrorKind, Outcome};

/// Sends a request, again where that does no harm, until the deadline.
pub(crate) async fn send<'a>(
    shared: &'a Shared,
    request: &'a Request,
    options: &'a Options,
) -> Result<Answer<'a>, Error> {
    let mut run = Run::new(shared, request, options);
    loop {
        match run.once().await {
            Step::Done(answer) => return Ok(answer),
            // Even no time is a millisecond to a timer.
            Step::Again(Duration::ZERO) => {}
            Step::Again(wait) => {
                let unmade = shared.budget.unmade();
                sleep(wait).await;
                unmade.made();
            }
            Step::Failed(error) => {
                let error = error.with_target(request.target).with_attempts(run.attempts);
                return Err(error.with_harmless(request.harmless).after(run.may_be_done));
            }
        }
    }
}

/// A call under way.
struct Run<'a> {
    shared: &'a Shared,
    request: &'a Request,
    options: &'a Options,
    repeatable: bool,
    retries: u32,
    start: Instant,
    deadline: Instant,
    attempts: u32,
    /// An attempt that failed may have been processed all the same.
    may_be_done: bool,
    /// Why the attempt before failed.
    last: Option<Error>,
}

enum Step<'a> {
    Done(Answer<'a>),
    Again(Duration),
    Failed(Error),
}

impl<'a> Run<'a> {
    fn new(shared: &'a Shared, request: &'a Request, options: &'a Options) -> Self {
        let settings = &shared.settings;
        let start = Instant::now();
        let timeout = options.timeout.unwrap_or(settings.timeout);
        let honoured = settings.honours_idempotency_key && options.idempotency_key.is_some();
        Self {
            shared,
            request,
            options,
            repeatable: request.harmless || honoured,
            retries: options.retries.unwrap_or(settings.retries),
            start,
            // Beyond what the clock can tell, a century will do.
            deadline: start.checked_add(timeout).unwrap_or(start + CENTURY),
            attempts: 0,
            may_be_done: false,
            last: None,
        }
    }

    /// One attempt, and what follows from it.
    async fn once(&mut self) -> Step<'a> {
        #[cfg(feature = "rate-limit")]
        if let Err(error) = self.wait_for_a_place().await {
            return Step::Failed(error);
        }
        let began = Instant::now();
        if began >= self.deadline {
            let too_late = || Error::new(ErrorKind::Timeout, Outcome::NotSent);
            return Step::Failed(self.last.take().unwrap_or_else(too_late));
        }
        self.attempts += 1;
        let once = attempt(self.shared, self.request, self.options, self.deadline);
        #[cfg(feature = "tracing")]
        let span = super::trace::span(self.shared, self.request, self.attempts);
        #[cfg(feature = "tracing")]
        let once = tracing::Instrument::instrument(once, span.clone());
        let result = once.await;
        #[cfg(feature = "tracing")]
        super::trace::record(&span, self.shared, &result);

        let took = began.elapsed();
        match result {
            Ok(success) => {
                self.shared.budget.deposit();
                self.tell(took, Ok(&success));
                Step::Done(self.answer(success, false))
            }
            Err(Failed { error, .. }) if self.is_gone(&error) => {
                self.tell(took, Err((&error, None)));
                let headers = error.headers().clone();
                let status = error.status().unwrap_or_default();
                Step::Done(self.answer(Success { status, headers, body: Bytes::new() }, true))
            }
            Err(Failed { failure, error }) => {
                let wait = self.wait_after(failure, &error, took);
                self.tell(took, Err((&error, wait)));
                self.may_be_done |= error.outcome() == Outcome::Unknown;
                let Some(wait) = wait else { return Step::Failed(error) };
                self.last = Some(error);
                Step::Again(wait)
            }
        }
    }

    /// How long to wait before the next attempt, if there is to be one.
    fn wait_after(&self, failure: Failure, error: &Error, took: Duration) -> Option<Duration> {
        let settings = &self.shared.settings;
        let decision = decide(&Situation {
            failure,
            repeatable: self.repeatable,
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

    /// A deletion that most likely was done by a try whose answer was lost.
    fn is_gone(&self, error: &Error) -> bool {
        let deletes = self.request.method == http::Method::DELETE;
        deletes && self.may_be_done && error.is_not_found()
    }

    fn answer(&self, success: Success, already_gone: bool) -> Answer<'a> {
        Answer {
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

    fn tell(&self, elapsed: Duration, result: Result<&Success, (&Error, Option<Duration>)>) {
        let Some(observer) = &self.shared.observer else { return };
        let id = match result {
            Ok(success) => shown_request_id(self.shared, &success.headers),
            Err((error, _)) => error.request_id(),
        };
        observer.tell(&Attempt {
            operation: self.request.target.operation(),
            method: self.request.method.as_str(),
            url: self.shared.url(self.request).as_str(),
            number: self.attempts,
            status: result.map_or_else(|(error, _)| error.status(), |success| Some(success.status)),
            request_id: id,
            failure: result.err().map(|(error, _)| error.kind()),
            elapsed,
            retry_in: result.err().and_then(|(_, wait)| wait),
        });
    }

    #[cfg(feature = "rate-limit")]
    async fn wait_for_a_place(&self) -> Result<(), Error> {
        let Some(limit) = &self.shared.rate_limit else { return Ok(()) };
        let now = Instant::now();
        let Some(place) = limit.reserve(now, self.deadline) else {
            return Err(Error::new(ErrorKind::Timeout, Outcome::NotSent));
        };
        if place.start > now {
            sleep_until(place.start).await;
        }
        place.used();
        Ok(())
    }
}

pub(super) const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
