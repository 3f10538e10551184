//! The loop of a call: attempt, decide, sleep. Every request of this crate goes through
//! [`send`].
//!
//! A request is retry-safe if it is idempotent, or if it carries an idempotency key that the
//! service honors. Retry-safe requests are retried after any transient failure. All others are
//! retried only if they were certainly not processed: no connection was established, or the
//! service responded with 429.

use std::sync::Arc;

use http::{HeaderValue, Method};
use tokio::time::{Duration, Instant, sleep};
use url::Url;

use super::attempt::attempt;
use super::observer::{Attempt, Exchange};
use super::pauses::MAX_TIMEOUT;
use super::request::body::InDoubt;
use super::request::{OnRepetition, Options, Request};
use super::response::{RawResponse, Received};
use super::shared::Shared;
use crate::error::{Error, ErrorKind, Outcome};

/// After a 429 with `Retry-After: 0`, also if the back-off is shorter.
const MIN_PAUSE: Duration = Duration::from_millis(100);

/// Sends a request and retries it where that is safe, until the deadline. Dropped before its end, it
/// leaves behind whether the service may have processed the request.
pub(super) async fn send(
    shared: &Shared,
    request: &Request,
    options: &Options,
    in_doubt: &InDoubt,
) -> Result<Received, Error> {
    let start = Instant::now();
    let timeout = options.timeout.unwrap_or(shared.settings.timeout);
    let honors_key = shared.settings.honors_idempotency_key;
    let has_own_key = honors_key && options.idempotency_key.is_some();
    let has_key = has_own_key || request.idempotency_key.is_some();
    let mut call = Progress {
        shared,
        request,
        options,
        url: shared.target.url(&request.path),
        retry_safe: request.idempotent || has_key,
        retries: options.retries.unwrap_or(shared.settings.retries),
        timeout,
        start,
        // The clock cannot represent the deadline if the timeout is very long.
        deadline: start.checked_add(timeout).unwrap_or(start + MAX_TIMEOUT),
        attempts: 0,
        api_key: None,
        limited: 0,
        in_doubt,
        may_be_processed: false,
    };
    let result = call.run().await;
    result.map_err(|error| {
        error.with_operation(request.operation).with(|error| {
            if let Some(key) = call
                .api_key
                .as_ref()
                .and_then(|key| shared.target.key_in(key))
            {
                error.report.clean(key);
            }
            error.attempts = call.attempts;
            error.idempotent = request.idempotent;
            // A key that was made for this call is lost with it: a repetition would have another.
            error.retry_safe = request.idempotent || has_own_key;
            if call.may_be_processed {
                error.outcome = Outcome::Unknown;
            }
        })
    })
}

/// The error of a call that cannot start before its deadline.
fn held_back(end: Instant) -> Error {
    let pause = end.saturating_duration_since(Instant::now());
    Error::new(ErrorKind::RateLimited, Outcome::NotSent).with(|error| {
        error.held_back = true;
        error.retry_after = Some(pause);
    })
}

/// A call in progress.
struct Progress<'a> {
    shared: &'a Shared,
    request: &'a Request,
    options: &'a Options,
    url: Url,
    retry_safe: bool,
    retries: u32,
    timeout: Duration,
    start: Instant,
    deadline: Instant,
    attempts: u32,
    /// The value of the key's header in the last attempt.
    api_key: Option<HeaderValue>,
    /// The attempts after which the service said when to come back. They do not count as retries.
    limited: u32,
    in_doubt: &'a InDoubt,
    /// Whether the outcome of a finished attempt is unknown.
    may_be_processed: bool,
}

impl Progress<'_> {
    async fn run(&mut self) -> Result<Received, Error> {
        let mut last_error = None;
        loop {
            let api_key = self.shared.target.current_api_key()?;
            if let Err(error) = self.wait_for_turn(&api_key).await {
                return Err(last_error.unwrap_or(error));
            }

            self.attempts += 1;
            self.api_key = Some(api_key.clone());
            let start = Instant::now();
            let result = self.attempt(&api_key, start).await;
            let elapsed = start.elapsed();
            let error = match result {
                Ok(response) => {
                    self.notify(elapsed, Ok(&response), None);
                    return Ok(self.received(response, api_key));
                }
                Err(error) => error,
            };

            if self.was_probably_deleted(&error) {
                self.notify(elapsed, Err(&error), None);
                let mut response = RawResponse::new(error.status().unwrap_or_default(), "");
                response.headers = error.headers().clone();
                return Ok(Received {
                    already_gone: true,
                    ..self.received(response, api_key)
                });
            }
            self.may_be_processed |= error.outcome() == Outcome::Unknown;
            if !self.may_be_processed {
                self.in_doubt.clear();
            }

            let Some(pause) = self.next_pause(&error, &api_key) else {
                self.notify(elapsed, Err(&error), None);
                return self.confirm(error).await;
            };
            let requested = error.retry_after().unwrap_or_default();
            self.notify(elapsed, Err(&error), Some(pause.max(requested)));
            // A timer would wait at least a millisecond.
            if !pause.is_zero() {
                sleep(pause).await;
            }
            last_error = Some(error);
        }
    }

    /// The response that ends the call.
    fn received(&self, response: RawResponse, api_key: HeaderValue) -> Received {
        Received {
            response,
            operation: self.request.operation,
            is_read: self.request.method == Method::GET,
            api_key,
            attempts: self.attempts,
            elapsed: self.start.elapsed(),
            already_gone: false,
            dialect: Arc::clone(&self.shared.settings.dialect),
        }
    }

    /// Waits for the pause of the operation, if there is one, and for the client's own rate.
    ///
    /// # Errors
    ///
    /// If no attempt can start before the deadline.
    async fn wait_for_turn(&self, api_key: &HeaderValue) -> Result<(), Error> {
        let operation = self.request.operation;
        self.shared
            .pauses
            .wait(api_key, operation, self.timeout, self.deadline)
            .await
            .map_err(held_back)?;
        if let Some(rate) = &self.shared.rate {
            rate.wait(self.deadline).await.map_err(held_back)?;
        }
        if Instant::now() >= self.deadline {
            return Err(Error::new(ErrorKind::Timeout, Outcome::NotSent));
        }
        Ok(())
    }

    async fn attempt(&self, api_key: &HeaderValue, start: Instant) -> Result<RawResponse, Error> {
        let limit = self
            .options
            .attempt_timeout
            .or(self.shared.settings.attempt_timeout);
        let end = match limit.and_then(|limit| start.checked_add(limit)) {
            Some(end) => end.min(self.deadline),
            None => self.deadline,
        };

        let Self {
            shared,
            request,
            options,
            ..
        } = *self;
        let attempt = attempt(
            shared,
            request,
            options,
            &self.url,
            api_key,
            end,
            self.in_doubt,
        );
        #[cfg(feature = "tracing")]
        let attempt = super::trace::traced(&shared.target, request, self.attempts, attempt);
        attempt.await
    }

    /// Whether the earlier attempt, whose response was lost, deleted the resource.
    fn was_probably_deleted(&self, error: &Error) -> bool {
        let may_be_deleted = matches!(self.request.on_repetition, OnRepetition::MayBeDeleted);
        may_be_deleted && self.may_be_processed && error.is_not_found()
    }

    /// The pause before the next attempt, `None` if there is none. A 429 with `Retry-After` also holds
    /// back other calls to the same operation; they wait for that pause together, so it is not part of
    /// this one.
    fn next_pause(&mut self, error: &Error, api_key: &HeaderValue) -> Option<Duration> {
        let now = Instant::now();
        let longest = self.shared.settings.max_retry_after;
        let requested = error.retry_after().unwrap_or_default();

        let invited = error.is_rate_limited() && error.retry_after().is_some();
        if invited {
            self.limited += 1;
            if let Some(end) = now.checked_add(requested.min(longest)) {
                self.shared
                    .pauses
                    .pause(api_key, self.request.operation, end);
            }
        }

        let has_retries = self.retries > 0 && (invited || self.counted_attempts() <= self.retries);
        if !has_retries || !self.may_repeat(error) || requested > longest {
            return None;
        }

        let pause = self.pause(invited, requested);
        let start = now.checked_add(pause.max(requested))?;
        (start < self.deadline).then_some(pause)
    }

    /// Whether a repetition may succeed, and cannot have a second effect.
    fn may_repeat(&self, error: &Error) -> bool {
        let may_succeed = error.is_transient() || *error.kind() == ErrorKind::Tls;
        may_succeed && (self.retry_safe || error.outcome() != Outcome::Unknown)
    }

    fn counted_attempts(&self) -> u32 {
        self.attempts - self.limited
    }

    fn pause(&self, invited: bool, requested: Duration) -> Duration {
        let back_off = self.shared.settings.back_off;
        let jitter = fastrand::f64();
        if !invited {
            let longest = back_off.after(self.counted_attempts());
            return longest.mul_f64(jitter).max(requested);
        }
        if requested.is_zero() {
            // `Retry-After: 0` says nothing about the time.
            let longest = back_off.after(self.limited).max(MIN_PAUSE);
            return longest.mul_f64(0.5 + jitter / 2.0);
        }

        // The pause of the operation covers it.
        Duration::ZERO
    }

    /// After a conflict, finds out whether an earlier attempt, whose response was lost, has done what
    /// was asked for. Returns the error if not.
    async fn confirm(&mut self, error: Error) -> Result<Received, Error> {
        let OnRepetition::Confirm(confirmation) = &self.request.on_repetition else {
            return Err(error);
        };
        if !self.may_be_processed || *error.kind() != ErrorKind::Conflict {
            return Err(error);
        }
        let Ok(api_key) = self.shared.target.current_api_key() else {
            return Err(error);
        };

        self.attempts += 1;
        let options = self.options.without_idempotency_key();
        let confirming = Progress {
            request: &confirmation.request,
            options: &options,
            url: self.shared.target.url(&confirmation.request.path),
            api_key: None,
            ..*self
        };
        let start = Instant::now();
        let result = confirming.attempt(&api_key, start).await;
        confirming.notify(start.elapsed(), result.as_ref(), None);
        match result {
            Ok(response)
                if (confirmation.is_done)(&response.body, &self.shared.settings.dialect) =>
            {
                Ok(self.received(response, api_key))
            }
            _ => Err(error),
        }
    }

    /// Shows an attempt to the observers.
    fn notify(
        &self,
        elapsed: Duration,
        result: Result<&RawResponse, &Error>,
        retry_in: Option<Duration>,
    ) {
        if self.shared.observers.is_empty() {
            return;
        }

        let Self {
            shared,
            request,
            options,
            ..
        } = *self;
        let exchange = Exchange {
            target: &shared.target,
            request,
            options,
            headers: result.map_or_else(Error::headers, |response| &response.headers),
            body: result.map_or_else(Error::body, |response| &response.body[..]),
        };
        let attempt = Attempt {
            operation: request.operation,
            method: request.method.as_str(),
            url: self.url.as_str(),
            number: self.attempts,
            status: result.map_or_else(Error::status, |response| Some(response.status)),
            request_id: result
                .map_or_else(Error::request_id, |response| response.request_id.as_deref()),
            failure: result.err().map(Error::kind),
            elapsed,
            retry_in,
            exchange,
        };
        for observe in &shared.observers {
            observe(&attempt);
        }
    }
}
