//! The `svc bulk work` command.

use clap::Args;
use svc_sdk::Operation::{ContactsList, EmailsSendBatch};
use svc_sdk::{EmailClient, Service};

use super::ledger::{JobOption, JobState, JobSummary, LedgerOption, StoredJob, all};
use super::people::subscribers;
use super::resume::{check_time, may_continue, show_left};
use super::run::{is_result, run};
use crate::command_spec::changes;
use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::output_schema::of;
use crate::prepared::decided;
use crate::settings::Key;
use crate::stop::StopSignal;

/// Send the emails of a job, together with other processes
///
/// Ends when no row is left to send. Workers may join and leave at any time, on any machine that
/// reaches the ledger. If one dies, others take over what it has claimed within seconds: the emails
/// of its requests in flight are unknown, or are repeated with their idempotency key if the profile
/// says that the service honors it; its other emails are sent.
///
/// The exit code is 11 if emails of the job are refused, 9 if the outcome of some is unknown, and
/// 130 after Ctrl-C.
#[derive(Args, Debug)]
#[command(add = changes(&[EmailsSendBatch, ContactsList], of::<JobSummary>).until_interrupted().with_scope("emails:send (and contacts:manage for a job with --audience)"))]
#[command(after_long_help = "\
  svc bulk work --ledger postgres://svc@10.0.0.5/svc
  svc bulk work 20261122-101500-1f3a9c02 --concurrency 8")]
pub struct Work {
    /// Job id, or its start [default: all jobs that have emails to send, the oldest first]
    #[arg(add = Values::Job.candidates())]
    job: Option<String>,
    #[command(flatten)]
    ledger: LedgerOption,
    /// Maximum requests in flight of this worker
    ///
    /// Each has up to 100 emails.
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    concurrency: u16,
}

impl Work {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let (url, key) = context.clients.endpoint(Service::Email).await?;
        let client = context.clients.email_client_at(&url, &key)?;
        let jobs = self.jobs(context).await?;
        if jobs.is_empty() {
            context.out.note("no job has emails to send");
            return Ok(());
        }

        let mut stop = StopSignal::listen(context.settings.env.signals)?;
        let mut first = None;
        for job in jobs {
            match self.work(context, &client, &key, job, &mut stop).await {
                // What became of one job does not keep back the others.
                Err(failure) if is_result(&failure) => {
                    first.get_or_insert(failure);
                }
                result => result?,
            }
        }

        first.map_or(Ok(()), Err)
    }

    /// The job that is named, or all that have emails to send, the oldest first.
    async fn jobs(&self, context: &Context) -> Result<Vec<StoredJob>, Failure> {
        if let Some(job) = self.job.clone() {
            let ledger = LedgerOption {
                ledger: self.ledger.ledger.clone(),
            };
            return Ok(vec![JobOption { job, ledger }.find(context).await?]);
        }

        let ledger = self.ledger.open(context).await?;
        let mut jobs = all(context, &ledger, &self.ledger).await?;
        jobs.retain(|job| {
            let is_refused = job.record.cause.is_some();
            let is_open = matches!(
                job.state(),
                JobState::Running | JobState::Incomplete | JobState::Paused
            );
            is_open && !is_refused
        });
        Ok(jobs)
    }

    async fn work(
        &self,
        context: &Context,
        client: &EmailClient,
        key: &Key,
        mut job: StoredJob,
        stop: &mut StopSignal,
    ) -> Result<(), Failure> {
        may_continue(context, &job.plan, job.id(), key).await?;
        let shown = show_left(context, client, &job, &[]);
        decided(context, None, shown).await?;
        if job.not_sent() > 0 {
            check_time(context, &job.plan).await?;
        }
        let subscribers = subscribers(context, client, &job.plan, stop).await?;
        let concurrency = usize::from(self.concurrency);
        run(
            context,
            client,
            concurrency,
            &mut job,
            subscribers.as_ref(),
            stop,
        )
        .await
    }
}
