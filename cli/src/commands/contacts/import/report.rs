//! What an import reports: a result for each row, totals, and warnings about opt-outs.

use serde_json::{Value, json};
use svc_sdk::Outcome;

use super::rows::InvalidRow;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::output::{Column, Format, Show, View};

pub(super) const VIEW: View = View(&[
    Column::new("ROW", "/row", Show::Number),
    Column::text("EMAIL", "/email"),
    Column::new("RESULT", "/result", Show::Status),
    Column::prose("WHY", "/error/message"),
]);

/// Prints failed rows and totals in a table, and every row in JSON.
pub(super) fn rows(context: &Context, report: &[Value], total: usize) -> Result<(), Failure> {
    match context.out.format() {
        Format::Ndjson => Ok(()),
        Format::Json | Format::Yaml => context.out.list(report, VIEW, ""),
        Format::Table => {
            let count = |result: &str| report.iter().filter(|e| e["result"] == result).count();
            let bad = report.iter().filter_map(shown).collect::<Vec<_>>();
            if !bad.is_empty() {
                context.out.list(&bad, VIEW, "")?;
            }
            let sentence = format!(
                "{total} rows: {} created, {} updated, {} skipped, {} duplicate, {} failed, {} unknown",
                count("created"),
                count("updated"),
                count("skipped"),
                count("duplicate"),
                count("failed"),
                count("unknown"),
            );
            context.out.done(&sentence, &Value::Null)
        }
    }
}

/// A row that people have to know of, with the reason.
fn shown(entry: &Value) -> Option<Value> {
    let mut entry = entry.clone();
    if entry["still_subscribed"] == json!(true) {
        entry["error"] = json!({"message": STILL_SUBSCRIBED});
    }
    entry.get("error").is_some().then_some(entry)
}

const STILL_SUBSCRIBED: &str = "the contact remains subscribed, although the file says otherwise";

/// Prints the rows of a dry run that would not be imported.
pub(super) fn invalid(
    context: &Context,
    report: &[Value],
    failed: Failed,
    total: usize,
) -> Result<(), Failure> {
    let Err(mut failure) = failed.verdict(total) else { return Ok(()) };
    if context.out.is_table() {
        context.out.list(report, VIEW, "")?;
    }
    let fields = report.iter().filter_map(|row| {
        let why = row["error"]["message"].as_str()?;
        Some((format!("row {}", row["row"]), why.to_owned()))
    });
    failure.details_mut().fields = fields.collect();
    Err(failure)
}

/// A row that was not imported.
pub(super) struct FailedRow {
    pub(super) number: usize,
    /// The address as it is in the file.
    pub(super) email: Option<String>,
    pub(super) duplicate_of: Option<usize>,
    pub(super) failure: Failure,
}

impl From<InvalidRow> for FailedRow {
    fn from(row: InvalidRow) -> Self {
        let failure = Failure::input(row.why);
        Self { number: row.number, email: row.email, duplicate_of: row.duplicate_of, failure }
    }
}

impl FailedRow {
    pub(super) fn entry(&self) -> Value {
        let result = match (self.duplicate_of, self.failure.kind()) {
            (Some(_), _) => "duplicate",
            (None, Kind::OutcomeUnknown) => "unknown",
            (None, _) => "failed",
        };
        let mut error = self.failure.to_json();
        let mut entry = json!({"row": self.number, "email": self.email, "result": result, "error": error["error"].take()});
        if let Some(first) = self.duplicate_of {
            entry["duplicate_of"] = first.into();
        }
        entry
    }
}

/// What was not imported.
#[derive(Default)]
pub(super) struct Failed {
    /// Without duplicates.
    pub(super) rows: usize,
    /// Rows that may have been imported.
    unknown: usize,
    pub(super) duplicates: usize,
    /// The numbers of skipped rows whose opt-out was not applied.
    still_subscribed: Vec<u64>,
}

impl Failed {
    pub(super) fn count(&mut self, row: &FailedRow) {
        match (row.duplicate_of, row.failure.kind()) {
            (Some(_), _) => self.duplicates += 1,
            (None, Kind::OutcomeUnknown) => self.unknown += 1,
            (None, _) => self.rows += 1,
        }
    }

    /// Counts a row without a failure.
    pub(super) fn count_entry(&mut self, entry: &Value) {
        if entry["still_subscribed"] == json!(true) {
            self.still_subscribed.extend(entry["row"].as_u64());
        }
    }

    /// The failure that ended the import early. It must not suggest that no row was processed if
    /// the outcome of an earlier one is unknown.
    pub(super) fn after_unknown(&self, mut failure: Failure) -> Failure {
        let details = failure.details_mut();
        if self.unknown > 0 && matches!(details.kind, Kind::Unavailable | Kind::RateLimited) {
            details.kind = Kind::OutcomeUnknown;
            details.outcome = Some(Outcome::Unknown.as_str());
            details.message =
                format!("{}; rows of unknown outcome: {}", details.message, self.unknown);
        }
        failure
    }

    /// For a dry run, such as `; 3 invalid, 1 duplicate`.
    pub(super) fn described(&self) -> String {
        format!("; {} invalid, {} duplicate", self.rows, self.duplicates)
    }

    /// The failure of an import that did not import every row.
    pub(super) fn verdict(self, total: usize) -> Result<(), Failure> {
        let (mut problems, mut hints) = (Vec::new(), Vec::new());
        if self.unknown > 0 {
            problems.push(format!("the outcome of {} of {total} rows is unknown", self.unknown));
        }
        if self.rows > 0 {
            problems.push(format!("{} of {total} rows failed", self.rows));
        }
        match (self.unknown, self.rows) {
            (0, 0) => {}
            (0, _) => hints.push(
                "fix these rows and run the import again with --existing update, \
                 which also completes contacts that were only created",
            ),
            _ => hints.push(
                "run the import again with --existing update, which creates no contact twice and \
                 completes those that were only created",
            ),
        }
        if self.duplicates > 0 {
            problems.push(format!("{} of {total} rows are duplicates", self.duplicates));
            hints.push(
                "an address is imported once, from its first row; an opt-out in any of its rows \
                 is applied. Remove the duplicates from the file",
            );
        }
        if !self.still_subscribed.is_empty() {
            problems.push(still_subscribed(self.still_subscribed.len()));
            hints.push(APPLY_OPT_OUTS);
        }
        if problems.is_empty() {
            return Ok(());
        }
        let (kind, code) = match self.unknown {
            0 => (Kind::PartlyRefused, "import_partly_refused"),
            _ => (Kind::OutcomeUnknown, "import_outcome_unknown"),
        };
        let mut failure = Failure::new(kind, problems.join(", ")).code(code).hint(hints.join("\n"));
        let row = |row: &u64| (format!("row {row}"), STILL_SUBSCRIBED.to_owned());
        failure.details_mut().fields = self.still_subscribed.iter().map(row).collect();
        Err(failure)
    }

    /// Warns of opt-outs that an import that ended early has not applied.
    pub(super) fn warn(&self, context: &Context) {
        if !self.still_subscribed.is_empty() {
            let problem = still_subscribed(self.still_subscribed.len());
            context.out.warning(&format!("{problem}: {APPLY_OPT_OUTS}"));
        }
    }
}

/// The next step for contacts that remain subscribed.
const APPLY_OPT_OUTS: &str =
    "existing contacts are skipped; --existing update applies the opt-outs of the file";

fn still_subscribed(count: usize) -> String {
    format!("{} subscribed, although the file says otherwise", remain(count))
}

/// Warns of contacts that the file subscribes, but that have opted out.
pub(super) fn warn_of_kept_opt_outs(context: &Context, kept: usize) {
    if kept > 0 {
        context.out.warning(&format!(
            "{} unsubscribed, although the file says otherwise, because an opt-out in the \
             service wins; --resubscribe applies the file",
            remain(kept)
        ));
    }
}

fn remain(count: usize) -> String {
    if count == 1 { "1 contact remains".to_owned() } else { format!("{count} contacts remain") }
}
