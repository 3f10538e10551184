//! The `svc bulk list` command.

use clap::Args;

use super::VIEW;
use super::jobs::{Job, Jobs};
use crate::context::Context;
use crate::failure::Failure;

/// List the jobs of this machine
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc bulk list
  svc bulk list --jq '.[] | select(.state != \"complete\") | .job'

Scope: none (works offline)")]
pub struct List {}

impl List {
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let jobs = Jobs::of(&context.settings).all()?;
        let jobs = jobs.iter().map(Job::to_json).collect::<Vec<_>>();
        context.out.list(&jobs, VIEW, "no jobs; start one with `svc bulk send`")
    }
}
