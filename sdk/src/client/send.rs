//! The loop of a call: attempt, decide, sleep. Every request of this crate goes through
//! [`send`].
//!
//! A request is retry-safe if it is idempotent, or if it carries an idempotency key that the
//! service honors. Retry-safe requests are retried after any transient failure. All others are
//! retried only if they were certainly not processed: no connection was established, or the
//! service responded with 429.

use bytes::Bytes;
use http::{HeaderValue, Method};
use tokio::time::{Duration, Instant, sleep};
use url::Url;

use super::attempt::{Failed, Failure, Success, attempt};
use super::observer::{Attempt, Exchange};
use super::payload::{Confirmation, Options, Request};
use super::response::Received;
use super::shared::Shared;
use crate::error::{Error, ErrorKind, Outcome, request_id};

/// After a 429 with `Retry-After: 0`, also if the back-off is shorter.
const MIN_PAUSE: Duration = Duration::from_millis(100);

pub(super) const MAX_TIMEOUT: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Sends a request and retries it where that is safe, until the deadline.
pub(super) async fn send(
    shared: &Shared,
    request: &Request,
    options: &Options,
) -> Result<Received, Error> {
    let start = Instant::now();
    let timeout = options.timeout.unwrap_or(shared.settings.timeout);
    let honors_key = shared.settings.honors_idempotency_key && options.idempotency_key.is_some();
    let mut call = Progress {
        shared,
        request,
        options,
        url: shared.url(&request.path),
        retry_safe: request.idempotent || honors_key,
        retries: options.retries.unwrap_or(shared.settings.retries),
        timeout,
        // The clock cannot represent the deadline if the timeout is very long.
        deadline: start.checked_add(timeout).unwrap_or(start + MAX_TIMEOUT),
        attempts: 0,
        limited: 0,
        may_be_processed: false,
    };
    match call.run().await {
        Ok((success, already_gone)) => Ok(Received {
            operation: request.operation,
            is_read: request.method == Method::GET,
            request_id: request_id(&success.headers).map(str::to_owned),
            status: success.status,
            headers: success.headers,
            body: success.body,
            attempts: call.attempts,
            elapsed: start.elapsed(),
            already_gone,
            dialect: std::sync::Arc::clone(&shared.settings.dialect),
        }),
        Err(error) => Err(error.with_operation(request.operation).with(|error| {
            error.attempts = call.attempts;
            error.idempotent = request.idempotent;
            error.retry_safe = call.retry_safe;
            if call.may_be_processed {
                error.outcome = Outcome::Unknown;
            }
        })),
    }
}

/// The error of a call that cannot start before its deadline.
fn held_back(end: Instant) -> Error {
    let pause = end.saturating_duration_since(Instant::now());
    Error::new(ErrorKind::RateLimited, Outcome::NotSent)
        .with(|error| (error.held_back, error.retry_after) = (true, Some(pause)))
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
    /// Those of the attempts after which the service said when to come back. They do not count.
    limited: u32,
    /// Whether the outcome of an attempt is unknown.
    may_be_processed: bool,
}

impl Progress<'_> {
    /// Returns the response, and whether it says that an earlier attempt has deleted the resource.
    async fn run(&mut self) -> Result<(Success, bool), Error> {
        let Self {
            shared,
            request,
            options,
            ..
        } = *self;
        let limit = options.attempt_timeout.or(shared.settings.attempt_timeout);
        let mut last_error = None;
        loop {
            let key = shared.current_key()?;
            let longest = shared.settings.max_retry_after;
            let waited = shared
                .pauses
                .wait(&key, self.timeout, self.deadline, longest);
            if let Err(end) = waited.await {
                return Err(last_error.unwrap_or_else(|| held_back(end)));
            }
            let start = Instant::now();
            if start >= self.deadline {
                let too_late = || Error::new(ErrorKind::Timeout, Outcome::NotSent);
                return Err(last_error.unwrap_or_else(too_late));
            }
            self.attempts += 1;
            let end = limit.and_then(|limit| start.checked_add(limit));
            let end = end.map_or(self.deadline, |end| end.min(self.deadline));
            let attempt = attempt(shared, request, options, &self.url, &key, end);
            #[cfg(feature = "tracing")]
            let attempt = super::trace::traced(shared, request, self.attempts, attempt);
            let result = attempt.await;
            let elapsed = start.elapsed();
            let Failed { failure, error } = match result {
                Ok(success) => {
                    self.notify(elapsed, Ok(&success));
                    return Ok((success, false));
                }
                Err(failed) => failed,
            };
            if self.may_be_processed && error.is_not_found() && request.method == Method::DELETE {
                // The earlier attempt, whose response was lost, most likely deleted it.
                self.notify(elapsed, Err((&error, None)));
                let (status, headers) = (error.status().unwrap_or_default(), error.headers());
                let gone = Success {
                    status,
                    headers: headers.clone(),
                    body: Bytes::new(),
                };
                return Ok((gone, true));
            }
            self.may_be_processed |= error.outcome() == Outcome::Unknown;
            let (error, wait) = self.decide(failure, error, &key);
            self.notify(elapsed, Err((&error, wait)));
            match (wait, &request.confirmation) {
                // A timer would wait at least a millisecond.
                (Some(Duration::ZERO), _) => {}
                (Some(wait), _) => sleep(wait).await,
                (None, Some(confirmation))
                    if self.may_be_processed && *error.kind() == ErrorKind::Conflict =>
                {
                    return match self.confirm(confirmation).await {
                        Some(success) => Ok((success, false)),
                        None => Err(error),
                    };
                }
                (None, _) => return Err(error),
            }
            last_error = Some(error);
        }
    }

    /// Decides whether there is another attempt, and returns the pause before it. The pause
    /// that a 429 asks for is not part of it: all calls with this key wait for that.
    fn decide(
        &mut self,
        failure: Failure,
        error: Error,
        key: &HeaderValue,
    ) -> (Error, Option<Duration>) {
        let settings = &self.shared.settings;
        let now = Instant::now();
        let requested = error.retry_after();
        let is_possible = requested.is_none_or(|requested| requested <= settings.max_retry_after);
        let invited = failure == Failure::Limited && requested.is_some();
        if invited {
            self.limited += 1;
            let end = requested.and_then(|requested| now.checked_add(requested));
            if let Some(end) = end {
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
            false => settings
                .back_off
                .after(counted)
                .mul_f64(jitter)
                .max(requested),
        };
        if now
            .checked_add(wait.max(requested))
            .is_none_or(|start| start >= self.deadline)
        {
            return (error, None);
        }
        (error, Some(wait))
    }

    /// Returns the response to the confirming request, if it says that an earlier attempt has done
    /// what was asked for.
    async fn confirm(&mut self, confirmation: &Confirmation) -> Option<Success> {
        let Confirmation { request, is_done } = confirmation;
        let (key, url) = (
            self.shared.current_key().ok()?,
            self.shared.url(&request.path),
        );
        self.attempts += 1;
        let attempt = attempt(
            self.shared,
            request,
            self.options,
            &url,
            &key,
            self.deadline,
        );
        let response = attempt.await.ok()?;
        is_done(&response.body, &self.shared.settings.dialect).then_some(response)
    }

    fn notify(&self, elapsed: Duration, result: Result<&Success, (&Error, Option<Duration>)>) {
        if self.shared.observers.is_empty() {
            return;
        }
        let (status, headers, body, failure, retry_in) = match result {
            Ok(success) => (
                Some(success.status),
                &success.headers,
                &*success.body,
                None,
                None,
            ),
            Err((error, wait)) => {
                let wait = wait.map(|wait| wait.max(error.retry_after().unwrap_or_default()));
                (
                    error.status(),
                    error.headers(),
                    error.body(),
                    Some(error.kind()),
                    wait,
                )
            }
        };
        let Self {
            shared,
            request,
            options,
            ..
        } = *self;
        let attempt = Attempt {
            operation: request.operation,
            method: request.method.as_str(),
            url: self.url.as_str(),
            number: self.attempts,
            status,
            request_id: request_id(headers),
            failure,
            elapsed,
            retry_in,
            exchange: Exchange {
                shared,
                request,
                options,
                headers,
                body,
            },
        };
        self.shared
            .observers
            .iter()
            .for_each(|observe| observe(&attempt));
    }
}
