//! What a report tells of each row.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_bulk::RowState;

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

    /// A row with what became of it.
    pub fn new(row: u64, address: String, state: RowState) -> Self {
        let RowState { status, at, id, why, .. } = state;
        let (code, message, when) = (why.code, why.message, timestamp(at));
        Self { row, address, status: status.to_owned(), id, code, when, message }
    }
}

/// The rows that were left out when the job was created.
pub fn left_out(
    lines: impl BufRead,
    created: DateTime<Utc>,
) -> impl Iterator<Item = Result<Outcome, Failure>> {
    lines.lines().map(move |line| {
        let LeftOutRow { row, address, code, message } = serde_json::from_str(&line?)
            .map_err(|_| Failure::other(format!("{LEFT_OUT} of the job is damaged")))?;
        let (code, message, when) = (Some(code), Some(message), timestamp(created));
        Ok(Outcome { row, address, status: "left_out".to_owned(), id: None, code, when, message })
    })
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
