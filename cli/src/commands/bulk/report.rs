//! The `svc bulk report` command.

use clap::Args;

use super::outcomes::Outcome;
use super::store::JobOption;
use crate::command_spec::local;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Items;
use crate::output_schema::of;

/// Show the outcome of every row of a job
///
/// CSV, unless --json or another --output selects another format. Rows that are not sent yet are missing. The
/// status is accepted, refused, invalid, unknown, left_out or, while the job runs, in_flight; after
/// --wait, the final status of the email, such as delivered or bounced. The code of an unknown row is
/// its cause, and the message of an accepted one tells if it was perhaps sent twice.
#[derive(Args, Debug)]
#[command(add = local(of::<Vec<Outcome>>))]
#[command(after_long_help = "\
Examples:
  svc bulk report 20261122-101500-1f3a9c02 > report.csv
  svc bulk report 20261122 -o ndjson \\
      --jq 'select(.status == \"unknown\") | .address'
  svc bulk report 20261122-101500-1f3a9c02 --queue redis://10.0.0.5 > report.csv")]
pub struct Report {
    #[command(flatten)]
    job: JobOption,
}

const COLUMNS: [&str; 7] = ["row", "address", "status", "id", "code", "when", "message"];

impl Report {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let job = self.job.find(context).await?;
        let mut items = Items::new(&context.out, &COLUMNS);
        job.report(|row| items.push(&row)).await?;
        items.finish()
    }
}
