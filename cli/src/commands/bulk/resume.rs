//! The `svc bulk resume` command.

use std::collections::HashSet;

use clap::{Args, ValueEnum};
use svc_bulk::{Journal, QueueState};
use svc_sdk::Operation::{ContactsList, EmailsGet, EmailsSendBatch};
use svc_sdk::Service;

use super::again;
use super::jobs;
use super::people::{in_background, subscribers};
use super::plan::{self, Plan, fingerprint, hash_of, rows};
use super::run::{self, Again};
use super::send::check_limits;
use super::store::{self, JobOption, Place, StoredJob, VIEW};
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
        let mut job = self.job.find(context).await?;
        let Place::Redis { queue, .. } = &job.place else {
            return self.run_here(context, job, again).await;
        };
        let (queue, id) = (queue.clone(), job.info.job.clone());
        job.set(QueueState::Running).await?;
        let note = |chunks: u64, what: &str| {
            context.out.note(&format!("{chunks} requests with {what} emails are sent again"));
        };
        if again.unknown {
            note(queue.resend_unknown(&id).await?, "unknown");
        }
        if again.refused {
            note(queue.resend_refused(&id).await?, "refused");
        }
        let work = format!("bulk work {id}{}", self.job.queue.hint());
        context.out.hint(&format!("send them: {}", context.svc(&work)));
        context.out.one(&StoredJob::queued(&queue, &id).await?.summary(), VIEW)
    }

    async fn run_here(
        &self,
        context: &Context,
        job: StoredJob,
        again: Again,
    ) -> Result<(), Failure> {
        let Place::Here { folder, wish, .. } = &job.place else { return Ok(()) };
        if *wish == QueueState::Cancelled {
            return Err(Failure::new(Kind::Refused, "the job was cancelled")
                .code("job_is_cancelled")
                .hint("send the file again: svc bulk send … --again"));
        }
        let (url, key) = context.endpoint(Service::Email).await?;
        let client = context.email_client_at(&url, &key)?;
        may_continue(context, &job.plan, &job.info.job, &key).await?;
        let mut stop = StopSignal::listen(context.settings.env.signals)?;
        // So that no other process sends it meanwhile.
        let journal = if context.settings.dry_run { None } else { Some(job.open_journal()?) };
        let is_dry = context.settings.dry_run;
        let (of_job, plan) = (folder.clone(), job.plan.clone());
        let open = in_background(context, &mut stop, move |_| {
            let known = Journal::read(jobs::journal(&of_job))?.state()?.stopped();
            let renderer = plan.renderer(&of_job)?;
            let (mut first, mut count, mut addresses) = (None, 0, HashSet::new());
            for row in rows(&of_job)? {
                let (number, row) = row?;
                let is_open = match known.is_refused(number) {
                    true => again.refused,
                    false => {
                        !known.is_settled(number) && (!known.is_unknown(number) || again.unknown)
                    }
                };
                if !is_open {
                    continue;
                }
                addresses.extend(hash_of(&row.0));
                count += 1;
                if is_dry && first.is_none() {
                    first = plan.render(&renderer, &row).ok();
                }
            }
            Ok((first, count, addresses))
        });
        let (first, count, addresses) = open.await?;
        if !self.again {
            let jobs = store::all(context, true, None).await?;
            again::refuse(context, &jobs, &job.plan, &addresses, Some(&job)).await?;
        }
        if count > 0 {
            check_limits(context, count)?;
        }
        let Some(journal) = journal else {
            let Some(first) = first else {
                context.out.note("nothing is left to send");
                return Ok(());
            };
            context.out.note(&format!("{count} emails are left to send"));
            let request = client.emails().send_batch(&[first]).to_request()?;
            return dry_run::show_job(&context.out, &request, count, &job.plan.left_out);
        };
        jobs::set_wish(folder, QueueState::Running)?;
        let subscribers = subscribers(context, &client, &job.plan, &mut stop).await?;
        let stored = (&**folder, &job.plan, journal);
        let sent = run::run(context, &client, stored, again, subscribers.as_ref(), &mut stop).await;
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
