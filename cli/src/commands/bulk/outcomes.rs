//! What the entries of a journal say about each row.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_bulk::{JournalEntry, RowOutcome};

use super::plan::{LEFT_OUT, LeftOutRow};
use crate::failure::Failure;
use crate::output::timestamp;
use crate::private;

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

impl Outcome {
    /// The id of an email that was accepted.
    pub fn accepted_id(self) -> Option<String> {
        self.id.filter(|_| self.status == "accepted")
    }

    fn new(row: u64, address: String, status: &str, at: DateTime<Utc>) -> Self {
        let (status, when) = (status.to_owned(), timestamp(at));
        Self { row, address, status, id: None, code: None, when, message: None }
    }

    fn unknown(row: u64, address: String, cause: &str, at: DateTime<Utc>) -> Self {
        Self { code: Some(cause.to_owned()), ..Self::new(row, address, "unknown", at) }
    }
}

/// Reads the entries of a journal in their order. Only rows that a later entry may be about are kept
/// in memory.
#[derive(Default)]
pub struct Outcomes {
    /// Requests without an outcome, by their numbers.
    open: BTreeMap<u64, OpenRequest>,
    /// Rows that are refused or unknown so far.
    unsettled: BTreeMap<u64, Outcome>,
    /// Rows that were sent again while their outcome was unknown.
    perhaps_twice: HashSet<u64>,
}

struct OpenRequest {
    rows: Vec<u64>,
    to: Vec<String>,
    at: DateTime<Utc>,
    /// Why its response is lost.
    cause: Option<String>,
}

impl Outcomes {
    /// Takes in the next entry. Returns the rows whose outcome is final.
    pub fn take(&mut self, entry: JournalEntry) -> Vec<Outcome> {
        let mut settled = Vec::new();
        match entry {
            JournalEntry::Intent { request, at, rows, to, .. } => {
                self.open.insert(request, OpenRequest { rows, to, at, cause: None });
            }
            JournalEntry::Outcome { request, at, results } => {
                let Some(OpenRequest { rows, to, .. }) = self.open.remove(&request) else {
                    return settled;
                };
                for ((row, to), result) in rows.into_iter().zip(to).zip(results) {
                    let refused = match result {
                        RowOutcome::Accepted(id) => {
                            self.unsettled.remove(&row);
                            let twice = self.perhaps_twice.contains(&row);
                            let message = twice.then(|| PERHAPS_TWICE.to_owned());
                            let accepted = Outcome::new(row, to, "accepted", at);
                            settled.push(Outcome { id: Some(id), message, ..accepted });
                            continue;
                        }
                        RowOutcome::Refused(refusal) => Outcome {
                            code: refusal.code,
                            message: refusal.message,
                            ..Outcome::new(row, to, "refused", at)
                        },
                        _ => Outcome::unknown(row, to, "not_told", at),
                    };
                    self.unsettled.insert(row, refused);
                }
            }
            // Rows that were unknown before still are.
            JournalEntry::NotSent { request, .. } => _ = self.open.remove(&request),
            JournalEntry::Unknown { request, code, .. } => {
                if let Some(open) = self.open.get_mut(&request) {
                    open.cause = code.or_else(|| Some("no_response".to_owned()));
                }
            }
            JournalEntry::Reopened { rows, .. } => {
                for row in rows {
                    if self.unsettled.get(&row).is_some_and(|known| known.status == "refused") {
                        self.unsettled.remove(&row);
                    } else {
                        self.set_aside(row);
                        self.perhaps_twice.insert(row);
                    }
                }
            }
            JournalEntry::Settled { rows, at } => settled.extend(rows.into_iter().map(|row| {
                self.set_aside(row);
                let address = self.unsettled.remove(&row).map(|known| known.address);
                let message = Some("settled by hand".to_owned());
                let accepted = Outcome::new(row, address.unwrap_or_default(), "accepted", at);
                Outcome { message, ..accepted }
            })),
            JournalEntry::Invalid { row, at, message } => {
                let invalid = Outcome::new(row, String::new(), "invalid", at);
                settled.push(Outcome { message: Some(message), ..invalid });
            }
            _ => {}
        }
        settled
    }

    /// The other rows that were sent, at the end of the journal. If the job `is_running`, the
    /// requests without an outcome are in flight.
    pub fn finish(mut self, is_running: bool) -> impl Iterator<Item = Outcome> {
        for (_, OpenRequest { rows, to, at, cause }) in std::mem::take(&mut self.open) {
            for (row, to) in rows.into_iter().zip(to) {
                let outcome = match &cause {
                    None if is_running => Outcome::new(row, to, "in_flight", at),
                    cause => Outcome::unknown(row, to, cause.as_deref().unwrap_or(INTERRUPTED), at),
                };
                self.unsettled.insert(row, outcome);
            }
        }
        self.unsettled.into_values()
    }

    /// Takes a row out of a request that has no outcome.
    fn set_aside(&mut self, row: u64) {
        for open in self.open.values_mut() {
            if let Ok(at) = open.rows.binary_search(&row) {
                open.rows.remove(at);
                let cause = open.cause.as_deref().unwrap_or(INTERRUPTED);
                let unknown = Outcome::unknown(row, open.to.remove(at), cause, open.at);
                self.unsettled.insert(row, unknown);
            }
        }
    }
}

/// The cause if a process was killed before it had a response.
const INTERRUPTED: &str = "interrupted";

/// The message of a row that was accepted after an earlier request without a response.
const PERHAPS_TWICE: &str = "perhaps sent twice: an earlier request has no known outcome";

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

/// The final statuses of a job's emails, in its folder, so that a later run asks only for others.
const FINAL_STATUSES: &str = "deliveries.ndjson";

/// The final status of an email.
#[derive(Serialize, Deserialize)]
pub struct FinalStatus {
    pub row: u64,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl FinalStatus {
    /// The file in the folder of a job, to add to.
    pub fn append(folder: &Path) -> Result<File, Failure> {
        let mut file = private::append(&folder.join(FINAL_STATUSES))?;
        // Ends a line that a killed process did not complete.
        file.write_all(b"\n")?;
        Ok(file)
    }

    pub fn write(&self, file: &mut File) -> Result<(), Failure> {
        let line = serde_json::to_string(self).map_err(std::io::Error::from)?;
        Ok(file.write_all(format!("{line}\n").as_bytes())?)
    }

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
            if let Ok(known) = serde_json::from_str::<FinalStatus>(&line?) {
                rows.insert(known.row, known);
            }
        }
        Ok(rows)
    }
}
