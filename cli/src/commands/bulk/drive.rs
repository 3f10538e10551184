//! Runs a job in the terminal: progress, Ctrl-C, and the result.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream;
use serde_json::Value;
use svc_bulk::{BulkRow, ErrorKind, Job, Journal, RowRefusal, Totals};
use svc_sdk::EmailClient;
use svc_sdk::email::Email;
use tokio::sync::{mpsc, oneshot};

use super::message::Renderer;
use super::plan::{Plan, Stopper, left_out_rows};
use super::subscribers::Subscribers;
use super::{jobs, rows};
use crate::context::Context;
use crate::dry_run;
use crate::failure::{Failure, Kind};
use crate::output::to_value;
use crate::sdk_error::{RECIPIENT_GUARD, RECIPIENT_GUARD_HINT, SEE_RECIPIENT_GUARD};
use crate::settings::Source;
use crate::stop::StopSignal;

/// The rows of a job that are not left out.
pub fn emails(
    plan: &Plan,
    folder: &Path,
) -> Result<impl Iterator<Item = Result<rows::Row, Failure>> + use<>, Failure> {
    let left_out = left_out_rows(folder, plan.left_out.total())?;
    let mut rows = plan.rows(folder)?;
    let limit = plan.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let kept = move |row: &rows::Row| !left_out.contains(&row.number);
    let all = std::iter::from_fn(move || rows.next().transpose());
    Ok(all.filter(move |row| row.as_ref().map_or(true, &kept)).take(limit))
}

/// How long a service that honors idempotency keys remembers them.
const KEY_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// Emails that are sent again.
#[derive(Clone, Copy, Default)]
pub struct Again {
    pub unknown: bool,
    pub refused: bool,
}

/// What may differ in each run of a job.
pub struct RunOptions {
    pub again: Again,
    pub max_retry_after: Duration,
    /// Those who are still subscribed, if that has to be checked.
    pub subscribers: Option<Subscribers>,
}

/// Sends the rows of a job that are not settled, and reports the result.
pub async fn run(
    context: &Context,
    client: &EmailClient,
    folder: &Path,
    plan: &Plan,
    mut journal: Journal,
    options: RunOptions,
    stop: &mut StopSignal,
) -> Result<(), Failure> {
    let renderer = Renderer::new(&plan.message)?;
    let rows = emails(plan, folder)?.map(|row| match row {
        Ok(row) => Ok(BulkRow::new(row.number, row)),
        Err(failure) => Err(failure.details().message.clone()),
    });
    let subscribers = options.subscribers;
    let render = |row: &rows::Row| match &subscribers {
        Some(subscribers) if !subscribers.contains(&row.address) => {
            Err("not subscribed any more".to_owned())
        }
        _ => renderer.render(row, plan.recipient(row)),
    };
    let info = journal.info().clone();
    let total = info.rows.unwrap_or_default();
    let job = Job::new(client)
        .concurrency(plan.concurrency)
        .rate(plan.rate.unwrap_or_default())
        .resend_unknown(options.again.unknown)
        .resend_refused(options.again.refused)
        .max_retry_after(options.max_retry_after);
    let (interrupted, result) = supervise(context, job, total, stop, async |job| {
        job.run(stream::iter(rows), render, &mut journal).await
    })
    .await;
    drop(journal);
    let job = match &result {
        // Nothing is in flight, so the journal, which may be long, says nothing else.
        Some(Ok(totals)) => jobs::Job::ended(folder, info, plan, *totals),
        _ => jobs::Job::read(folder)?,
    };
    report(context, &Summary::of_journal(context, &job), interrupted, result.and_then(Result::err))
}

/// Runs a job with progress, the settings of this run, and Ctrl-C. Returns whether it was
/// interrupted, and its result unless it was stopped at once.
pub async fn supervise(
    context: &Context,
    job: Job,
    total: u64,
    stop: &mut StopSignal,
    run: impl AsyncFnOnce(Job) -> Result<Totals, svc_bulk::Error>,
) -> (bool, Option<Result<Totals, svc_bulk::Error>>) {
    let (stopper, stopped) = oneshot::channel::<()>();
    let (pauses, mut paused) = mpsc::unbounded_channel::<Duration>();
    let progress = Arc::new(context.out.progress("sending"));
    let (shown, start, mut sent) = (Arc::clone(&progress), Instant::now(), 0);
    let mut job = job.stop_when(async { drop(stopped.await) }).on_request(move |request| {
        if let Some(pause) = request.pause {
            let _ = pauses.send(pause);
        }
        sent += request.outcomes.len() as u64;
        shown.set_text(describe(request.totals, total, sent, start.elapsed()));
    });
    if context.settings.retries.source != Source::Default {
        job = job.retries(context.settings.retries.value);
    }
    if context.settings.timeout.source != Source::Default {
        job = job.timeout(context.settings.timeout.value);
    }
    let compatibility = &context.settings.compatibility;
    job = job.local_checks(!compatibility.local_checks_off);
    if compatibility.honors_idempotency_key {
        job = job.idempotency_key_life(KEY_LIFE);
    }
    // Requests that are no larger than the limit of the guard use it up.
    if let Some(limit) = context.settings.guard.smallest_limit() {
        job = job.request_size(limit);
    }
    let mut interrupted = false;
    let mut running = pin!(run(job));
    let mut stopper = Some(stopper);
    loop {
        tokio::select! {
            result = &mut running => return (interrupted, Some(result)),
            Some(pause) = paused.recv() => context.out.note(&format!(
                "the service asks to wait {} s; Ctrl-C stops the job",
                pause.as_secs()
            )),
            _ = stop.recv() => {
                interrupted = true;
                match stopper.take() {
                    Some(stopper) => {
                        let _ = stopper.send(());
                        progress.set_text("stopping: waiting for the requests in flight; Ctrl-C again to stop at once".to_owned());
                    }
                    None => return (interrupted, None),
                }
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

/// The result of a run.
pub struct Summary {
    pub job: String,
    /// The number of emails.
    pub total: u64,
    pub left_out: u64,
    pub totals: Totals,
    pub output: Value,
    pub is_cancelled: bool,
    /// Command lines that go on, list the outcomes, and send unknown or refused rows again.
    pub resume: String,
    pub report: String,
    pub again: String,
    pub refused_again: String,
}

impl Summary {
    fn of_journal(context: &Context, job: &jobs::Job) -> Self {
        let id = &job.info.job;
        Self {
            job: id.clone(),
            total: job.total(),
            left_out: job.plan.left_out.total(),
            totals: job.totals,
            output: to_value(&job.shown()),
            is_cancelled: false,
            resume: context.svc(&format!("bulk resume {id}")),
            report: context.svc(&format!("bulk report {id}")),
            again: context.svc(&format!("bulk resume {id} --unknown resend")),
            refused_again: context.svc(&format!("bulk resume {id} --refused")),
        }
    }

    fn not_sent(&self) -> u64 {
        jobs::not_sent(self.total, self.totals)
    }
}

/// The service refuses every email of the job for one reason.
fn refused_as_a_whole(refusal: RowRefusal) -> Failure {
    let RowRefusal { code, message, .. } = refusal;
    let kind = match code.as_deref() {
        Some("insufficient_scope") => Kind::MissingScope,
        _ => Kind::Refused,
    };
    let reason = message.or_else(|| code.clone()).unwrap_or_else(|| "no reason given".to_owned());
    let failure = Failure::new(kind, format!("the service refuses every email: {reason}"));
    let failure = match code {
        Some(code) => failure.code(code),
        None => failure,
    };
    failure.hint("correct the cause, such as the sender, its domain or the template")
}

/// Prints the result and returns the failure that decides the exit code.
pub fn report(
    context: &Context,
    job: &Summary,
    interrupted: bool,
    error: Option<svc_bulk::Error>,
) -> Result<(), Failure> {
    let (id, totals) = (&job.job, job.totals);
    let sentence = format!(
        "job {id}: {} of {} emails accepted, {} refused, {} unknown, {} not sent; {} rows left out",
        totals.accepted,
        job.total,
        totals.refused + totals.invalid,
        totals.unknown,
        job.not_sent(),
        job.left_out
    );
    context.out.done(&sentence, &job.output)?;
    let resume = format!("go on: {}", job.resume);
    if let Some(error) = error {
        let mut failure = match error.into_kind() {
            ErrorKind::Service(error) => Failure::from(error),
            ErrorKind::Refused(refusal) => refused_as_a_whole(refusal),
            ErrorKind::Journal(error) => Failure::other(format!("the journal failed: {error}")),
            ErrorKind::Rows(error) => Failure::input(error.to_string()),
            _ => Failure::other("the job stopped"),
        };
        if totals.accepted + totals.refused + totals.unknown > 0 {
            stopped_midway(&mut failure, job);
        }
        let hint = match failure.details().hint.clone() {
            Some(hint) => format!("{hint}\n{resume}"),
            None => resume,
        };
        return Err(failure.hint(hint));
    }
    if interrupted && job.not_sent() > 0 {
        let message = format!("interrupted: {} emails are not sent", job.not_sent());
        return Err(Failure::new(Kind::Interrupted, message).hint(resume));
    }
    if totals.unknown > 0 {
        let message = format!(
            "the outcome of {} emails is unknown: the service may have accepted them",
            totals.unknown
        );
        let hint =
            format!("list them: {}\nsend them again, perhaps twice: {}", job.report, job.again);
        return Err(Failure::new(Kind::OutcomeUnknown, message).code("bulk_unknown").hint(hint));
    }
    if job.is_cancelled && job.not_sent() > 0 {
        let message = format!("the job was cancelled: {} emails are not sent", job.not_sent());
        return Err(Failure::other(message).code("job_is_cancelled"));
    }
    if !interrupted && job.not_sent() > 0 {
        let message = format!("{} of {} emails are not sent", job.not_sent(), job.total);
        return Err(Failure::other(message).code("bulk_not_sent").hint(resume));
    }
    let refused = totals.refused + totals.invalid;
    if refused > 0 {
        let message = format!("{refused} of {} emails were refused", job.total);
        let mut hint = format!("list them: {}", job.report);
        if totals.refused > 0 {
            hint += &format!("\nsend them again: {}", job.refused_again);
        }
        return Err(Failure::new(Kind::PartlyRefused, message)
            .code("bulk_partly_refused")
            .hint(hint));
    }
    Ok(())
}

/// A failure that usually means that nothing was sent, of a job of which a part was sent.
fn stopped_midway(failure: &mut Failure, job: &Summary) {
    let details = failure.details_mut();
    if !matches!(details.kind, Kind::Usage | Kind::InvalidInput) {
        return;
    }
    details.kind = match job.totals.unknown {
        0 => Kind::PartlyRefused,
        _ => Kind::OutcomeUnknown,
    };
    // It is that of the last request.
    details.outcome = None;
    details.message = format!(
        "the job stopped after {} of {} emails were accepted: {}",
        job.totals.accepted, job.total, details.message
    );
    if details.code.as_deref() == Some(RECIPIENT_GUARD) {
        details.hint = Some(SEE_RECIPIENT_GUARD.to_owned());
    }
}

/// Whether a failure of [`report`] means that a job has ended, if not as one would like.
pub fn is_result(failure: &Failure) -> bool {
    let ended = ["bulk_unknown", "bulk_partly_refused", "job_is_cancelled"];
    failure.details().code.as_deref().is_some_and(|code| ended.contains(&code))
}

/// Prints the first request of a job instead of sending it. `is_settled` tells which rows a resumed
/// job does not send.
pub fn show_first_request(
    context: &Context,
    client: &EmailClient,
    folder: &Path,
    plan: &Plan,
    is_settled: impl Fn(u64) -> bool,
) -> Result<(), Failure> {
    let renderer = Renderer::new(&plan.message)?;
    let mut first = Vec::<Email>::new();
    for row in emails(plan, folder)? {
        let row = row?;
        if !is_settled(row.number) {
            first.push(renderer.render(&row, plan.recipient(&row)).map_err(Failure::input)?);
        }
        if first.len() == 100 {
            break;
        }
    }
    if first.is_empty() {
        context.out.note("nothing is left to send");
        return Ok(());
    }
    dry_run::show(&context.out, &client.emails().send_batch(&first).to_request()?)
}

/// Checks all emails that are not sent yet with the recipient guard, so that none is sent if one is
/// not allowed.
pub async fn check_guard(
    context: &Context,
    client: &EmailClient,
    folder: &Path,
    plan: &Plan,
    is_settled: impl Fn(u64) -> bool,
    stop: &mut Stopper<'_>,
) -> Result<(), Failure> {
    let guard = &context.settings.guard;
    if guard.to_sdk().is_none() {
        return Ok(());
    }
    let renderer = Renderer::new(&plan.message)?;
    let mut recipients = 0_u64;
    for row in emails(plan, folder)? {
        let row = row?;
        stop.check().await?;
        if is_settled(row.number) {
            continue;
        }
        let Ok(email) = renderer.render(&row, plan.recipient(&row)) else { continue };
        client.emails().send(&email).to_request().map_err(|error| {
            let mut failure = Failure::from(error);
            let details = failure.details_mut();
            details.message = format!("row {}: {}", row.number, details.message);
            failure
        })?;
        recipients += 1;
    }
    if let Some(max) = guard.max_per_run.as_ref().filter(|max| recipients > u64::from(max.value)) {
        return Err(Failure::input(format!(
            "stopped by the recipient guard: {recipients} recipients exceed the limit of {} per \
             run",
            max.value
        ))
        .code(RECIPIENT_GUARD)
        .hint(RECIPIENT_GUARD_HINT));
    }
    let settings = &context.settings;
    match guard.for_run(&settings.state_dir, &settings.profile.value)? {
        Some(guard) if recipients > 0 => Ok(guard.check()?),
        _ => Ok(()),
    }
}

/// The rows of a state that a resumed job does not send.
pub fn settled_rows(folder: &Path, again: Again) -> Result<impl Fn(u64) -> bool + use<>, Failure> {
    let state = Journal::read(jobs::journal(folder)).and_then(|mut reader| reader.state());
    let state = state.map_err(|error| Failure::other(error.to_string()))?;
    Ok(move |row| match state.is_refused(row) {
        true => !again.refused,
        false => state.is_settled(row) || (state.is_unknown(row) && !again.unknown),
    })
}
