//! The report of `svc contacts import`. `ImportReport` takes each `ImportedRow` as it is done,
//! prints it at once or, in a table, only if people have to know of it, and keeps counts, so that a
//! large file stays out of memory. `verdict` is the failure of the whole: an unknown row counts
//! more than one that was not applied, and the hint says how the import is repeated.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::rows::ImportRow;
use crate::context::Context;
use crate::failure::{Details, Failure, Kind};
use crate::output::{Column, Format, ListWriter, View, to_value, unless_closed};

const VIEW: View = View(&[
    Column::number("ROW", "/row"),
    Column::text("EMAIL", "/email"),
    Column::status("RESULT", "/result"),
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
    /// The id of the contact.
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Details")]
    error: Option<Box<Details>>,
    /// The reason that people have to know.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(super) why: Option<String>,
}

/// The outcome of a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RowResult {
    Created,
    Updated,
    Skipped,
    /// The contact exists and was skipped, although the file unsubscribes it.
    RemainsSubscribed,
    Duplicate,
    Failed,
    Unknown,
}

impl RowResult {
    /// Whether the file was not applied.
    fn is_problem(self) -> bool {
        matches!(self, Self::RemainsSubscribed | Self::Failed | Self::Unknown)
    }
}

impl ImportedRow {
    /// A row, what became of it, and the id of its contact, if that is known.
    pub(super) fn new(row: &ImportRow, result: RowResult, id: Option<&String>) -> Self {
        Self {
            row: row.number,
            email: Some(row.contact.email.clone()).filter(|email| !email.is_empty()),
            result,
            id: id.cloned(),
            error: None,
            why: match result {
                RowResult::Created | RowResult::Updated => row.note.clone(),
                RowResult::RemainsSubscribed => Some(REMAINS_SUBSCRIBED.to_owned()),
                _ => None,
            },
        }
    }

    /// A row that was not imported, because its address is in an earlier one, or with this failure.
    pub(super) fn failed(row: &ImportRow, failure: &Failure) -> Self {
        let result = match failure.kind() {
            _ if row.is_duplicate => RowResult::Duplicate,
            Kind::OutcomeUnknown => RowResult::Unknown,
            _ => RowResult::Failed,
        };
        Self {
            error: Some(Box::new(Details::clone(failure))),
            why: Some(failure.message.clone()),
            ..Self::new(row, result, None)
        }
    }
}

/// The rows so far. Few of them are in memory.
pub(super) struct ImportReport {
    counts: BTreeMap<RowResult, usize>,
    /// The rows that people have to know of, for a table.
    told: Vec<ImportedRow>,
    list: ListWriter,
    /// The first rows that were not applied, and why.
    problems: Vec<(String, String)>,
    /// Whether it is that of a dry run, which shows requests.
    is_preview: bool,
}

impl ImportReport {
    pub(super) fn new() -> Self {
        Self {
            counts: BTreeMap::new(),
            told: Vec::new(),
            list: ListWriter::streamed(),
            problems: Vec::new(),
            is_preview: false,
        }
    }

    /// The report of a dry run.
    pub(super) fn preview() -> Self {
        Self {
            is_preview: true,
            ..Self::new()
        }
    }

    pub(super) fn add(&mut self, context: &Context, row: ImportedRow) -> Result<(), Failure> {
        *self.counts.entry(row.result).or_default() += 1;
        if row.result.is_problem() && self.problems.len() < 10 {
            let why = row.why.clone().map(|why| (format!("row {}", row.row), why));
            self.problems.extend(why);
        }
        let is_shown = !self.is_preview || context.out.format() == Format::Ndjson;
        if context.out.is_table() {
            self.told.extend(Some(row).filter(|row| row.why.is_some()));
        } else if is_shown {
            unless_closed(self.list.push(&context.out, to_value(&row)?))?;
        }
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.counts.values().sum()
    }

    /// Such as `8 rows, 3 duplicate, 1 failed`, with the results that are asked for.
    fn describe(&self, total: usize, is_told: impl Fn(RowResult) -> bool) -> String {
        let mut text = format!("{total} rows");
        for (result, count) in self.counts.iter().filter(|(result, _)| is_told(**result)) {
            let word = json!(result).as_str().unwrap_or_default().replace('_', " ");
            text.push_str(&format!(", {count} {word}"));
        }
        text
    }

    /// Ends the list of all rows; or prints the rows that people have to know of, and totals.
    pub(super) fn show(&mut self, context: &Context) -> Result<(), Failure> {
        if !context.out.is_table() {
            return std::mem::take(&mut self.list).finish(&context.out);
        }
        if !self.told.is_empty() {
            context.out.list(&self.told, VIEW, "")?;
        }
        let sentence = self.describe(self.len(), |_| true);
        context.out.done(&sentence, &())
    }

    /// The failure of an import that was ended early by another one, or that did not apply every row.
    pub(super) fn verdict(self, total: usize, end: Option<Failure>) -> Result<(), Failure> {
        let is_unknown = self.counts.contains_key(&RowResult::Unknown);
        let has_problem = self.counts.keys().any(|result| result.is_problem());
        let mut message = format!(
            "not applied in full: {}",
            self.describe(total, RowResult::is_problem)
        );
        match end {
            Some(end) if !is_unknown => {
                let hint = end.hint.iter().map(|hint| format!("{hint}\n"));
                let hint = hint.collect::<String>();
                let tried = self.len();
                let tried = format!("{tried} of {total} rows were tried; to go on, {AGAIN}");
                return Err(end.hint(hint + &tried));
            }
            // It must not suggest that no row was processed.
            Some(end) => message.push_str(&format!("; {}", end.message)),
            None if !has_problem => return Ok(()),
            None => {}
        }

        let (kind, code) = if is_unknown {
            (Kind::OutcomeUnknown, "import_outcome_unknown")
        } else {
            (Kind::PartlyRefused, "import_partly_refused")
        };
        let hint = format!("correct the file, and {AGAIN}");
        let mut failure = Failure::new(kind, message).code(code).hint(hint);
        failure.fields = self.problems;
        Err(failure)
    }
}

const AGAIN: &str = "run the import again with --existing update: it creates no contact twice, \
     completes those that were only created, and applies the opt-outs";

const REMAINS_SUBSCRIBED: &str = "the contact remains subscribed, although the file says \
     otherwise; --existing update applies its opt-outs";
