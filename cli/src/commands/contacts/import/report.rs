//! What an import reports: a result for each row, totals, and warnings about opt-outs.

use serde_json::{Value, json};

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
                "{total} rows: {} created, {} updated, {} skipped, {} failed, {} unknown",
                count("created"),
                count("updated"),
                count("skipped"),
                count("failed"),
                count("unknown"),
            );
            context.out.done(&sentence, &Value::Null)
        }
    }
}

/// Prints the invalid rows of a dry run.
pub(super) fn invalid(
    context: &Context,
    report: &[Value],
    failed: usize,
    total: usize,
) -> Result<(), Failure> {
    if failed == 0 {
        return Ok(());
    }
    if context.out.is_table() {
        context.out.list(report, VIEW, "")?;
    }
    let fields = report.iter().filter_map(|row| {
        let why = row["error"]["message"].as_str()?;
        Some((format!("row {}", row["row"]), why.to_owned()))
    });
    let mut failure =
        Failure::new(Kind::PartlyRefused, format!("{failed} of {total} rows are invalid"));
    failure.details_mut().fields = fields.collect();
    Err(failure.code("import_partly_refused"))
}

/// The entry of a row that failed.
pub(super) fn failed_entry(number: usize, email: Option<&str>, failure: &Failure) -> Value {
    let mut error = failure.to_json();
    let unknown = failure.kind() == Kind::OutcomeUnknown;
    let result = if unknown { "unknown" } else { "failed" };
    json!({"row": number, "email": email, "result": result, "error": error["error"].take()})
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
