//! What an import reports: a result for each row, totals, and warnings about opt-outs.

use schemars::JsonSchema;
use serde::Serialize;
use svc_sdk::Outcome;

use super::rows::ImportRow;
use crate::context::Context;
use crate::failure::{Details, Failure, Kind};
use crate::output::{Column, Format, Show, View};

const VIEW: View = View(&[
    Column::new("ROW", "/row", Show::Number),
    Column::text("EMAIL", "/email"),
    Column::new("RESULT", "/result", Show::Status),
    Column::prose("WHY", "/why"),
]);

/// A row of the report.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ImportedRow {
    /// The row number as in a spreadsheet: the header is row 1.
    row: u64,
    /// The address as it is in the file.
    email: Option<String>,
    result: RowResult,
    /// The id of the contact.
    id: Option<String>,
    /// Whether the contact was skipped, although the file unsubscribes it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    still_subscribed: bool,
    /// Whether the contact has opted out, although the file subscribes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub(super) opt_out_kept: Option<bool>,
    /// The row that unsubscribes the contact, although this one subscribes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    unsubscribed_by: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Details")]
    error: Option<Box<Details>>,
    /// The row with the same address that is imported.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    duplicate_of: Option<u64>,
    /// What people have to know of the row.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    why: Option<String>,
}

/// What became of a row.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum RowResult {
    Created,
    Updated,
    #[default]
    Skipped,
    Duplicate,
    Failed,
    Unknown,
}

impl ImportedRow {
    /// A row, what became of it, and the id of its contact, if that is known.
    pub(super) fn new<'a>(
        row: &ImportRow,
        result: RowResult,
        id: impl Into<Option<&'a String>>,
    ) -> Self {
        let is_applied = matches!(result, RowResult::Created | RowResult::Updated);
        let by = row.unsubscribed_by.filter(|_| is_applied);
        Self {
            row: row.number,
            email: Some(row.email.clone()).filter(|email| !email.is_empty()),
            result,
            id: id.into().cloned(),
            unsubscribed_by: by,
            why: by.map(|row| format!("row {row} unsubscribes the contact")),
            ..Self::default()
        }
    }

    /// A row whose contact exists, and may remain subscribed although the file unsubscribes it.
    pub(super) fn skipped<'a>(
        row: &ImportRow,
        id: impl Into<Option<&'a String>>,
        still_subscribed: bool,
    ) -> Self {
        let why = still_subscribed.then(|| STILL_SUBSCRIBED.to_owned());
        Self { still_subscribed, why, ..Self::new(row, RowResult::Skipped, id) }
    }

    /// A row that was not imported, because its address is in an earlier one, or with this failure.
    pub(super) fn failed(row: &ImportRow, failure: &Failure) -> Self {
        let result = match (row.duplicate_of, failure.kind()) {
            (Some(_), _) => RowResult::Duplicate,
            (None, Kind::OutcomeUnknown) => RowResult::Unknown,
            (None, _) => RowResult::Failed,
        };
        let (duplicate_of, error) = (row.duplicate_of, failure.details().clone());
        let why = Some(error.message.clone());
        Self { error: Some(Box::new(error)), duplicate_of, why, ..Self::new(row, result, None) }
    }
}

/// The rows so far.
#[derive(Default)]
pub(super) struct ImportReport(Vec<ImportedRow>);

impl ImportReport {
    pub(super) fn add(&mut self, context: &Context, row: ImportedRow) -> Result<(), Failure> {
        if context.out.format() == Format::Ndjson {
            context.out.value(&row)?;
        }
        self.0.push(row);
        Ok(())
    }

    /// How many rows have this result.
    pub(super) fn count(&self, result: RowResult) -> usize {
        self.0.iter().filter(|row| row.result == result).count()
    }

    /// Prints the rows that people have to know of, and totals, in a table, and every row in JSON.
    pub(super) fn show(&self, context: &Context) -> Result<(), Failure> {
        match context.out.format() {
            Format::Ndjson => {}
            Format::Table => {
                self.show_reasons(context)?;
                let sentence = format!(
                    "{} rows: {} created, {} updated, {} skipped, {} duplicate, {} failed, \
                     {} unknown",
                    self.0.len(),
                    self.count(RowResult::Created),
                    self.count(RowResult::Updated),
                    self.count(RowResult::Skipped),
                    self.count(RowResult::Duplicate),
                    self.count(RowResult::Failed),
                    self.count(RowResult::Unknown),
                );
                context.out.done(&sentence, &())?;
            }
            _ => context.out.value(&self.0)?,
        }
        let kept_opt_outs = self.0.iter().filter(|row| row.opt_out_kept == Some(true)).count();
        if kept_opt_outs > 0 {
            context.out.warning(&format!(
                "{} unsubscribed, although the file says otherwise, because an opt-out in the \
                 service wins; --resubscribe applies the file",
                remain(kept_opt_outs)
            ));
        }
        Ok(())
    }

    /// The failure of a dry run with rows that would not be imported, which it shows.
    pub(super) fn dry_verdict(&self, context: &Context, total: usize) -> Result<(), Failure> {
        let Err(mut failure) = self.verdict(total) else { return Ok(()) };
        if context.out.is_table() {
            self.show_reasons(context)?;
        }
        let fields =
            self.0.iter().filter_map(|row| Some((format!("row {}", row.row), row.why.clone()?)));
        failure.details_mut().fields = fields.collect();
        Err(failure)
    }

    /// The failure that ended the import early. It must not suggest that no row was processed if
    /// the outcome of an earlier one is unknown.
    pub(super) fn after_unknown(&self, mut failure: Failure) -> Failure {
        let (details, unknown) = (failure.details_mut(), self.count(RowResult::Unknown));
        if unknown > 0 && matches!(details.kind, Kind::Unavailable | Kind::RateLimited) {
            details.kind = Kind::OutcomeUnknown;
            details.outcome = Some(Outcome::Unknown.as_str());
            details.message.push_str(&format!("; rows of unknown outcome: {unknown}"));
        }
        failure
    }

    /// The failure of an import that did not import every row.
    pub(super) fn verdict(&self, total: usize) -> Result<(), Failure> {
        let (mut problems, mut hints) = (Vec::new(), Vec::new());
        let [duplicates, failed, unknown] =
            [RowResult::Duplicate, RowResult::Failed, RowResult::Unknown].map(|it| self.count(it));
        if unknown > 0 {
            problems.push(format!("the outcome of {unknown} of {total} rows is unknown"));
        }
        if failed > 0 {
            problems.push(format!("{failed} of {total} rows failed"));
        }
        match (unknown, failed) {
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
        if duplicates > 0 {
            problems.push(format!("{duplicates} of {total} rows are duplicates"));
            hints.push(
                "an address is imported once, from its first row; an opt-out in any of its rows \
                 is applied. Remove the duplicates from the file",
            );
        }
        if let Some(problem) = self.still_subscribed() {
            problems.push(problem);
            hints.push(APPLY_OPT_OUTS);
        }
        if problems.is_empty() {
            return Ok(());
        }
        let (kind, code) = match unknown {
            0 => (Kind::PartlyRefused, "import_partly_refused"),
            _ => (Kind::OutcomeUnknown, "import_outcome_unknown"),
        };
        let mut failure = Failure::new(kind, problems.join(", ")).code(code).hint(hints.join("\n"));
        let remaining = self.0.iter().filter(|row| row.still_subscribed);
        let field = |row: &ImportedRow| (format!("row {}", row.row), STILL_SUBSCRIBED.to_owned());
        failure.details_mut().fields = remaining.map(field).collect();
        Err(failure)
    }

    /// Warns of opt-outs that an import that ended early has not applied.
    pub(super) fn warn(&self, context: &Context) {
        if let Some(problem) = self.still_subscribed() {
            context.out.warning(&format!("{problem}: {APPLY_OPT_OUTS}"));
        }
    }

    fn still_subscribed(&self) -> Option<String> {
        let count = self.0.iter().filter(|row| row.still_subscribed).count();
        let problem = || format!("{} subscribed, although the file says otherwise", remain(count));
        (count > 0).then(problem)
    }

    fn show_reasons(&self, context: &Context) -> Result<(), Failure> {
        let bad = self.0.iter().filter(|row| row.why.is_some()).collect::<Vec<_>>();
        if bad.is_empty() { Ok(()) } else { context.out.list(&bad, VIEW, "") }
    }
}

const STILL_SUBSCRIBED: &str = "the contact remains subscribed, although the file says otherwise";

/// The next step for contacts that remain subscribed.
const APPLY_OPT_OUTS: &str =
    "existing contacts are skipped; --existing update applies the opt-outs of the file";

fn remain(count: usize) -> String {
    if count == 1 { "1 contact remains".to_owned() } else { format!("{count} contacts remain") }
}
