//! Runs a job in the terminal. `run` takes a `StoredJob` that is running, gives its rows to
//! `svc_bulk::BulkSend` with the settings of this run, and shows progress. The first Ctrl-C lets
//! the requests in flight end, a second one aborts them. `report` prints the totals and returns the
//! failure that decides the exit code: an unknown outcome counts more than a refusal. `bulk send`
//! and `bulk resume` end here, and `wait.rs` follows.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;
use svc_bulk::{BulkSend, ErrorKind, RowRefusal, Totals};
use svc_sdk::{EmailClient, Point};
use tokio::sync::{mpsc, oneshot};

use super::ledger::{JobState, StoredJob};
use super::plan::PreparedRow;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::hints;
use crate::sdk_error::{RECIPIENT_GUARD, SEE_RECIPIENT_GUARD};
use crate::settings::Source;
use crate::stop::StopSignal;

/// How long a service that honors idempotency keys remembers them.
const KEY_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// Signals within this time are one: `timeout`, supervisors and terminals send two.
const ONE_SIGNAL: Duration = Duration::from_secs(1);

/// Sends the rows of a job that are left, to those who are still among the `subscribers`, and reports
/// the result.
pub async fn run(
    context: &Context,
    client: &EmailClient,
    concurrency: usize,
    job: &mut StoredJob,
    subscribers: Option<&HashSet<u64>>,
    stop: &mut StopSignal,
) -> Result<(), Failure> {
    let renderer = job.renderer().await?;
    let render = |row: &PreparedRow| job.plan.email_to_subscriber(&renderer, subscribers, row);
    let sender = sender(context, client, concurrency).await?;
    let (interrupted, result) = supervise(context, sender, job, render, stop).await;
    job.reload().await?;
    report(context, job, interrupted, result.err())
}

/// A sender with the settings of this run.
async fn sender(
    context: &Context,
    client: &EmailClient,
    concurrency: usize,
) -> Result<BulkSend, Failure> {
    let settings = &context.settings;
    let mut sender = BulkSend::new(client).concurrency(concurrency);
    if settings.retries.source != Source::Default {
        sender = sender.retries(settings.retries.value);
    }
    if settings.timeout.source != Source::Default {
        sender = sender.timeout(settings.timeout.value);
    }
    sender = sender.local_checks(context.clients.checks_limits().await?);
    // Whether the service honors the key is not assumed.
    if context.clients.dialect().pinned(Point::Idempotency) == Some("honored") {
        sender = sender.idempotency_key_life(KEY_LIFE);
    }
    // Requests that are no larger than the limit of the guard use it up.
    if let Some(limit) = settings.guard.max_recipients_per_run {
        sender = sender.request_size(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    Ok(sender)
}

/// Runs a job with progress and Ctrl-C. Returns whether Ctrl-C has stopped it.
async fn supervise(
    context: &Context,
    sender: BulkSend,
    job: &StoredJob,
    render: impl FnMut(&PreparedRow) -> Result<svc_sdk::email::Email, String>,
    stop: &mut StopSignal,
) -> (bool, Result<Totals, svc_bulk::Error>) {
    let (stopper, stopped) = oneshot::channel::<()>();
    let (aborter, aborted) = oneshot::channel::<()>();
    // How long the service asks to wait, or that the job is paused.
    let (notes, mut noted) = mpsc::unbounded_channel::<Option<Duration>>();
    let progress = Arc::new(context.out.progress("sending"));
    let shown = Arc::clone(&progress);
    let start = Instant::now();
    let mut sent = 0;
    let mut was_paused = false;
    let sender = sender
        .stop_when(async { drop(stopped.await) })
        .abort_when(async move {
            // It is dropped at the end, which is no wish.
            if aborted.await.is_err() {
                std::future::pending::<()>().await;
            }
        })
        .on_request(move |request| {
            if request.pause.is_some() || (request.is_paused && !was_paused) {
                let _ = notes.send(request.pause);
            }
            was_paused = request.is_paused;
            sent += request.outcomes.len() as u64;
            shown.set_text(describe(request.totals, sent, start.elapsed()));
        });

    let mut running = pin!(sender.run(&job.ledger, job.id(), render));
    let mut stopper = Some(stopper);
    let mut aborter = Some(aborter);
    let mut first_signal = None;
    loop {
        tokio::select! {
            result = &mut running => return (first_signal.is_some(), result),
            Some(pause) = noted.recv() => note_pause(context, job, pause),
            _ = stop.recv() => {
                let first = *first_signal.get_or_insert_with(Instant::now);
                if let Some(stopper) = stopper.take() {
                    let _ = stopper.send(());
                    progress.set_text("stopping: waiting for the requests in flight; Ctrl-C again to stop at once".to_owned());
                } else if first.elapsed() >= ONE_SIGNAL
                    && let Some(aborter) = aborter.take()
                {
                    let _ = aborter.send(());
                }
            }
        }
    }
}

fn note_pause(context: &Context, job: &StoredJob, pause: Option<Duration>) {
    let Some(pause) = pause else {
        let resume = job.svc(context, "resume");
        return context.out.note(&format!("paused; go on: {resume}"));
    };

    let until = context.out.local_time(&(Utc::now() + pause).to_rfc3339());
    let pause = pause.as_secs();
    context.out.note(&format!(
        "rate limit: the service asks to wait {pause} s, until {until}; Ctrl-C stops the job"
    ));
}

/// Progress in words: how much was done, how fast, and how long the rest takes.
fn describe(totals: Totals, sent: u64, elapsed: Duration) -> String {
    let total = totals.total();
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
    let id = job.id();
    let Totals {
        accepted,
        refused,
        invalid,
        unknown,
        ..
    } = job.record.totals;
    let left_out = job.plan.left_out.describe();
    let left_out = left_out.map(|it| format!("; {it}")).unwrap_or_default();
    let total = job.record.totals.total();
    let not_sent = job.not_sent();
    let sentence = format!(
        "job {id}: {accepted} of {total} emails accepted, {refused} refused, {invalid} invalid, \
         {unknown} unknown, {not_sent} not sent{left_out}"
    );
    context.out.done(&sentence, &job.summary())?;
    let svc = |verb: &str| job.svc(context, verb);
    let list = |status: &str| format!("list them: {} --status {status}", svc("report"));
    let resume = format!("go on: {}", svc("resume"));
    let again = |why: &str| format!("{why}, perhaps twice: {} --unknown resend", svc("resume"));
    if let Some(error) = error {
        let mut failure = match error.kind {
            ErrorKind::Service(error) => Failure::from(error),
            ErrorKind::Refused(refusal) => refused_as_a_whole(refusal),
            ErrorKind::Ledger(error) => Failure::from(error),
            _ => Failure::other("the job stopped"),
        };
        if failure.kind() == Kind::Unauthenticated {
            hints::add(&mut failure, context);
        }
        let is_before_all = matches!(failure.kind, Kind::Usage | Kind::InvalidInput);
        if accepted + refused + unknown > 0 && is_before_all {
            // It usually means that nothing was sent.
            failure.kind = if unknown == 0 {
                Kind::PartlyRefused
            } else {
                Kind::OutcomeUnknown
            };
            // It is that of the last request.
            failure.outcome = None;
            let why = std::mem::take(&mut failure.message);
            failure.message =
                format!("the job stopped after {accepted} of {total} emails were accepted: {why}");
            if failure.code.as_deref() == Some(RECIPIENT_GUARD) {
                failure.hint = Some(SEE_RECIPIENT_GUARD.to_owned());
            }
        }
        let mut hints = failure
            .hint
            .take()
            .into_iter()
            .chain([resume])
            .collect::<Vec<_>>();
        hints.extend((unknown > 0).then(|| again("also those that are unknown")));
        return Err(failure.hint(hints.join("\n")));
    }

    let mut settle = format!("{}\n{}", list("unknown"), again("send them again"));
    settle.push_str(&format!(
        "\nor decide about each: {} --sent FILE --resend FILE",
        svc("settle")
    ));
    if interrupted && not_sent > 0 {
        let message = format!("interrupted: {not_sent} emails are not sent");
        let mut hint = resume;
        if unknown > 0 {
            hint.push_str(&format!("\nthe outcome of {unknown} is unknown: {settle}"));
        }
        return Err(Failure::new(Kind::Interrupted, message).hint(hint));
    }
    if unknown > 0 {
        let message = format!(
            "the outcome of {unknown} emails is unknown: the service may have accepted them"
        );
        return Err(Failure::new(Kind::OutcomeUnknown, message)
            .code("bulk_unknown")
            .hint(settle));
    }
    if job.state() == JobState::Cancelled && not_sent > 0 {
        let message = format!("the job was cancelled: {not_sent} emails are not sent");
        return Err(Failure::other(message).code("job_is_cancelled"));
    }
    if not_sent > 0 {
        let message = format!("{not_sent} of {total} emails are not sent");
        return Err(Failure::other(message).code("bulk_not_sent").hint(resume));
    }
    if refused > 0 {
        let message = format!("{refused} of {total} emails were refused");
        let hint = format!(
            "{}\nsend them again: {} --refused",
            list("refused"),
            svc("resume")
        );
        return Err(Failure::new(Kind::PartlyRefused, message)
            .code("bulk_partly_refused")
            .hint(hint));
    }

    Ok(())
}

/// Whether a failure of [`report`] means that a job has ended, if not as one would like.
pub fn is_result(failure: &Failure) -> bool {
    let ended = ["bulk_unknown", "bulk_partly_refused", "job_is_cancelled"];
    failure
        .code
        .as_deref()
        .is_some_and(|code| ended.contains(&code))
}
