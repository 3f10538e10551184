//! The `svc bulk resume` command.

use clap::{Args, ValueEnum};
use svc_bulk::{Job, SendState, Totals};
use svc_sdk::Operation::{ContactsList, EmailsGet, EmailsSendBatch};
use svc_sdk::{EmailClient, Service};

use super::again;
use super::jobs;
use super::people::subscribers;
use super::plan::{Plan, fingerprint};
use super::run;
use super::send::check_limits;
use super::store::{self, Again, JobOption, Left, StoredJob, VIEW};
use super::wait::Wait;
use crate::command_spec::changes;
use crate::commands::bulk::store::JobSummary;
use crate::context::Context;
use crate::dry_run;
use crate::failure::{Failure, Kind};
use crate::output::to_value;
use crate::output_schema::of;
use crate::prepared::confirm;
use crate::settings::Key;
use crate::stop::StopSignal;

/// Continue a job
///
/// Emails that were accepted are not sent again, and refused ones only with --refused; those that
/// were not sent are sent. Emails whose outcome is unknown are not sent, unless --unknown resend is
/// given, or the profile says that the service honors idempotency keys (`idempotency = "honored"` in its dialect).
/// What is sent is what was checked at the start, whatever has happened to the files since. The
/// audience of --audience is read again, and those who have unsubscribed since are left out.
///
/// A job in Redis is made ready for its workers; start them with `svc bulk work`.
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
    /// Send although a newer job has sent emails to half of these people
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    wait: Wait,
}

/// What to do with rows whose outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Unknown {
    /// Keep them back
    Hold,
    /// Send them again; some recipients may get the email twice
    Resend,
}

impl Resume {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let again = Again {
            unknown: self.unknown == Unknown::Resend,
            refused: self.refused,
        };
        let mut job = self.job.find(context).await?;
        if !job.is_here() {
            job.set(SendState::Running).await?;
            let count = job.reopen(again).await?;
            if count > 0 {
                context.out.note(&format!("{count} emails are sent again"));
            }
            context
                .out
                .hint(&format!("send them: {}", job.svc(context, "work")));
            return context.out.one(&job.summary(), VIEW);
        }
        if job
            .folder()
            .is_some_and(|folder| jobs::wish(folder) == SendState::Cancelled)
        {
            return Err(Failure::new(Kind::Refused, "the job was cancelled")
                .code("job_is_cancelled")
                .hint(format!("send the file again: {}", job.without(context))));
        }
        let (url, key) = context.endpoint(Service::Email).await?;
        let client = context.email_client_at(&url, &key)?;
        may_continue(context, &job.plan, &job.info.job, &key).await?;
        let mut stop = StopSignal::listen(context.settings.env.signals)?;
        // No other process sends the job from here on.
        let dry_run = context.settings.dry_run;
        let mut journal = (!dry_run).then(|| job.open_journal()).transpose()?;
        let left = context.unless_stopped(&mut stop, job.left(again)).await?;
        if !self.again {
            let queue = self.job.queue.if_set(context).await?;
            let jobs = store::all(context, true, queue.as_ref(), false).await?;
            again::refuse(context, &jobs, &job.plan, &left.addresses, Some(&job)).await?;
        }
        if left.count > 0 {
            check_limits(context, left.count)?;
        }
        if dry_run {
            return show_left(context, &client, &job, left, again).await;
        }
        let subscribers = subscribers(context, &client, &job.plan, &mut stop).await?;
        if let Some(journal) = &mut journal {
            journal.reopen(again.refused, again.unknown).await?;
        }
        job.set(SendState::Running).await?;
        let sender = Job::new(&client).concurrency(job.plan.concurrency);
        let subscribers = subscribers.as_ref();
        let sent = run::run(context, sender, &mut job, journal, subscribers, &mut stop).await;
        self.wait
            .after(sent, context, &client, &job, &mut stop)
            .await
    }
}

/// Shows the first emails of those that are left, and how far the job is.
pub async fn show_left(
    context: &Context,
    client: &EmailClient,
    job: &StoredJob,
    left: Left,
    again: Again,
) -> Result<(), Failure> {
    let Totals {
        accepted,
        refused,
        invalid,
        unknown,
        ..
    } = job.totals;
    let count = match left.count {
        0 => "nothing is left to send".to_owned(),
        count => format!("{count} emails are left to send"),
    };
    context.out.note(&count);
    if unknown > 0 && !again.unknown {
        let resend = context.svc("bulk resume {} --unknown resend", &[&job.info.job]);
        context.out.note(&format!(
            "the outcome of {unknown} is unknown; to send them again: {resend}"
        ));
    }
    if left.count == 0 {
        return Ok(());
    }
    let renderer = job.renderer().await?;
    let first = left.first.iter().map(|row| job.plan.render(&renderer, row));
    let first = first
        .collect::<Result<Vec<_>, _>>()
        .map_err(Failure::input)?;
    let request = client.emails().send_batch(&first).to_request()?;
    let counts = [
        ("emails", left.count.into()),
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
