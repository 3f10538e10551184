//! The `svc bulk list` command.

use clap::Args;
use serde_json::json;

use super::VIEW;
use super::jobs::{Job, Jobs, journal, name};
use crate::context::Context;
use crate::failure::Failure;

/// List the jobs of this machine, newest first
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc bulk list
  svc bulk list --jq '.[] | select(.state != \"complete\") | .job'

Scope: none (works offline)")]
pub struct List {}

impl List {
    pub fn run(self, context: &Context) -> Result<(), Failure> {
        let (mut jobs, mut damaged) = (Vec::new(), Vec::new());
        for folder in Jobs::of(&context.settings).folders()? {
            match Job::read(&folder) {
                Ok(job) => jobs.push(job),
                Err(failure) => {
                    context.out.warning(&failure.details().message);
                    let (id, journal) = (name(&folder), journal(&folder));
                    damaged.push(json!({"job": id, "state": "damaged", "journal": journal}));
                }
            }
        }
        jobs.sort_by_key(|job| std::cmp::Reverse(job.info.at));
        let jobs = jobs.iter().map(Job::to_json).chain(damaged).collect::<Vec<_>>();
        context.out.list(&jobs, VIEW, "no jobs; start one with `svc bulk send`")
    }
}
