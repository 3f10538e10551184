//! The `svc bulk report` command.

use std::io::BufReader;

use clap::{Args, ValueEnum};
use svc_bulk::Journal;

use super::delivery;
use super::jobs::{Job, Jobs};
use super::outcomes::{Outcome, Rows, left_out};
use super::plan::LEFT_OUT;
use super::queue::{self, QueueOption};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Format, View, to_value};

/// Show the outcome of every row of a job
///
/// Rows that are not sent yet are missing. The status is accepted, refused, invalid, unknown,
/// left_out or, while the job runs, in_flight; after --wait, that of the delivery, such as
/// delivered or bounced.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc bulk report 20261122-101500-1f3a9c02 > report.csv
  svc bulk report 20261122 -o ndjson \\
      --jq 'select(.status == \"unknown\") | .address'
  svc bulk report 20261122-101500-1f3a9c02 --queue redis://10.0.0.5 > report.csv

Scope: none (works offline)")]
pub struct Report {
    /// Job id, or its start
    job: String,
    #[command(flatten)]
    queue: QueueOption,
    /// Report format [default: csv; JSON with --json]
    #[arg(long, value_name = "csv|ndjson", hide_possible_values = true)]
    format: Option<ReportFormat>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// A header line and one line per row
    Csv,
    /// One JSON object per line
    Ndjson,
}

const COLUMNS: [&str; 7] = ["row", "address", "status", "id", "code", "when", "message"];

impl Report {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        context.check_format_option(self.format.is_some())?;
        let job = Jobs::of(&context.settings).find(&self.job);
        let in_queue = self.queue.is_of_other_machine(context, &job);
        let job = if in_queue { None } else { Some(job?) };
        let as_json = context.out.has_explicit_format() && !context.out.is_table();
        let csv = match self.format {
            Some(format) => format == ReportFormat::Csv,
            None => !as_json,
        };
        if csv {
            context.out.raw(&format!("{}\n", COLUMNS.join(",")))?;
        }
        let mut all = Vec::new();
        let each = |row: Outcome| {
            if csv {
                return context.out.raw_data(&line(&row)?);
            }
            match context.out.format() {
                Format::Ndjson => context.out.one(&row, View(&[]))?,
                _ if self.format == Some(ReportFormat::Ndjson) => {
                    context.out.raw_data(&format!("{}\n", to_value(&row)))?;
                }
                _ => all.push(row),
            }
            Ok(())
        };
        match &job {
            Some(job) => for_each_row(job, each)?,
            None => queue::report::for_each_row(context, &self.queue, &self.job, each).await?,
        }
        match csv || self.format.is_some() || context.out.format() == Format::Ndjson {
            true => Ok(()),
            false => context.out.value(&all),
        }
    }
}

/// Calls `each` for every row with an outcome, request by request. Reads the journal twice, so that
/// it need not be held in memory.
fn for_each_row(
    job: &Job,
    mut each: impl FnMut(Outcome) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let deliveries = delivery::read(&job.folder)?;
    let mut each = |mut row: Outcome| {
        if let Some(delivery) = deliveries.get(&row.row).filter(|_| row.status == "accepted") {
            row.status.clone_from(&delivery.status);
            row.message.clone_from(&delivery.reason);
        }
        each(row)
    };
    let failed = |error: std::io::Error| Failure::other(format!("the journal: {error}"));
    let records = || Journal::read(job.journal_path()).map_err(failed);
    let state = records()?.state().map_err(failed)?.stopped();
    let missing = if job.is_running { "in_flight" } else { "unknown" };
    let mut report = Rows::new(state, missing);
    for entry in records()? {
        for row in report.take(entry.map_err(failed)?) {
            each(row)?;
        }
    }
    for row in report.unfinished() {
        each(row)?;
    }
    left_out(BufReader::new(std::fs::File::open(job.folder.join(LEFT_OUT))?), job.info.at, each)
}

fn line(row: &Outcome) -> Result<String, Failure> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    writer.serialize(row).map_err(|error| Failure::other(error.to_string()))?;
    let bytes = writer.into_inner().map_err(|error| Failure::other(error.to_string()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
