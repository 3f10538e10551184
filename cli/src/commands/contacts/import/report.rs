//! What an import reports: a result for each row, totals, and warnings about opt-outs.

use serde_json::{Value, json};

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
            let bad =
                report.iter().filter(|e| e.get("error").is_some()).cloned().collect::<Vec<_>>();
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

/// How many rows were not imported.
#[derive(Clone, Copy, Default)]
pub(super) struct Failed {
    /// Without duplicates.
    pub(super) rows: usize,
    pub(super) duplicates: usize,
}

impl Failed {
    pub(super) fn count(&mut self, row: &FailedRow) {
        match row.duplicate_of {
            Some(_) => self.duplicates += 1,
            None => self.rows += 1,
        }
    }

    /// For a dry run, such as `; 3 invalid, 1 duplicate`.
    pub(super) fn described(self) -> String {
        format!("; {} invalid, {} duplicate", self.rows, self.duplicates)
    }

    /// The failure of an import that did not import every row.
    pub(super) fn verdict(self, total: usize) -> Result<(), Failure> {
        let (mut problems, mut hints) = (Vec::new(), Vec::new());
        if self.rows > 0 {
            problems.push(format!("{} of {total} rows failed", self.rows));
            hints.push(
                "fix these rows and run the import again with --existing update, \
                 which also completes contacts that were only created",
            );
        }
        if self.duplicates > 0 {
            problems.push(format!("{} of {total} rows are duplicates", self.duplicates));
            hints.push(
                "an address is imported once, from its first row; an opt-out in any of its rows \
                 is applied. Remove the duplicates from the file",
            );
        }
        match problems.is_empty() {
            true => Ok(()),
            false => Err(Failure::new(Kind::PartlyRefused, problems.join(", "))
                .code("import_partly_refused")
                .hint(hints.join("\n"))),
        }
    }
}

/// How many rows say something else than the service about who has opted out.
#[derive(Default)]
pub(super) struct OptOuts {
    skipped: usize,
    kept: usize,
}

impl OptOuts {
    pub(super) fn count(&mut self, entry: &Value) {
        self.skipped += usize::from(entry["still_subscribed"] == json!(true));
        self.kept += usize::from(entry["opt_out_kept"] == json!(true));
    }

    pub(super) fn warn(&self, context: &Context) {
        if self.skipped > 0 {
            context.out.warning(&format!(
                "{} subscribed, although the file says otherwise, because existing contacts are \
                 skipped; --existing update applies the opt-outs of the file",
                remain(self.skipped)
            ));
        }
        if self.kept > 0 {
            context.out.warning(&format!(
                "{} unsubscribed, although the file says otherwise, because an opt-out in the \
                 service wins; --resubscribe applies the file",
                remain(self.kept)
            ));
        }
    }
}

fn remain(count: usize) -> String {
    if count == 1 { "1 contact remains".to_owned() } else { format!("{count} contacts remain") }
}
