//! `svc bulk resume`: continues a stored job. It checks that this run may (`may_continue`: the same
//! service, the same recipient guard, the same key unless a person confirms another one), makes
//! refused, invalid or unknown rows wait again if that is asked for, and goes on with `run.rs`.
//! What is sent is what was checked at the start; only the audience is read again, because people
//! may have unsubscribed.

use clap::{Args, ValueEnum};
use svc_bulk::{RowStatus, SendState, Totals};
use svc_sdk::Operation::{ContactsList, EmailsGet, EmailsSendBatch};
use svc_sdk::{EmailClient, Service};

use super::again::Candidate;
use super::ledger::{JobOption, JobState, JobSummary, StoredJob};
use super::people::subscribers;
use super::plan::{Plan, PreparedRow, fingerprint};
use super::run;
use super::send::{check_limits, rate};
use super::wait::Wait;
use crate::command_spec::changes;
use crate::context::Context;
use crate::dry_run;
use crate::failure::{Failure, Kind};
use crate::output::to_value;
use crate::output_schema::of;
use crate::prepared::{confirm, decided};
use crate::settings::Key;
use crate::stop::StopSignal;
use crate::time_options;

/// Continue a job
///
/// Emails that were accepted are not sent again, and refused ones only with --refused; those that
/// were not sent are sent. Emails whose outcome is unknown are not sent, unless --unknown resend is
/// given, or the profile says that the service honors idempotency keys (`idempotency = "honored"` in its dialect).
/// What is sent is what was checked at the start, whatever has happened to the files since. The
/// audience of --audience is read again, and those who have unsubscribed since are left out.
///
/// A paused job goes on, also in the other processes that send it.
#[derive(Args, Debug)]
#[command(add = changes(&[EmailsSendBatch, ContactsList, EmailsGet], of::<JobSummary>).until_interrupted().with_scope("emails:send (and contacts:manage for a job with --audience, emails:read with --wait)"))]
#[command(after_long_help = "\
  svc bulk resume 20261122-101500-1f3a9c02
  svc bulk resume 20261122 --unknown resend
  svc bulk resume 20261122 --wait")]
pub struct Resume {
    #[command(flatten)]
    job: JobOption,
    /// What to do with emails whose outcome is unknown: hold or resend
    #[arg(
        long,
        value_name = "hold|resend",
        hide_possible_values = true,
        default_value = "hold"
    )]
    unknown: Unknown,
    /// Send refused emails again
    #[arg(long)]
    refused: bool,
    /// Try rows again of which no valid email could be made
    #[arg(long)]
    invalid: bool,
    /// Maximum emails per second from now on, such as 50/s
    #[arg(long, value_name = "N/s", value_parser = rate)]
    rate: Option<f64>,
    /// Send although a newer job has sent emails to half of these people
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    wait: Wait,
}

/// The choices for rows whose outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Unknown {
    /// Keep them back
    Hold,
    /// Send them again; some recipients may get the email twice
    Resend,
}

impl Resume {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let asked = [
            (self.refused, RowStatus::Refused),
            (self.invalid, RowStatus::Invalid),
            (self.unknown == Unknown::Resend, RowStatus::Unknown),
        ];
        let asked = asked.iter().filter(|(is_asked, _)| *is_asked);
        let again = &*asked.map(|(_, status)| *status).collect::<Vec<_>>();
        let mut job = self.job.find(context).await?;
        refuse_cancelled(context, &job)?;
        let (url, key) = context.clients.endpoint(Service::Email).await?;
        let client = context.clients.email_client_at(&url, &key)?;
        may_continue(context, &job.plan, job.id(), &key).await?;
        let mut stop = StopSignal::listen(context.settings.env.signals)?;
        let count = left(&job, again);
        let candidate = Candidate {
            ledger: &job.ledger,
            option: &self.job.ledger,
            id: job.id(),
            plan: &job.plan,
            email: job.record.email.as_deref(),
            count: job.record.totals.not_sent,
        };
        if !self.again && job.plan.only_to.is_none() {
            candidate.refuse_after(context, &job).await?;
        }
        if count > 0 {
            check_limits(context, count)?;
            check_time(context, &job.plan).await?;
        }
        let shown = show_left(context, &client, &job, again);
        decided(context, None, shown).await?;
        // A plan may be minutes old.
        job.reload().await?;
        refuse_cancelled(context, &job)?;
        if left(&job, again) > count {
            let problem = "nothing was sent: more emails are left to send than were shown";
            return Err(Failure::check(problem).code("plan_changed"));
        }

        let subscribers = subscribers(context, &client, &job.plan, &mut stop).await?;
        job.ledger.reopen(job.id(), again).await?;
        if let Some(rate) = self.rate {
            job.ledger.set_rate(job.id(), rate).await?;
        }
        job.ledger.set_state(job.id(), SendState::Running).await?;
        let concurrency = job.plan.concurrency;
        let subscribers = subscribers.as_ref();
        let sent = run::run(
            context,
            &client,
            concurrency,
            &mut job,
            subscribers,
            &mut stop,
        )
        .await;
        self.wait
            .after(sent, context, &client, &job, &mut stop)
            .await
    }
}

fn refuse_cancelled(context: &Context, job: &StoredJob) -> Result<(), Failure> {
    match job.state() {
        JobState::Cancelled => Err(Failure::new(Kind::Refused, "the job was cancelled")
            .code("job_is_cancelled")
            .hint(format!("send the file again: {}", job.without(context)))),
        _ => Ok(()),
    }
}

/// How many emails are to be sent.
fn left(job: &StoredJob, again: &[RowStatus]) -> u64 {
    let totals = job.record.totals;
    let counts = again.iter().map(|status| match status {
        RowStatus::Refused => totals.refused,
        RowStatus::Invalid => totals.invalid,
        RowStatus::Unknown => totals.unknown,
        _ => 0,
    });
    totals.not_sent + counts.sum::<u64>()
}

/// Asks whether emails whose time is over are sent now.
pub async fn check_time(context: &Context, plan: &Plan) -> Result<(), Failure> {
    let Some(at) = plan.scheduled_at() else {
        return Ok(());
    };
    // By the clock that the service sends by, as `--at` is.
    if at >= time_options::now(context).await? {
        return Ok(());
    }

    let at = context.out.local_time(&at.to_rfc3339());
    if !context.out.can_ask() {
        return Err(Failure::input(format!("the time of the job is over: {at}"))
            .code("job_is_overdue")
            .hint("resume it on a terminal, or send the file again with another --at"));
    }

    confirm(
        context,
        &format!("The emails were for {at}. Send them now?"),
    )
    .await
}

/// Shows the first email of those that are left, and how far the job is.
pub async fn show_left(
    context: &Context,
    client: &EmailClient,
    job: &StoredJob,
    again: &[RowStatus],
) -> Result<(), Failure> {
    let Totals {
        accepted,
        refused,
        invalid,
        unknown,
        ..
    } = job.record.totals;
    let count = left(job, again);
    context.out.note(&match count {
        0 => "nothing is left to send".to_owned(),
        count => format!("{count} emails are left to send"),
    });
    if unknown > 0 && !again.contains(&RowStatus::Unknown) {
        let resend = job.svc(context, "resume");
        context.out.note(&format!(
            "the outcome of {unknown} is unknown; to send them again: {resend} --unknown resend"
        ));
    }
    if count == 0 {
        return Ok(());
    }

    let statuses = [&[RowStatus::Waiting, RowStatus::Held], again].concat();
    let rows = job.ledger.rows(job.id(), 0, &statuses).await?;
    let renderer = job.renderer().await?;
    let mut first = Vec::new();
    if let Some(row) = rows.first() {
        let row: PreparedRow = serde_json::from_str(&row.data).map_err(std::io::Error::from)?;
        first.push(job.plan.render(&renderer, &row).map_err(Failure::input)?);
    }
    let request = client.emails().send_batch(&first).to_request()?;
    let counts = [
        ("emails", count.into()),
        ("accepted", accepted.into()),
        ("refused", refused.into()),
        ("invalid", invalid.into()),
        ("unknown", unknown.into()),
        ("left_out", to_value(&job.plan.left_out)?),
    ];
    dry_run::show_job(&context.out, &request, counts)
}

/// Whether a job may be continued with the settings of this run: the same service, the same
/// recipients, and the same key, or another one on the operator's word.
pub async fn may_continue(
    context: &Context,
    plan: &Plan,
    job: &str,
    key: &Key,
) -> Result<(), Failure> {
    plan.check_service(context)?;
    if let Some(guard) = &plan.recipients
        && context.settings.guard.recipients().as_ref() != Some(guard)
    {
        return Err(Failure::usage(format!(
            "the job was started with another recipient guard than this run has: {guard}"
        ))
        .code("recipient_guard")
        .hint("set the same rules and redirect again (docs/guides/recipient-guard.md)"));
    }

    if plan.key != fingerprint(job, key) {
        let question = "this is not the key that the job was started with, which may belong to \
                        another organization. Continue?";
        confirm(context, question).await?;
    }
    Ok(())
}
