//! The one way out: every request of this crate goes through [`send`].

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::{Duration, Instant};

use super::attempt::{Failed, attempt, headers};
use super::body::Progress;
use super::call::{Options, Request};
use super::response::Answer;
use super::retry::{Decision, Failure, Situation, decide};
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
    let headers = headers(shared, request, options);
    let honoured = shared.settings.honours_idempotency_key && options.idempotency_key.is_some();

    let mut attempts = 0;
    // Whether an attempt that failed may have been processed all the same.
    let mut may_be_done = false;
    loop {
        attempts += 1;
        let began = Instant::now();
        let progress = Arc::new(Progress::default());
        let once = attempt(shared, request, headers.clone(), &progress);
        let Failed { failure, error } = match tokio::time::timeout_at(deadline, once).await {
            Ok(Ok(success)) => {
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
            Ok(Err(failed)) => failed,
            Err(_) => timed_out(request, &progress),
        };

        let deletes = request.method == http::Method::DELETE;
        if deletes && may_be_done && error.status() == Some(404) {
            return Ok(Answer {
                shared,
                request,
                status: 404,
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

fn timed_out(request: &Request, progress: &Progress) -> Failed {
    // Where there is a body, its first part is taken when the head is written.
    let not_sent = request.payload.length() > 0 && !progress.started();
    let outcome = if not_sent { Outcome::NotSent } else { Outcome::Unknown };
    Failed { failure: Failure::Final, error: Error::new(ErrorKind::Timeout, outcome) }
}
