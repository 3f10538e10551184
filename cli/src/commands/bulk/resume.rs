//! The `svc bulk resume` command.

use std::time::Duration;

use clap::Args;
use svc_bulk::Journal;
use svc_sdk::Service;

use super::content::service;
use super::delivery::Wait;
use super::drive::{self, Again, RunOptions};
use super::jobs::{self, Jobs};
use super::options::Unknown;
use super::plan::{Plan, Stopper};
use super::subscribers::Subscribers;
use crate::confirm::confirm;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::input::duration;
use crate::settings::Key;
use crate::stop::StopSignal;

/// Continue a job
///
/// Emails that were accepted are not sent again, and refused ones only with --refused; those that
/// were not sent are sent.
/// Emails whose outcome is unknown are not sent, unless --unknown resend is given, or the profile
/// says that the service honors idempotency keys (`honors_idempotency_key`). The
/// attachments must be unchanged; the rows are those of the job's copy of the file. The audience of
/// --audience is read again, and those who have unsubscribed since are left out.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc bulk resume 20261122-101500-1f3a9c02
  svc bulk resume 20261122 --unknown resend
  svc bulk resume 20261122 --wait

Scope: emails:send (and contacts:manage for a job with --audience, emails:read with --wait)")]
pub struct Resume {
    /// Job id, or its start
    job: String,
    /// What to do with emails whose outcome is unknown: hold or resend
    #[arg(long, value_name = "hold|resend", hide_possible_values = true, default_value = "hold")]
    unknown: Unknown,
    /// Send refused emails again
    #[arg(long)]
    refused: bool,
    #[command(flatten)]
    wait: Wait,
    /// Longest Retry-After of a 429 to wait for
    #[arg(long, hide_short_help = true, value_name = "DURATION", value_parser = duration::parse, default_value = "15m")]
    max_retry_after: Duration,
}

impl Resume {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let folder = Jobs::of(&context.settings).find_folder(&self.job)?;
        let (info, plan) = jobs::read_info(&folder)?;
        let (url, key) = context.endpoint(Service::Email).await?;
        let client = context.email_client_at(&url, &key)?;
        may_continue(context, &plan, &info.job, &key).await?;
        let mut stop = StopSignal::listen_with_hangup(context.settings.env.signals)?;
        let mut stopper = Stopper::new(context, &mut stop);
        let source = plan.checksum(&folder, &mut stopper).await?;
        if source != info.source {
            return Err(Failure::input(
                "an attachment or the job's copy of the rows has changed since the job was started",
            )
            .code("source_changed")
            .hint(
                "restore it, or start a new job with the rows that `svc bulk report` does not list",
            ));
        }
        let again = Again { unknown: self.unknown == Unknown::Resend, refused: self.refused };
        if context.settings.dry_run {
            let settled = drive::settled_rows(&folder, again)?;
            return drive::show_first_request(context, &client, &folder, &plan, settled);
        }
        if context.settings.guard.to_sdk().is_some() {
            let settled = drive::settled_rows(&folder, again)?;
            drive::check_guard(context, &client, &folder, &plan, settled, &mut stopper).await?;
        }
        let journal =
            Journal::open(jobs::journal(&folder), &source).map_err(|error| match error.kind() {
                std::io::ErrorKind::WouldBlock => {
                    Failure::new(Kind::Refused, "another process is working on this job")
                        .code("job_is_running")
                }
                _ => Failure::other(format!("the journal cannot be opened: {error}")),
            })?;
        let subscribers = match &plan.audience {
            Some(audience) => tokio::select! {
                read = Subscribers::read(context, &client, audience) => Some(read?),
                _ = stop.recv() => return Err(context.changes.interruption()),
            },
            None => None,
        };
        let max_retry_after = self.max_retry_after;
        let options = RunOptions { again, max_retry_after, subscribers };
        let sent = drive::run(context, &client, &folder, &plan, journal, options, &mut stop).await;
        self.wait.after(sent, context, &client, &folder, &mut stop).await
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
    let here = service(context);
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
    let fingerprint = Plan::fingerprint(job, key);
    if plan.key.as_ref().is_some_and(|started_with| *started_with != fingerprint) {
        let question = "this is not the key that the job was started with, which may belong to \
                        another organization. Continue?";
        confirm(context, question).await?;
    }
    Ok(())
}
