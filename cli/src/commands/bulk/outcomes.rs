//! What the entries of a journal say about each row.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_bulk::{JournalEntry, JournalState, RowOutcome};

use super::plan::{LEFT_OUT, LeftOutRow};
use crate::failure::Failure;
use crate::output::timestamp;

/// A row of the report.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Outcome {
    pub row: u64,
    pub address: String,
    pub status: String,
    /// The id of the email.
    pub id: Option<String>,
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
    /// Those of them whose response is lost, with the cause.
    lost: HashMap<u64, Option<String>>,
    /// Rows that were sent again while their outcome was unknown.
    perhaps_twice: HashSet<u64>,
    /// Rows that a response did not tell of.
    not_told: HashSet<u64>,
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
        let (open, lost, perhaps_twice, not_told, refused, named) = Default::default();
        Self { state, open, lost, perhaps_twice, not_told, refused, named, missing }
    }

    pub fn take(&mut self, entry: JournalEntry) -> Vec<Outcome> {
        match entry {
            JournalEntry::Intent { request, at, rows, to, .. } => {
                let unknown = rows.iter().filter(|row| self.state.was_reopened(**row));
                let unknown = unknown.filter(|row| {
                    self.not_told.contains(row)
                        || self.open.values().any(|(rows, ..)| rows.binary_search(row).is_ok())
                });
                self.perhaps_twice.extend(unknown.copied().collect::<Vec<_>>());
                self.open.insert(request, (rows, to, at));
                Vec::new()
            }
            JournalEntry::Settled { rows, at } => {
                let settled = |row: u64| {
                    let to = self
                        .open
                        .values()
                        .find_map(|(rows, to, _)| to.get(rows.binary_search(&row).ok()?).cloned());
                    let message = Some("settled by hand".to_owned());
                    Outcome { message, ..Outcome::new(row, to.unwrap_or_default(), "accepted", at) }
                };
                rows.into_iter().map(settled).collect()
            }
            JournalEntry::Outcome { request, at, results } => {
                let Some((rows, to, _)) = self.open.remove(&request) else { return Vec::new() };
                let rows = rows.into_iter().zip(to);
                let pairs = rows.clone().zip(&results);
                let unknown = pairs.filter(|(_, result)| **result == RowOutcome::Unknown);
                self.not_told.extend(unknown.map(|((row, _), _)| row).collect::<Vec<_>>());
                let not_told = (Some("not_told".to_owned()), "unknown");
                rows.zip(results)
                    .filter_map(|((row, to), result)| {
                        self.row(row, to, at, result, not_told.clone())
                    })
                    .collect()
            }
            JournalEntry::NotSent { request, .. } => {
                // Rows that were unknown before are named by their first request.
                let open = self.open.remove(&request);
                let (rows, to, at) = open.unwrap_or_default();
                let rows = rows.into_iter().zip(to);
                let unknown = (RowOutcome::Unknown, (None, "unknown"));
                rows.filter_map(|(row, to)| {
                    self.row(row, to, at, unknown.0.clone(), unknown.1.clone())
                })
                .collect()
            }
            JournalEntry::Invalid { row, at, message } => {
                let outcome = Outcome::new(row, String::new(), "invalid", at);
                vec![Outcome { message: Some(message), ..outcome }]
            }
            // The request may be repeated later.
            JournalEntry::Unknown { request, code, .. } => {
                self.lost.insert(request, code);
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
            let missing = match self.lost.get(&request) {
                Some(code) => (code.clone().or_else(|| Some("no_response".to_owned())), "unknown"),
                None if self.missing == "unknown" => (Some("interrupted".to_owned()), "unknown"),
                None => (None, self.missing),
            };
            for (row, to) in rows.into_iter().zip(to) {
                all.extend(self.row(row, to, at, RowOutcome::Unknown, missing.clone()));
            }
        }
        all
    }

    /// `missing` is the cause and the status of a row without an outcome.
    fn row(
        &mut self,
        row: u64,
        to: String,
        at: DateTime<Utc>,
        result: RowOutcome,
        (cause, missing): (Option<String>, &str),
    ) -> Option<Outcome> {
        match result {
            RowOutcome::Accepted(id) => {
                let twice = self.perhaps_twice.contains(&row);
                let message = twice.then(|| PERHAPS_TWICE.to_owned());
                Some(Outcome { id: Some(id), message, ..Outcome::new(row, to, "accepted", at) })
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
                .then(|| Outcome { code: cause, ..Outcome::new(row, to, missing, at) }),
        }
    }
}

/// The final statuses of a job's emails, in its folder, so that a later run asks only for others.
pub const FINAL_STATUSES: &str = "deliveries.ndjson";

/// The final status of an email.
#[derive(Serialize, Deserialize)]
pub struct FinalStatus {
    pub row: u64,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl FinalStatus {
    /// The final statuses of a job's emails, by row.
    pub fn read(folder: &Path) -> Result<HashMap<u64, FinalStatus>, Failure> {
        let file = match File::open(folder.join(FINAL_STATUSES)) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(HashMap::new()),
            Err(error) => return Err(error.into()),
        };
        let mut rows = HashMap::new();
        for line in BufReader::new(file).lines() {
            // What is not readable is asked for again.
            if let Ok(delivery) = serde_json::from_str::<FinalStatus>(&line?) {
                rows.insert(delivery.row, delivery);
            }
        }
        Ok(rows)
    }
}

/// The message of a row that was accepted after an earlier request without a response.
const PERHAPS_TWICE: &str = "perhaps sent twice: an earlier request has no known outcome";

impl Outcome {
    /// The id of an email that was accepted.
    pub fn accepted_id(self) -> Option<String> {
        self.id.filter(|_| self.status == "accepted")
    }

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
