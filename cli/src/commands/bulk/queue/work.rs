//! The `svc bulk work` command.

use std::io::ErrorKind;
use std::time::Duration;

use clap::Args;
use svc_bulk::{Job, JournalState, QueueState, QueueStatus, RedisQueue};
use svc_sdk::{EmailClient, Service};

use super::{QueueOption, Row, attachment, check_durability, find, plan_of, shown};
use crate::commands::bulk::drive::{self, Summary, is_result};
use crate::commands::bulk::message::Renderer;
use crate::commands::bulk::plan::Plan;
use crate::commands::bulk::resume::may_continue;
use crate::commands::bulk::subscribers::Subscribers;
use crate::context::Context;
use crate::dry_run;
use crate::failure::Failure;
use crate::input::duration;
use crate::output::to_value;
use crate::settings::Key;
use crate::stop::StopSignal;

/// Send the emails of a job in Redis, together with other workers
///
/// Ends when no row is left to send. Workers may join and leave at any time. If one dies, another
/// takes over what it has claimed when its lease has ended: the emails of its requests in flight
/// are unknown, or are repeated with their idempotency key if the profile says that the service
/// honors it; its other emails are sent.
///
/// The exit code is 11 if emails of the job are refused, 9 if the outcome of some is unknown, and
/// 130 after Ctrl-C.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc bulk work --queue redis://10.0.0.5
  svc bulk work 20261122-101500-1f3a9c02 --queue redis://10.0.0.5 \\
      --concurrency 8

Scope: emails:send (and contacts:manage for a job with --audience)")]
pub struct Work {
    /// Job id [default: all jobs that have emails to send, the oldest first]
    job: Option<String>,
    #[command(flatten)]
    queue: QueueOption,
    /// Name of this worker in the status [default: the name of the machine]
    #[arg(long, hide_short_help = true, value_name = "NAME")]
    name: Option<String>,
    /// Maximum requests in flight of this worker
    ///
    /// Each has up to 100 emails.
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    concurrency: u16,
    /// Time without a sign of a worker after which others take over its requests
    ///
    /// The deadline of a request is two thirds of it.
    #[arg(long, hide_short_help = true, value_name = "DURATION", value_parser = lease, default_value = "1m")]
    lease: Duration,
    /// Longest Retry-After of a 429 to wait for
    #[arg(long, hide_short_help = true, value_name = "DURATION", value_parser = duration::parse, default_value = "15m")]
    max_retry_after: Duration,
}

impl Work {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let (url, key) = context.endpoint(Service::Email).await?;
        let client = context.email_client_at(&url, &key)?;
        let queue = self.queue.connect(context).await?.lease(self.lease);
        check_durability(context, &queue).await?;
        let jobs = match &self.job {
            Some(job) => vec![find(&queue, job).await?],
            None => unfinished(&queue).await?,
        };
        if jobs.is_empty() {
            context.out.note("no job in Redis has emails to send");
            return Ok(());
        }
        let mut stop = StopSignal::listen_with_hangup(context.settings.env.signals)?;
        let mut first = None;
        for job in jobs {
            match self.work(context, (&client, &key), &queue, job, &mut stop).await {
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
        (client, key): (&EmailClient, &Key),
        queue: &RedisQueue,
        job: QueueStatus,
        stop: &mut StopSignal,
    ) -> Result<(), Failure> {
        let (id, plan) = (job.info.job.clone(), plan_of(&job)?);
        may_continue(context, &plan, &id, key).await?;
        let renderer = renderer(queue, &id, &plan).await?;
        if context.settings.dry_run {
            return show_first_request(context, client, queue, &job, &plan, &renderer).await;
        }
        let subscribers = match &plan.audience {
            Some(audience) => tokio::select! {
                read = Subscribers::read(context, client, audience) => Some(read?),
                _ = stop.recv() => return Err(context.changes.interruption()),
            },
            None => None,
        };
        // The address tells the row of the error apart from others.
        let render = |row: &Row| match &subscribers {
            Some(subscribers) if !subscribers.contains(&row.0) => {
                Err("not subscribed any more".to_owned())
            }
            _ => renderer.render_values(&row.1, plan.only_to.as_deref().unwrap_or(&row.0)),
        };
        let name = self.name.clone().unwrap_or_else(machine);
        let total = job.info.rows.unwrap_or_default();
        let sdk_job = Job::new(client)
            .concurrency(usize::from(self.concurrency))
            .max_retry_after(self.max_retry_after);
        let (interrupted, result) = drive::supervise(context, sdk_job, total, stop, async |job| {
            job.work(queue, &id, &name, render).await
        })
        .await;
        let status = find(queue, &id).await?;
        let option = self.queue.hint();
        let work = context.svc(&format!("bulk work {id}{option}"));
        let resume = format!("bulk status {id}{option} --resume");
        let summary = Summary {
            total,
            left_out: plan.left_out.total(),
            totals: status.totals,
            output: to_value(&shown(&status)?),
            resume: match status.state {
                QueueState::Paused => format!("{}\nthen: {work}", context.svc(&resume)),
                _ => work,
            },
            report: context.svc(&format!("bulk report {id}{option}")),
            again: context.svc(&format!("{resume} --unknown resend")),
            refused_again: context.svc(&format!("{resume} --refused")),
            is_cancelled: status.state == QueueState::Cancelled,
            job: id,
        };
        drive::report(context, &summary, interrupted, result.and_then(Result::err))
    }
}

/// The jobs that have rows to send, the oldest first.
async fn unfinished(queue: &RedisQueue) -> Result<Vec<QueueStatus>, Failure> {
    let mut jobs = Vec::new();
    for id in queue.jobs().await? {
        match queue.status(&id).await {
            Ok(status) if matches!(status.state, QueueState::Running | QueueState::Paused) => {
                jobs.push(status);
            }
            // Someone has deleted its keys.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(jobs)
}

async fn renderer(queue: &RedisQueue, job: &str, plan: &Plan) -> Result<Renderer, Failure> {
    let mut attachments = Vec::new();
    for (number, file) in plan.message.attachments.iter().enumerate() {
        let content = queue.file(job, &attachment(number)).await?;
        attachments.push(file.with_content(content));
    }
    Renderer::with_attachments(&plan.message, attachments)
}

async fn show_first_request(
    context: &Context,
    client: &EmailClient,
    queue: &RedisQueue,
    job: &QueueStatus,
    plan: &Plan,
    renderer: &Renderer,
) -> Result<(), Failure> {
    for chunk in 0..job.chunks {
        let mut state = JournalState::default();
        let entries = queue.entries(&job.info.job, chunk).await?;
        entries.iter().for_each(|entry| state.apply(entry));
        let mut first = Vec::new();
        for row in queue.rows::<Row>(&job.info.job, chunk).await? {
            if state.is_settled(row.number) || state.is_unknown(row.number) {
                continue;
            }
            let to = plan.only_to.as_deref().unwrap_or(&row.data.0);
            first.push(renderer.render_values(&row.data.1, to).map_err(Failure::input)?);
        }
        if !first.is_empty() {
            return dry_run::show(&context.out, &client.emails().send_batch(&first).to_request()?);
        }
    }
    context.out.note("nothing is left to send");
    Ok(())
}

/// The name of this machine.
fn machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok());
    let name = name.or_else(|| std::env::var("COMPUTERNAME").ok()).unwrap_or_default();
    match name.trim() {
        "" => "worker".to_owned(),
        name => name.to_owned(),
    }
}

/// Parses a lease, as clap's `value_parser`.
fn lease(text: &str) -> Result<Duration, String> {
    let lease = duration::parse(text)?;
    match lease {
        _ if lease < Duration::from_secs(1) => Err("the shortest lease is 1s".to_owned()),
        _ if lease > Duration::from_secs(86_400) => Err("the longest lease is 1d".to_owned()),
        _ => Ok(lease),
    }
}
