//! The `svc bulk list` command.

use chrono::{DateTime, Utc};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::jobs::{Damaged, Job, Jobs, LocalJob, journal, name};
use super::queue::{QueueOption, QueuedJob};
use super::{VIEW, queue};
use crate::context::Context;
use crate::failure::Failure;

/// List the jobs of this machine and of a queue, newest first
///
/// With --queue, only those in Redis; with SVC_BULK_QUEUE, both.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc bulk list
  svc bulk list --jq '.[] | select(.state != \"complete\") | .job'
  svc bulk list --queue redis://10.0.0.5

Scope: none (works offline)")]
pub struct List {
    #[command(flatten)]
    queue: QueueOption,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Listed {
    Local(LocalJob),
    Queued(QueuedJob),
    Damaged(Damaged),
}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let (mut jobs, mut damaged) = (Vec::new(), Vec::new());
        if !self.queue.is_given() {
            of_this_machine(context, &mut jobs, &mut damaged)?;
        }
        if self.queue.is_set(context) {
            let mut queued = Vec::new();
            queue::list::read(context, &self.queue, &mut queued, &mut damaged).await?;
            jobs.extend(queued.into_iter().map(|(at, job)| (at, Listed::Queued(job))));
        }
        jobs.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        let jobs = jobs.into_iter().map(|(_, job)| job);
        let jobs = jobs.chain(damaged.into_iter().map(Listed::Damaged)).collect::<Vec<_>>();
        let none = match self.queue.is_given() {
            true => "no jobs in Redis; add one with `svc bulk plan`",
            false => "no jobs; start one with `svc bulk send`",
        };
        context.out.list(&jobs, VIEW, none)
    }
}

fn of_this_machine(
    context: &Context,
    jobs: &mut Vec<(DateTime<Utc>, Listed)>,
    damaged: &mut Vec<Damaged>,
) -> Result<(), Failure> {
    for folder in Jobs::of(&context.settings).folders()? {
        match Job::read(&folder) {
            Ok(job) => jobs.push((job.info.at, Listed::Local(job.shown()))),
            Err(failure) => {
                context.out.warning(&failure.details().message);
                damaged.push(Damaged::new(name(&folder), Some(journal(&folder))));
            }
        }
    }
    Ok(())
}
