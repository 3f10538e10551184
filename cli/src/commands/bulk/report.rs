//! The `svc bulk report` command.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader};

use chrono::{DateTime, SecondsFormat, Utc};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use svc_sdk::bulk::{Entry, FileJournal, RowOutcome, State};

use super::delivery;
use super::jobs::{Job, Jobs};
use super::plan::LEFT_OUT;
use super::queue::{self, QueueOption};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Format, View};

/// Show the outcome of every row of a job
///
/// Rows that are not sent yet are missing. The status is accepted, refused, invalid, unknown,
/// left_out or, while the job runs, in_flight; after --wait, that of the delivery, such as
/// delivered or bounced.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc bulk report 20261122-101500-1f3a9c02 > report.csv
  svc bulk report 20261122 -o ndjson --jq 'select(.status == \"unknown\") | .address'

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
        let each = |row| {
            if csv {
                return context.out.raw_data(&line(&row)?);
            }
            match context.out.format() {
                Format::Ndjson => context.out.one(&row, View(&[]))?,
                _ if self.format == Some(ReportFormat::Ndjson) => {
                    context.out.raw_data(&format!("{row}\n"))?;
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
            false => context.out.value(&Value::from(all)),
        }
    }
}

/// Calls `each` for every row with an outcome, request by request. Reads the journal twice, so that
/// it need not be held in memory.
fn for_each_row(
    job: &Job,
    mut each: impl FnMut(Value) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let deliveries = delivery::read(&job.folder)?;
    let mut each = |mut row: Value| {
        let delivery = row["row"].as_u64().and_then(|number| deliveries.get(&number));
        if let Some(delivery) = delivery.filter(|_| row["status"] == "accepted") {
            row["status"] = json!(delivery.status);
            row["message"] = json!(delivery.reason);
        }
        each(row)
    };
    let failed = |error: std::io::Error| Failure::other(format!("the journal: {error}"));
    let records = || FileJournal::read(job.journal_path()).map_err(failed);
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

/// Calls `each` for every row that was left out when the job was created.
pub fn left_out(
    lines: impl BufRead,
    created: DateTime<Utc>,
    mut each: impl FnMut(Value) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for line in lines.lines() {
        let line: Value = serde_json::from_str(&line?)
            .map_err(|_| Failure::other(format!("{LEFT_OUT} of the job is damaged")))?;
        each(json!({
            "row": line["row"],
            "address": line["address"],
            "status": "left_out",
            "id": null,
            "code": line["code"],
            "when": created.to_rfc3339_opts(SecondsFormat::Millis, true),
            "message": line["message"],
        }))?;
    }
    Ok(())
}

/// The rows of a request, their recipients, and its time.
type Request = (Vec<u64>, Vec<String>, DateTime<Utc>);

/// The requests of the journal so far.
pub struct Rows {
    /// The state at the end of the journal.
    state: State,
    /// Requests without an outcome: their rows, recipients and time.
    open: HashMap<u64, Request>,
    /// Those of them whose response is lost.
    lost: HashSet<u64>,
    /// Unknown rows that were reported.
    named: HashSet<u64>,
    /// The status of rows whose request has neither an outcome nor lost its response.
    missing: &'static str,
}

impl Rows {
    /// `state` is that at the end; `missing` is the status of rows in flight.
    pub fn new(state: State, missing: &'static str) -> Self {
        let (open, lost, named) = (HashMap::new(), HashSet::new(), HashSet::new());
        Self { state, open, lost, named, missing }
    }

    pub fn take(&mut self, entry: Entry) -> Vec<Value> {
        match entry {
            Entry::Intent { chunk, at, rows, to, .. } => {
                self.open.insert(chunk, (rows, to, at));
                Vec::new()
            }
            Entry::Outcome { chunk, at, results } => {
                let Some((rows, to, _)) = self.open.remove(&chunk) else { return Vec::new() };
                let rows = rows.into_iter().zip(to).zip(results);
                rows.filter_map(|((row, to), result)| self.row(row, &to, at, result, "unknown"))
                    .collect()
            }
            Entry::NotSent { chunk, .. } => {
                // Rows that were unknown before are named by their first request.
                let open = self.open.remove(&chunk);
                let (rows, to, at) = open.unwrap_or_default();
                let rows = rows.into_iter().zip(to);
                let unknown = RowOutcome::Unknown;
                rows.filter_map(|(row, to)| self.row(row, &to, at, unknown.clone(), "unknown"))
                    .collect()
            }
            Entry::Invalid { row, at, message } => {
                vec![value(row, "", "invalid", [None, None, Some(&message)], at)]
            }
            // The request may be repeated later.
            Entry::Unknown { chunk, .. } => {
                self.lost.insert(chunk);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// The rows of requests without an outcome.
    pub fn unfinished(mut self) -> Vec<Value> {
        let mut open = std::mem::take(&mut self.open).into_iter().collect::<Vec<_>>();
        open.sort_unstable_by_key(|(chunk, _)| *chunk);
        let mut all = Vec::new();
        for (chunk, (rows, to, at)) in open {
            let missing = if self.lost.contains(&chunk) { "unknown" } else { self.missing };
            for (row, to) in rows.into_iter().zip(to) {
                all.extend(self.row(row, &to, at, RowOutcome::Unknown, missing));
            }
        }
        all
    }

    /// `missing` is the status of a row without an outcome.
    fn row(
        &mut self,
        row: u64,
        to: &str,
        at: DateTime<Utc>,
        result: RowOutcome,
        missing: &str,
    ) -> Option<Value> {
        match result {
            RowOutcome::Accepted(id) => {
                Some(value(row, to, "accepted", [Some(&id), None, None], at))
            }
            RowOutcome::Refused { code, message } => {
                let texts = [None, code.as_deref(), message.as_deref()];
                Some(value(row, to, "refused", texts, at))
            }
            // Only if no later request told, and once.
            _ => (self.state.is_unknown(row) && self.named.insert(row))
                .then(|| value(row, to, missing, [None; 3], at)),
        }
    }
}

fn value(
    row: u64,
    address: &str,
    status: &str,
    [id, code, message]: [Option<&str>; 3],
    at: DateTime<Utc>,
) -> Value {
    let when = at.to_rfc3339_opts(SecondsFormat::Millis, true);
    json!({
        "row": row, "address": address, "status": status, "id": id, "code": code, "when": when,
        "message": message,
    })
}

fn line(row: &Value) -> Result<String, Failure> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let cells = COLUMNS.map(|column| match &row[column] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    });
    let failed = |error: csv::Error| Failure::other(error.to_string());
    writer.write_record(cells).map_err(failed)?;
    let bytes = writer.into_inner().map_err(|error| Failure::other(error.to_string()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
