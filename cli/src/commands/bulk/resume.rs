//! The `svc bulk resume` command.

use clap::{Args, ValueEnum};
use svc_bulk::QueueState;
use svc_sdk::Operation::{ContactsList, EmailsGet, EmailsSendBatch};
use svc_sdk::Service;

use super::again;
use super::jobs::{self, Jobs, LocalJob, Mark};
use super::plan::{self, Plan, fingerprint};
use super::prepare::in_background;
use super::run::{self, Again, RunOptions, open_rows};
use super::store::{JobOption, StoredJob, VIEW, open_journal};
use super::subscribers::Subscribers;
use super::wait::Wait;
use crate::command_spec::changes;
use crate::commands::bulk::store::JobSummary;
use crate::confirm::confirm;
use crate::context::Context;
use crate::dry_run;
use crate::failure::{Failure, Kind};
use crate::output_schema::of;
use crate::settings::Key;
use crate::stop::StopSignal;

/// Continue a job
///
/// Emails that were accepted are not sent again, and refused ones only with --refused; those that
/// were not sent are sent. Emails whose outcome is unknown are not sent, unless --unknown resend is
/// given, or the profile says that the service honors idempotency keys (`honors_idempotency_key`).
/// What is sent is what was checked at the start, whatever has happened to the files since. The
/// audience of --audience is read again, and those who have unsubscribed since are left out.
///
/// A job in Redis is made ready for its workers; start them with `svc bulk work`.
#[derive(Args, Debug)]
#[command(add = changes(&[EmailsSendBatch, ContactsList, EmailsGet], of::<JobSummary>).until_interrupted().with_scope("emails:send (and contacts:manage for a job with --audience, emails:read with --wait)"))]
#[command(after_long_help = "\
Examples:
  svc bulk resume 20261122-101500-1f3a9c02
  svc bulk resume 20261122 --unknown resend
  svc bulk resume 20261122 --wait")]
pub struct Resume {
    #[command(flatten)]
    job: JobOption,
    /// What to do with emails whose outcome is unknown: hold or resend
    #[arg(long, value_name = "hold|resend", hide_possible_values = true, default_value = "hold")]
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
        let again = Again { unknown: self.unknown == Unknown::Resend, refused: self.refused };
        match self.job.find(context).await? {
            StoredJob::Here(job) => self.run_here(context, *job, again).await,
            mut job => {
                job.set(QueueState::Running).await?;
                let StoredJob::Queued { queue, status, .. } = &job else { return Ok(()) };
                let id = &status.info.job;
                if again.unknown {
                    let chunks = queue.resend_unknown(id).await?;
                    let note = format!("{chunks} requests with unknown emails are sent again");
                    context.out.note(&note);
                }
                if again.refused {
                    let chunks = queue.resend_refused(id).await?;
                    let note = format!("{chunks} requests with refused emails are sent again");
                    context.out.note(&note);
                }
                let work = format!("bulk work {id}{}", self.job.queue.hint());
                context.out.hint(&format!("send them: {}", context.svc(&work)));
                // With what has changed.
                job.set(QueueState::Running).await?;
                context.out.one(&job.summary(), VIEW)
            }
        }
    }

    async fn run_here(
        &self,
        context: &Context,
        job: LocalJob,
        again: Again,
    ) -> Result<(), Failure> {
        let (folder, info, plan) = (&job.folder, &job.info, &job.plan);
        let jobs = Jobs::of(&context.settings);
        if !self.again {
            let open = open_rows(folder, again)?;
            let open = open.filter_map(|row| plan::hash_of(&row.ok()?.1.0)).collect();
            again::refuse_here(&jobs, context, plan, &open, Some(info))?;
        }
        if job.mark == Some(Mark::Cancelled) {
            return Err(Failure::new(Kind::Refused, "the job was cancelled")
                .code("job_is_cancelled")
                .hint("send the file again: svc bulk send … --again"));
        }
        let (url, key) = context.endpoint(Service::Email).await?;
        let client = context.email_client_at(&url, &key)?;
        may_continue(context, plan, &info.job, &key).await?;
        let mut stop = StopSignal::listen_with_hangup(context.settings.env.signals)?;
        let (of_job, its_plan) = (folder.clone(), plan.clone());
        let checked = in_background(context, &mut stop, move |_| its_plan.checksum(&of_job));
        if checked.await? != info.source {
            return Err(Failure::input("the rows of the job have changed since it was started")
                .code("source_changed")
                .hint(
                    "restore its folder, or start a new job with the rows that `svc bulk report` \
                     does not list",
                ));
        }
        let renderer = plan.renderer(folder)?;
        let guard = context.settings.guard.to_sdk();
        let (mut first, mut count) = (None, 0);
        for row in open_rows(folder, again)?.filter(|_| guard.is_some() || context.settings.dry_run)
        {
            let (number, row) = row?;
            let Ok(email) = plan.email(&renderer, &row) else { continue };
            if guard.is_some() {
                client.emails().send(&email).to_request().map_err(|error| {
                    let mut failure = Failure::from(error);
                    let details = failure.details_mut();
                    details.message = format!("row {number}: {}", details.message);
                    failure
                })?;
            }
            first.get_or_insert(email);
            count += 1;
        }
        if guard.is_some() && count > 0 {
            super::send::check_limits(context, count)?;
        }
        if context.settings.dry_run {
            let Some(first) = first else {
                context.out.note("nothing is left to send");
                return Ok(());
            };
            context.out.note(&format!("{count} emails are left to send"));
            let request = client.emails().send_batch(&[first]).to_request()?;
            return dry_run::show(&context.out, &request);
        }
        let journal = open_journal(&job)?;
        jobs::set_mark(folder, None)?;
        let subscribers = match &plan.audience {
            Some(audience) => tokio::select! {
                read = Subscribers::read(context, &client, audience) => Some(read?),
                _ = stop.recv() => return Err(context.changes.interruption()),
            },
            None => None,
        };
        let options = RunOptions { again, subscribers };
        let sent = run::run(context, &client, folder, plan, journal, options, &mut stop).await;
        self.wait.after(sent, context, &client, folder, &mut stop).await
    }
}

/// Whether a job may be continued with the settings of this run: the same service, the same
/// recipients, and the same key, or another one on the operator's word.
pub async fn may_continue(
    context: &Context,
    plan: &Plan,
    job: &str,
    key: &Key,
) -> Result<(), Failure> {
    let here = plan::service(context);
    if plan.service != here {
        return Err(Failure::usage(format!(
            "the job was started with {}, not with {here}",
            plan.service
        ))
        .hint("use the same profile or base URL as for `svc bulk send`"));
    }
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
