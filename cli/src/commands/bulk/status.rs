//! The `svc bulk status` command.

use clap::Args;

use svc_bulk::QueueState;

use super::drive::Again;
use super::jobs::Jobs;
use super::options::Unknown;
use super::queue::QueueOption;
use super::{VIEW, queue};
use crate::context::Context;
use crate::failure::Failure;

/// Show how far a job is
///
/// With --queue, that of all workers together, and of each. --pause, --resume and --cancel reach all
/// workers within a second; requests in flight are completed.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc bulk status 20261122-101500-1f3a9c02
  svc bulk status 20261122 --jq .unknown
  svc bulk status 20261122-101500-1f3a9c02 --queue redis://10.0.0.5 --pause

Scope: none (works offline)")]
pub struct Status {
    /// Job id, or its start
    job: String,
    #[command(flatten)]
    queue: QueueOption,
    /// Let all workers of a job in Redis wait
    #[arg(long, conflicts_with_all = ["resume", "cancel"])]
    pause: bool,
    /// Let the workers of a job in Redis go on
    #[arg(long, conflicts_with = "cancel")]
    resume: bool,
    /// Stop the workers of a job in Redis for good
    #[arg(long)]
    cancel: bool,
    /// With --resume, what to do with emails whose outcome is unknown: hold or resend
    #[arg(
        long,
        value_name = "hold|resend",
        hide_possible_values = true,
        default_value = "hold",
        requires = "resume"
    )]
    unknown: Unknown,
    /// With --resume, send refused emails again
    #[arg(long, requires = "resume")]
    refused: bool,
}

impl Status {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let change = match self {
            Self { pause: true, .. } => Some(QueueState::Paused),
            Self { resume: true, .. } => Some(QueueState::Running),
            Self { cancel: true, .. } => Some(QueueState::Cancelled),
            _ => None,
        };
        let here = Jobs::of(&context.settings).find(&self.job);
        let again = Again { unknown: self.unknown == Unknown::Resend, refused: self.refused };
        if change.is_some() || self.queue.is_of_other_machine(context, &here) {
            return queue::status::run(context, &self.queue, &self.job, change, again).await;
        }
        context.out.one(&here?.shown(), VIEW)
    }
}
