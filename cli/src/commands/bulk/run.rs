//! Runs a job in the terminal: progress, Ctrl-C, and the result.

use std::collections::HashSet;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chrono::Utc;
use futures_util::stream;
use svc_bulk::{ErrorKind, Job, Journal, RowRefusal, SendState, Totals};
use tokio::sync::{mpsc, oneshot};

use super::jobs;
use super::plan::rows;
use super::store::{JobState, Place, StoredJob};
use crate::advice;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::sdk_error::{RECIPIENT_GUARD, SEE_RECIPIENT_GUARD};
use crate::settings::Source;
use crate::stop::StopSignal;

/// How long a service that honors idempotency keys remembers them.
const KEY_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// Sends the rows of a job that are left, to those who are still among the `subscribers`, and reports
/// the result. `journal` is that of the job if it is open already.
pub async fn run(
    context: &Context,
    sender: Job,
    job: &mut StoredJob,
    journal: Option<Journal>,
    subscribers: Option<&HashSet<u64>>,
    stop: &mut StopSignal,
) -> Result<(), Failure> {
    let renderer = job.renderer().await?;
    let render = |row: &_| job.plan.email_to_subscriber(&renderer, subscribers, row);
    let (interrupted, result) = match &job.place {
        Place::Here { folder, .. } => {
            let mut journal = journal.map_or_else(|| job.open_journal(), Ok)?;
            let rows = rows(folder)?;
            let run =
                async |sender: Job| sender.run(stream::iter(rows), render, &mut journal).await;
            supervise(context, sender, job, stop, run).await
        }
        Place::Redis { queue, .. } => {
            let run = async |sender: Job| sender.work(queue, &job.info.job, render).await;
            supervise(context, sender, job, stop, run).await
        }
    };
    job.reload().await?;
    report(context, job, interrupted, result.and_then(Result::err))
}

/// Runs a job with progress, the settings of this run, and Ctrl-C. Returns whether Ctrl-C has stopped
/// it, and its result unless it was stopped at once.
async fn supervise(
    context: &Context,
    sender: Job,
    stored: &StoredJob,
    stop: &mut StopSignal,
    run: impl AsyncFnOnce(Job) -> Result<Totals, svc_bulk::Error>,
) -> (bool, Option<Result<Totals, svc_bulk::Error>>) {
    let (stopper, stopped) = oneshot::channel::<()>();
    // How long the service asks to wait, or that the job is paused.
    let (notes, mut noted) = mpsc::unbounded_channel::<Option<Duration>>();
    let (paused, was_paused) = (notes.clone(), AtomicBool::new(false));
    let progress = Arc::new(context.out.progress("sending"));
    let (shown, start, mut sent) = (Arc::clone(&progress), Instant::now(), 0);
    let total = stored.total();
    let mut job = sender
        .rate(stored.plan.rate.unwrap_or_default())
        .stop_when(async { drop(stopped.await) })
        .on_request(move |request| {
            if request.pause.is_some() {
                let _ = notes.send(request.pause);
            }
            sent += request.outcomes.len() as u64;
            shown.set_text(describe(request.totals, total, sent, start.elapsed()));
        });
    if let Some(folder) = stored.folder().map(Path::to_owned) {
        job = job.state(move || {
            let wish = jobs::wish(&folder);
            let is_paused = wish == SendState::Paused;
            if !was_paused.swap(is_paused, Ordering::Relaxed) && is_paused {
                let _ = paused.send(None);
            }
            wish
        });
    }
    if context.settings.retries.source != Source::Default {
        job = job.retries(context.settings.retries.value);
    }
    if context.settings.timeout.source != Source::Default {
        job = job.timeout(context.settings.timeout.value);
    }
    job = job.local_checks(context.settings.checks_limits());
    if context.settings.honors_idempotency_key() {
        job = job.idempotency_key_life(KEY_LIFE);
    }
    // Requests that are no larger than the limit of the guard use it up.
    if let Some(limit) = context.settings.guard.max_recipients_per_run {
        job = job.request_size(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    let (mut running, mut stopper) = (pin!(run(job)), Some(stopper));
    loop {
        tokio::select! {
            result = &mut running => return (stopper.is_none(), Some(result)),
            Some(pause) = noted.recv() => context.out.note(&match pause {
                None => "paused; svc bulk continue lets it go on".to_owned(),
                Some(pause) => {
                    let until = context.out.local_time(&(Utc::now() + pause).to_rfc3339());
                    let pause = pause.as_secs();
                    format!(
                        "rate limit: the service asks to wait {pause} s, until {until}; Ctrl-C stops the job"
                    )
                }
            }),
            _ = stop.recv() => {
                let Some(stopper) = stopper.take() else { return (true, None) };
                let _ = stopper.send(());
                progress.set_text("stopping: waiting for the requests in flight; Ctrl-C again to stop at once".to_owned());
            }
        }
    }
}

/// What was done, how fast, and how long the rest takes.
fn describe(totals: Totals, total: u64, sent: u64, elapsed: Duration) -> String {
    let done = totals.accepted + totals.refused + totals.invalid + totals.unknown;
    let seconds = elapsed.as_secs_f64().max(0.001);
    let rate = sent as f64 / seconds;
    let left = total.saturating_sub(done) as f64 / rate.max(0.001);
    format!(
        "{done} of {total}: {} accepted, {} refused, {} unknown; {rate:.0}/s, {left:.0} s left",
        totals.accepted, totals.refused, totals.unknown
    )
}

/// The service refuses every email of the job for one reason.
fn refused_as_a_whole(refusal: RowRefusal) -> Failure {
    let RowRefusal { code, message, .. } = refusal;
    let kind = match code.as_deref() {
        Some("insufficient_scope") => Kind::MissingScope,
        _ => Kind::Refused,
    };
    let reason = message
        .or_else(|| code.clone())
        .unwrap_or_else(|| "no reason given".to_owned());
    let failure = Failure::new(kind, format!("the service refuses every email: {reason}"));
    let failure = match code {
        Some(code) => failure.code(code),
        None => failure,
    };
    failure.hint("correct the cause, such as the sender, its domain or the template")
}

/// Prints the result and returns the failure that decides the exit code.
fn report(
    context: &Context,
    job: &StoredJob,
    interrupted: bool,
    error: Option<svc_bulk::Error>,
) -> Result<(), Failure> {
    let (
        id,
        Totals {
            accepted,
            refused,
            invalid,
            unknown,
            ..
        },
    ) = (&job.info.job, job.totals);
    let (total, not_sent) = (job.total(), job.not_sent());
    let sentence = format!(
        "job {id}: {accepted} of {total} emails accepted, {refused} refused, {invalid} invalid, \
         {unknown} unknown, {not_sent} not sent; {} rows left out",
        job.plan.left_out.total()
    );
    context.out.done(&sentence, &job.summary())?;
    let svc = |verb: &str| job.svc(context, verb);
    let list = format!("list them: {}", svc("report"));
    let resume = match (&job.place, job.state) {
        (Place::Here { .. }, _) => format!("go on: {}", svc("resume")),
        (_, JobState::Paused) => {
            format!("go on: {}\nthen: {}", svc("continue"), svc("work"))
        }
        _ => format!("go on: {}", svc("work")),
    };
    let again = |why: &str| format!("{why}, perhaps twice: {} --unknown resend", svc("resume"));
    if let Some(error) = error {
        let mut failure = match error.kind {
            ErrorKind::Service(error) => Failure::from(error),
            ErrorKind::Refused(refusal) => refused_as_a_whole(refusal),
            ErrorKind::Journal(error) => Failure::other(format!("the journal failed: {error}")),
            ErrorKind::Rows(error) => Failure::input(error.to_string()),
            _ => Failure::other("the job stopped"),
        };
        if failure.kind() == Kind::Unauthenticated {
            advice::add(&mut failure, context);
        }
        let details = failure.details_mut();
        let is_before_all = matches!(details.kind, Kind::Usage | Kind::InvalidInput);
        if accepted + refused + unknown > 0 && is_before_all {
            // It usually means that nothing was sent.
            details.kind = if unknown == 0 {
                Kind::PartlyRefused
            } else {
                Kind::OutcomeUnknown
            };
            // It is that of the last request.
            details.outcome = None;
            let why = std::mem::take(&mut details.message);
            details.message =
                format!("the job stopped after {accepted} of {total} emails were accepted: {why}");
            if details.code.as_deref() == Some(RECIPIENT_GUARD) {
                details.hint = Some(SEE_RECIPIENT_GUARD.to_owned());
            }
        }
        let mut hints = details
            .hint
            .take()
            .into_iter()
            .chain([resume])
            .collect::<Vec<_>>();
        hints.extend((unknown > 0).then(|| again("also those that are unknown")));
        return Err(failure.hint(hints.join("\n")));
    }
    Err(match () {
        () if interrupted && not_sent > 0 => {
            let message = format!("interrupted: {not_sent} emails are not sent");
            Failure::new(Kind::Interrupted, message).hint(resume)
        }
        () if unknown > 0 => {
            let message = format!(
                "the outcome of {unknown} emails is unknown: the service may have accepted them"
            );
            let hint = format!("{list}\n{}", again("send them again"));
            Failure::new(Kind::OutcomeUnknown, message)
                .code("bulk_unknown")
                .hint(hint)
        }
        () if job.state == JobState::Cancelled && not_sent > 0 => {
            let message = format!("the job was cancelled: {not_sent} emails are not sent");
            Failure::other(message).code("job_is_cancelled")
        }
        () if not_sent > 0 => {
            let message = format!("{not_sent} of {total} emails are not sent");
            Failure::other(message).code("bulk_not_sent").hint(resume)
        }
        () if refused > 0 => {
            let message = format!("{refused} of {total} emails were refused");
            let hint = format!("{list}\nsend them again: {} --refused", svc("resume"));
            Failure::new(Kind::PartlyRefused, message)
                .code("bulk_partly_refused")
                .hint(hint)
        }
        () => return Ok(()),
    })
}

/// Whether a failure of [`report`] means that a job has ended, if not as one would like.
pub fn is_result(failure: &Failure) -> bool {
    let ended = ["bulk_unknown", "bulk_partly_refused", "job_is_cancelled"];
    failure
        .details()
        .code
        .as_deref()
        .is_some_and(|code| ended.contains(&code))
}
