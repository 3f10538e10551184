//! What the entries of a journal say about each row.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::BufRead;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::Serialize;
use svc_bulk::{JournalEntry, JournalState, RowOutcome};

use super::plan::{LEFT_OUT, LeftOutRow};
use crate::failure::Failure;
use crate::output::timestamp;

/// A row of the report.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Outcome {
    pub row: u64,
    address: String,
    pub status: String,
    /// The id of the email.
    id: Option<String>,
    code: Option<String>,
    when: String,
    pub message: Option<String>,
}

/// The rows of a request, their recipients, and its time.
type Request = (Vec<u64>, Vec<String>, DateTime<Utc>);

/// The requests of the journal so far.
pub struct Rows {
    /// The state at the end of the journal.
    state: JournalState,
    /// Requests without an outcome: their rows, recipients and time.
    open: HashMap<u64, Request>,
    /// Those of them whose response is lost.
    lost: HashSet<u64>,
    /// The last refusal of rows that were to be sent again.
    refused: BTreeMap<u64, Outcome>,
    /// Unknown rows that were reported.
    named: HashSet<u64>,
    /// The status of rows whose request has neither an outcome nor lost its response.
    missing: &'static str,
}

impl Rows {
    /// `state` is that at the end; `missing` is the status of rows in flight.
    pub fn new(state: JournalState, missing: &'static str) -> Self {
        let (open, lost, refused, named) = Default::default();
        Self { state, open, lost, refused, named, missing }
    }

    pub fn take(&mut self, entry: JournalEntry) -> Vec<Outcome> {
        match entry {
            JournalEntry::Intent { request, at, rows, to, .. } => {
                self.open.insert(request, (rows, to, at));
                Vec::new()
            }
            JournalEntry::Outcome { request, at, results } => {
                let Some((rows, to, _)) = self.open.remove(&request) else { return Vec::new() };
                let rows = rows.into_iter().zip(to).zip(results);
                rows.filter_map(|((row, to), result)| self.row(row, to, at, result, "unknown"))
                    .collect()
            }
            JournalEntry::NotSent { request, .. } => {
                // Rows that were unknown before are named by their first request.
                let open = self.open.remove(&request);
                let (rows, to, at) = open.unwrap_or_default();
                let rows = rows.into_iter().zip(to);
                let unknown = RowOutcome::Unknown;
                rows.filter_map(|(row, to)| self.row(row, to, at, unknown.clone(), "unknown"))
                    .collect()
            }
            JournalEntry::Invalid { row, at, message } => {
                let outcome = Outcome::new(row, String::new(), "invalid", at);
                vec![Outcome { message: Some(message), ..outcome }]
            }
            // The request may be repeated later.
            JournalEntry::Unknown { request, .. } => {
                self.lost.insert(request);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// The rows of requests without an outcome, and those that were refused more than once.
    pub fn unfinished(mut self) -> Vec<Outcome> {
        let mut open = std::mem::take(&mut self.open).into_iter().collect::<Vec<_>>();
        open.sort_unstable_by_key(|(request, _)| *request);
        let mut all = std::mem::take(&mut self.refused).into_values().collect::<Vec<_>>();
        all.retain(|row| self.state.is_refused(row.row));
        for (request, (rows, to, at)) in open {
            let missing = if self.lost.contains(&request) { "unknown" } else { self.missing };
            for (row, to) in rows.into_iter().zip(to) {
                all.extend(self.row(row, to, at, RowOutcome::Unknown, missing));
            }
        }
        all
    }

    /// `missing` is the status of a row without an outcome.
    fn row(
        &mut self,
        row: u64,
        to: String,
        at: DateTime<Utc>,
        result: RowOutcome,
        missing: &str,
    ) -> Option<Outcome> {
        match result {
            RowOutcome::Accepted(id) => {
                Some(Outcome { id: Some(id), ..Outcome::new(row, to, "accepted", at) })
            }
            RowOutcome::Refused(refusal) => {
                let (code, message) = (refusal.code, refusal.message);
                let refused = Outcome { code, message, ..Outcome::new(row, to, "refused", at) };
                if !self.state.was_reopened(row) {
                    return Some(refused);
                }
                // A later request may have another outcome.
                self.refused.insert(row, refused);
                None
            }
            // Only if no later request told, and once.
            _ => (self.state.is_unknown(row) && self.named.insert(row))
                .then(|| Outcome::new(row, to, missing, at)),
        }
    }
}

impl Outcome {
    fn new(row: u64, address: String, status: &str, at: DateTime<Utc>) -> Self {
        let (status, when) = (status.to_owned(), timestamp(at));
        Self { row, address, status, id: None, code: None, when, message: None }
    }
}

/// Calls `each` for every row that was left out when the job was created.
pub fn left_out(
    lines: impl BufRead,
    created: DateTime<Utc>,
    mut each: impl FnMut(Outcome) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for line in lines.lines() {
        let LeftOutRow { row, address, code, message } = serde_json::from_str(&line?)
            .map_err(|_| Failure::other(format!("{LEFT_OUT} of the job is damaged")))?;
        let outcome = Outcome::new(row, address, "left_out", created);
        each(Outcome { code: Some(code), message: Some(message), ..outcome })?;
    }
    Ok(())
}
