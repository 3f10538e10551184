//! The `svc bulk status` command.

use clap::Args;

use super::VIEW;
use super::jobs::Jobs;
use crate::context::Context;
use crate::failure::Failure;

/// Show how far a job is
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc bulk status 20261122-101500-1f3a9c02
  svc bulk status 20261122 --jq .unknown

Scope: none (works offline)")]
pub struct Status {
    /// Job id, or its start
    job: String,
}

impl Status {
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let job = Jobs::of(&context.settings).find(&self.job)?;
        context.out.one(&job.to_json(), VIEW)
    }
}
