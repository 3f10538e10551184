//! The `svc bulk report` command.

use clap::Args;

use super::outcomes::Outcome;
use super::store::JobOption;
use crate::command_spec::local;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Format, View};
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
        let is_csv = match context.out.format() {
            Format::Csv => !context.out.has_filter(),
            _ => !context.out.has_explicit_format() || context.out.is_table(),
        };
        if is_csv {
            context.out.raw(&format!("{}\n", COLUMNS.join(",")))?;
        }
        let mut all = Vec::new();
        job.report(|row| {
            match context.out.format() {
                _ if is_csv => context.out.raw_data(&line(&row)?)?,
                Format::Ndjson => context.out.one(&row, View(&[]))?,
                _ => all.push(row),
            }
            Ok(())
        })
        .await?;
        match is_csv || context.out.format() == Format::Ndjson {
            true => Ok(()),
            false => context.out.value(&all),
        }
    }
}

fn line(row: &Outcome) -> Result<String, Failure> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    writer.serialize(row).map_err(|error| Failure::other(error.to_string()))?;
    let bytes = writer.into_inner().map_err(|error| Failure::other(error.to_string()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
