//! The `svc bulk work` command.

use clap::Args;
use svc_bulk::Job;
use svc_sdk::Operation::{ContactsList, EmailsSendBatch};
use svc_sdk::{EmailClient, Service};

use super::people::subscribers;
use super::resume::{may_continue, show_left};
use super::run::{is_result, run};
use super::store::{Again, JobState, QueueOption, StoredJob, all, check_durability, find_id};
use crate::command_spec::changes;
use crate::commands::bulk::store::JobSummary;
use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::output_schema::of;
use crate::settings::{Key, Source};
use crate::stop::StopSignal;

/// Send the emails of a job in Redis, together with other workers
///
/// Ends when no row is left to send. Workers may join and leave at any time. If one dies, another
/// takes over what it has claimed after a minute, or one and a half times --timeout: the emails of
/// its requests in flight are unknown, or are repeated with their idempotency key if the profile says that the service
/// honors it; its other emails are sent.
///
/// The exit code is 11 if emails of the job are refused, 9 if the outcome of some is unknown, and
/// 130 after Ctrl-C.
#[derive(Args, Debug)]
#[command(add = changes(&[EmailsSendBatch, ContactsList], of::<JobSummary>).until_interrupted().with_scope("emails:send (and contacts:manage for a job with --audience)"))]
#[command(after_long_help = "\
  svc bulk work --queue redis://10.0.0.5
  svc bulk work 20261122-101500-1f3a9c02 --queue redis://10.0.0.5 \\
      --concurrency 8")]
pub struct Work {
    /// Job id, or its start [default: all jobs that have emails to send, the oldest first]
    #[arg(add = Values::Job.candidates())]
    job: Option<String>,
    #[command(flatten)]
    queue: QueueOption,
    /// Maximum requests in flight of this worker
    ///
    /// Each has up to 100 emails.
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    concurrency: u16,
}

impl Work {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let (url, key) = context.endpoint(Service::Email).await?;
        let client = context.email_client_at(&url, &key)?;
        let timeout = &context.settings.timeout;
        let queue = self.queue.connect(context).await?;
        let queue = match timeout.source != Source::Default {
            // The deadline of a request is at most two thirds of it.
            true => queue.lease(timeout.value * 3 / 2),
            false => queue,
        };
        check_durability(context, &queue).await?;
        let jobs = match &self.job {
            Some(job) => vec![StoredJob::queued(&queue, &find_id(&queue, job).await?).await?],
            None => {
                let mut jobs = all(context, false, Some(&queue), false).await?;
                jobs.retain(|job| matches!(job.state, JobState::Running | JobState::Paused));
                jobs.sort_by_key(|job| job.info.at);
                jobs
            }
        };
        if jobs.is_empty() {
            context.out.note("no job in Redis has emails to send");
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

    async fn work(
        &self,
        context: &Context,
        client: &EmailClient,
        key: &Key,
        mut job: StoredJob,
        stop: &mut StopSignal,
    ) -> Result<(), Failure> {
        may_continue(context, &job.plan, &job.info.job, key).await?;
        if context.settings.dry_run {
            let again = Again::default();
            return show_left(context, client, &job, job.left(again).await?, again).await;
        }
        let subscribers = subscribers(context, client, &job.plan, stop).await?;
        let sender = Job::new(client).concurrency(usize::from(self.concurrency));
        run(context, sender, &mut job, None, subscribers.as_ref(), stop).await
    }
}
