//! The one way out: every request of this crate goes through [`send`].

use bytes::Bytes;
use tokio::time::{Duration, Instant};

use super::attempt::{Failed, attempt};
use super::call::{Options, Request};
use super::response::Answer;
use super::retry::{Decision, Situation, decide};
use super::shared::Shared;
use crate::{Error, ErrorKind, Outcome};

/// Sends a request, again where that does no harm, until the deadline.
pub(crate) async fn send<'a>(
    shared: &'a Shared,
    request: &'a Request,
    options: &Options,
) -> Result<Answer<'a>, Error> {
    let start = Instant::now();
    let timeout = options.timeout.unwrap_or(shared.settings.timeout);
    // A deadline beyond what the clock can tell is none; a century will do.
    let deadline = start.checked_add(timeout).unwrap_or(start + CENTURY);
    let honoured = shared.settings.honours_idempotency_key && options.idempotency_key.is_some();

    let mut attempts = 0;
    // Whether an attempt that failed may have been processed all the same.
    let mut may_be_done = false;
    let mut last = None;
    loop {
        let began = Instant::now();
        if began >= deadline {
            let error = last.unwrap_or_else(|| Error::new(ErrorKind::Timeout, Outcome::NotSent));
            return Err(error
                .with_target(request.target)
                .with_attempts(attempts)
                .after(may_be_done));
        }
        attempts += 1;
        let Failed { failure, error } = match attempt(shared, request, options, deadline).await {
            Ok(success) => {
                shared.budget.deposit();
                return Ok(Answer {
                    shared,
                    request,
                    status: success.status,
                    headers: success.headers,
                    body: success.body,
                    attempts,
                    elapsed: start.elapsed(),
                    already_gone: false,
                });
            }
            Err(failed) => failed,
        };

        let deletes = request.method == http::Method::DELETE;
        if let Some(status) = error.status()
            && deletes
            && may_be_done
            && error.is_not_found()
        {
            return Ok(Answer {
                shared,
                request,
                status,
                headers: error.headers().clone(),
                body: Bytes::new(),
                attempts,
                elapsed: start.elapsed(),
                already_gone: true,
            });
        }

        let decision = decide(&Situation {
            failure,
            repeatable: request.harmless || honoured,
            attempts,
            retries: options.retries.unwrap_or(shared.settings.retries),
            retry_after: error.retry_after(),
            longest_wait: shared.settings.longest_wait,
            time_left: deadline.saturating_duration_since(Instant::now()),
            took: began.elapsed(),
            back_off: shared.settings.back_off,
            jitter: fastrand::f64(),
        });
        may_be_done |= error.outcome() == Outcome::Unknown;
        match decision {
            Decision::RetryAfter(wait) if shared.budget.withdraw() => {
                tokio::time::sleep(wait).await;
                last = Some(error);
            }
            _ => {
                return Err(error
                    .with_target(request.target)
                    .with_attempts(attempts)
                    .after(may_be_done));
            }
        }
    }
}

const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
