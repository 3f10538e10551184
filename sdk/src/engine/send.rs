//! The loop of a call: attempt, decide, sleep. Every request of this crate goes through
//! [`send`].
//!
//! A request is retry-safe if it is idempotent, or if it carries an idempotency key that the
//! service honors. Retry-safe requests are retried after any transient failure. All others are
//! retried only if they were certainly not processed: no connection was established, or the
//! service responded with 429.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use tokio::time::{Duration, Instant, sleep};
use url::Url;

use super::attempt::{Failed, Failure, Success, attempt};
use super::observer::{Attempt, Exchange};
use super::request::body::InDoubt;
use super::request::{OnRepetition, Options, Request};
use super::response::Received;
use super::shared::Shared;
use crate::error::{Error, ErrorKind, Outcome, request_id};

/// After a 429 with `Retry-After: 0`, also if the back-off is shorter.
const MIN_PAUSE: Duration = Duration::from_millis(100);

pub(super) const MAX_TIMEOUT: Duration = Duration::from_secs(100 * 365 * 86_400);

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
        // The clock cannot represent the deadline if the timeout is very long.
        deadline: start.checked_add(timeout).unwrap_or(start + MAX_TIMEOUT),
        attempts: 0,
        limited: 0,
        in_doubt,
        may_be_processed: false,
    };
    match call.run().await {
        Ok(finished) => Ok(Received {
            operation: request.operation,
            is_read: request.method == Method::GET,
            request_id: request_id(&finished.success.headers).map(str::to_owned),
            status: finished.success.status,
            headers: finished.success.headers,
            body: finished.success.body,
            api_key: finished.api_key,
            attempts: call.attempts,
            elapsed: start.elapsed(),
            already_gone: finished.already_gone,
            dialect: std::sync::Arc::clone(&shared.settings.dialect),
        }),
        Err(error) => Err(error.with_operation(request.operation).with(|error| {
            error.attempts = call.attempts;
            error.idempotent = request.idempotent;
            // A key that was made for this call is lost with it: a repetition would have another.
            error.retry_safe = request.idempotent || has_own_key;
            if call.may_be_processed {
                error.outcome = Outcome::Unknown;
            }
        })),
    }
}

/// The error of a call that cannot start before its deadline.
fn held_back(end: Instant) -> Error {
    let pause = end.saturating_duration_since(Instant::now());
    Error::new(ErrorKind::RateLimited, Outcome::NotSent).with(|error| {
        error.held_back = true;
        error.retry_after = Some(pause);
    })
}

/// The response to a deletion that an earlier attempt has most likely performed.
fn gone(error: &Error) -> Success {
    Success {
        status: error.status().unwrap_or_default(),
        headers: error.headers().clone(),
        body: Bytes::new(),
    }
}

/// A call that succeeded.
struct Finished {
    success: Success,
    /// The value of the key's header.
    api_key: HeaderValue,
    /// See [`Deleted::already_gone`](super::response::Deleted::already_gone).
    already_gone: bool,
}

/// What follows a failed attempt.
enum Next {
    /// Another attempt after this pause. The pause that a 429 asks for is not part of it: all calls
    /// that the service limited wait for that one together.
    Retry(Duration),
    Fail,
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
    deadline: Instant,
    attempts: u32,
    /// The attempts after which the service said when to come back. They do not count as retries.
    limited: u32,
    in_doubt: &'a InDoubt,
    /// Whether the outcome of a finished attempt is unknown.
    may_be_processed: bool,
}

impl Progress<'_> {
    async fn run(&mut self) -> Result<Finished, Error> {
        let mut last_error = None;
        loop {
            let api_key = self.shared.target.current_api_key()?;
            if let Err(error) = self.wait_for_turn(&api_key).await {
                return Err(last_error.unwrap_or(error));
            }

            self.attempts += 1;
            let start = Instant::now();
            let result = self.attempt(&api_key, start).await;
            let elapsed = start.elapsed();
            let failed = match result {
                Ok(success) => {
                    self.notify_success(elapsed, &success);
                    return Ok(Finished {
                        success,
                        api_key,
                        already_gone: false,
                    });
                }
                Err(failed) => failed,
            };

            if self.was_probably_deleted(&failed.error) {
                self.notify_failure(elapsed, &failed.error, None);
                return Ok(Finished {
                    success: gone(&failed.error),
                    api_key,
                    already_gone: true,
                });
            }
            self.may_be_processed |= failed.error.outcome() == Outcome::Unknown;
            if !self.may_be_processed {
                self.in_doubt.clear();
            }

            match self.next(&failed, &api_key) {
                Next::Retry(pause) => {
                    let requested = failed.error.retry_after().unwrap_or_default();
                    self.notify_failure(elapsed, &failed.error, Some(pause.max(requested)));
                    // A timer would wait at least a millisecond.
                    if !pause.is_zero() {
                        sleep(pause).await;
                    }
                    last_error = Some(failed.error);
                }
                Next::Fail => {
                    self.notify_failure(elapsed, &failed.error, None);
                    return self.confirm(failed.error).await;
                }
            }
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

    async fn attempt(&self, api_key: &HeaderValue, start: Instant) -> Result<Success, Failed> {
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

    /// Decides what follows a failed attempt. A 429 with `Retry-After` also holds back other calls to
    /// the same operation.
    fn next(&mut self, failed: &Failed, api_key: &HeaderValue) -> Next {
        let now = Instant::now();
        let longest = self.shared.settings.max_retry_after;
        let requested = failed.error.retry_after();

        let invited = failed.failure == Failure::Limited && requested.is_some();
        if invited {
            self.limited += 1;
            let pause = requested.unwrap_or_default().min(longest);
            if let Some(end) = now.checked_add(pause) {
                self.shared
                    .pauses
                    .pause(api_key, self.request.operation, end);
            }
        }

        if !self.may_repeat(failed.failure) || !self.has_retries(invited) {
            return Next::Fail;
        }
        let requested = requested.unwrap_or_default();
        if requested > longest {
            return Next::Fail;
        }

        let pause = self.pause(invited, requested);
        match now.checked_add(pause.max(requested)) {
            Some(start) if start < self.deadline => Next::Retry(pause),
            _ => Next::Fail,
        }
    }

    /// Whether a repetition cannot have a second effect.
    fn may_repeat(&self, failure: Failure) -> bool {
        match failure {
            Failure::NotSent | Failure::Limited => true,
            Failure::Transient => self.retry_safe,
            Failure::Permanent => false,
        }
    }

    fn has_retries(&self, invited: bool) -> bool {
        self.retries > 0 && (invited || self.counted_attempts() <= self.retries)
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
    async fn confirm(&mut self, error: Error) -> Result<Finished, Error> {
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
            ..*self
        };
        let start = Instant::now();
        let result = confirming.attempt(&api_key, start).await;
        let elapsed = start.elapsed();
        match result {
            Ok(success) => {
                confirming.notify_success(elapsed, &success);
                if !(confirmation.is_done)(&success.body, &self.shared.settings.dialect) {
                    return Err(error);
                }
                Ok(Finished {
                    success,
                    api_key,
                    already_gone: false,
                })
            }
            Err(failed) => {
                confirming.notify_failure(elapsed, &failed.error, None);
                Err(error)
            }
        }
    }

    fn notify_success(&self, elapsed: Duration, success: &Success) {
        self.notify(&Attempt {
            status: Some(success.status),
            ..self.observed(elapsed, &success.headers, &success.body)
        });
    }

    fn notify_failure(&self, elapsed: Duration, error: &Error, retry_in: Option<Duration>) {
        self.notify(&Attempt {
            status: error.status(),
            failure: Some(error.kind()),
            retry_in,
            ..self.observed(elapsed, error.headers(), error.body())
        });
    }

    /// What observers see of an attempt, before it is known how it ended.
    fn observed<'o>(
        &'o self,
        elapsed: Duration,
        headers: &'o HeaderMap,
        body: &'o [u8],
    ) -> Attempt<'o> {
        let Self {
            shared,
            request,
            options,
            ..
        } = *self;
        Attempt {
            operation: request.operation,
            method: request.method.as_str(),
            url: self.url.as_str(),
            number: self.attempts,
            status: None,
            request_id: request_id(headers),
            failure: None,
            elapsed,
            retry_in: None,
            exchange: Exchange {
                target: &shared.target,
                request,
                options,
                headers,
                body,
            },
        }
    }

    fn notify(&self, attempt: &Attempt<'_>) {
        for observe in &self.shared.observers {
            observe(attempt);
        }
    }
}
