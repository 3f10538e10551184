//! What an import reports: a result for each row, totals, and warnings about opt-outs.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use svc_sdk::Outcome;

use super::rows::{ImportRow, InvalidRow};
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
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ImportedRow {
    /// The row number as in a spreadsheet: the header is row 1.
    row: u64,
    /// The address as it is in the file.
    email: Option<String>,
    result: RowResult,
    #[serde(flatten)]
    about: About,
}

/// What became of a row.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum RowResult {
    Created,
    Updated,
    Skipped,
    Duplicate,
    Failed,
    Unknown,
}

/// The fields that depend on the result.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum About {
    Imported {
        /// The id of the contact.
        id: Option<String>,
        /// Whether the contact was skipped, although the file unsubscribes it.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        still_subscribed: bool,
        /// Whether the contact has opted out, although the file subscribes it.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "bool")]
        opt_out_kept: Option<bool>,
        /// The row that unsubscribes the contact, although this one subscribes it.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "u64")]
        unsubscribed_by: Option<u64>,
    },
    Failed {
        error: Box<Details>,
        /// The row with the same address that is imported.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "u64")]
        duplicate_of: Option<u64>,
    },
}

impl ImportedRow {
    /// A row without a failure, and the id of its contact, if that is known.
    pub(super) fn imported<'a>(
        row: &ImportRow,
        result: RowResult,
        id: impl Into<Option<&'a String>>,
    ) -> Self {
        let id = id.into().cloned();
        let unsubscribed_by = row.unsubscribed_by.filter(|_| result != RowResult::Skipped);
        let about =
            About::Imported { id, still_subscribed: false, opt_out_kept: None, unsubscribed_by };
        Self { row: row.number, email: Some(row.email.clone()), result, about }
    }

    /// Sets whether the contact was skipped, although the file unsubscribes it.
    pub(super) fn subscribed(mut self, remains: bool) -> Self {
        if let About::Imported { still_subscribed, .. } = &mut self.about {
            *still_subscribed = remains;
        }
        self
    }

    /// Sets whether the contact has opted out, although the file subscribes it.
    pub(super) fn opt_out_kept(mut self, kept: Option<bool>) -> Self {
        if let About::Imported { opt_out_kept, .. } = &mut self.about {
            *opt_out_kept = kept;
        }
        self
    }

    pub(super) fn keeps_opt_out(&self) -> bool {
        matches!(self.about, About::Imported { opt_out_kept: Some(true), .. })
    }

    /// What people have to know of the row.
    fn why(&self) -> Option<Cow<'_, str>> {
        match &self.about {
            About::Imported { still_subscribed: true, .. } => Some(STILL_SUBSCRIBED.into()),
            About::Imported { unsubscribed_by, .. } => {
                unsubscribed_by.map(|row| format!("row {row} unsubscribes the contact").into())
            }
            About::Failed { error, .. } => Some(error.message.as_str().into()),
        }
    }
}

/// A row that people have to know of, with the reason.
#[derive(Serialize)]
struct ReportedRow<'a> {
    row: u64,
    email: Option<&'a str>,
    result: RowResult,
    why: Cow<'a, str>,
}

fn shown(entry: &ImportedRow) -> Option<ReportedRow<'_>> {
    let email = entry.email.as_deref();
    Some(ReportedRow { row: entry.row, email, result: entry.result, why: entry.why()? })
}

/// Prints failed rows and totals in a table, and every row in JSON.
pub(super) fn rows(context: &Context, report: &[ImportedRow], total: usize) -> Result<(), Failure> {
    match context.out.format() {
        Format::Ndjson => Ok(()),
        Format::Json | Format::Yaml | Format::Csv | Format::Bind | Format::Terraform => {
            context.out.value(&report)
        }
        Format::Table => {
            let count = |result| report.iter().filter(|entry| entry.result == result).count();
            let bad = report.iter().filter_map(shown).collect::<Vec<_>>();
            if !bad.is_empty() {
                context.out.list(&bad, VIEW, "")?;
            }
            let sentence = format!(
                "{total} rows: {} created, {} updated, {} skipped, {} duplicate, {} failed, {} unknown",
                count(RowResult::Created),
                count(RowResult::Updated),
                count(RowResult::Skipped),
                count(RowResult::Duplicate),
                count(RowResult::Failed),
                count(RowResult::Unknown),
            );
            context.out.done(&sentence, &())
        }
    }
}

const STILL_SUBSCRIBED: &str = "the contact remains subscribed, although the file says otherwise";

/// Prints the rows of a dry run that would not be imported.
pub(super) fn invalid(
    context: &Context,
    report: &[ImportedRow],
    failed: Failed,
    total: usize,
) -> Result<(), Failure> {
    let Err(mut failure) = failed.verdict(total) else { return Ok(()) };
    if context.out.is_table() {
        let bad = report.iter().filter_map(shown).collect::<Vec<_>>();
        context.out.list(&bad, VIEW, "")?;
    }
    let fields = report
        .iter()
        .filter_map(|entry| Some((format!("row {}", entry.row), entry.why()?.into_owned())));
    failure.details_mut().fields = fields.collect();
    Err(failure)
}

/// A row that was not imported.
pub(super) struct FailedRow {
    pub(super) number: u64,
    /// The address as it is in the file.
    pub(super) email: Option<String>,
    pub(super) duplicate_of: Option<u64>,
    pub(super) failure: Failure,
}

impl From<InvalidRow> for FailedRow {
    fn from(row: InvalidRow) -> Self {
        let failure = Failure::input(row.why);
        Self { number: row.number, email: row.email, duplicate_of: row.duplicate_of, failure }
    }
}

impl From<&FailedRow> for ImportedRow {
    fn from(row: &FailedRow) -> Self {
        let result = match (row.duplicate_of, row.failure.kind()) {
            (Some(_), _) => RowResult::Duplicate,
            (None, Kind::OutcomeUnknown) => RowResult::Unknown,
            (None, _) => RowResult::Failed,
        };
        let error = Box::new(row.failure.details().clone());
        let about = About::Failed { error, duplicate_of: row.duplicate_of };
        Self { row: row.number, email: row.email.clone(), result, about }
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
    pub(super) fn count(&mut self, entry: &ImportedRow) {
        match entry.result {
            RowResult::Duplicate => self.duplicates += 1,
            RowResult::Unknown => self.unknown += 1,
            RowResult::Failed => self.rows += 1,
            RowResult::Created | RowResult::Updated | RowResult::Skipped => {}
        }
        if matches!(entry.about, About::Imported { still_subscribed: true, .. }) {
            self.still_subscribed.push(entry.row);
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
