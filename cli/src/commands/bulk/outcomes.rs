//! What a report tells of each row.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;

use chrono::Utc;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_bulk::RowState;

use crate::failure::Failure;
use crate::output::timestamp;
use crate::private;

/// A row of the report.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Outcome {
    pub row: u64,
    pub address: String,
    pub status: String,
    /// The id of the email.
    pub id: Option<String>,
    pub code: Option<String>,
    when: String,
    pub message: Option<String>,
}

impl Outcome {
    /// The id of an email that was accepted.
    pub fn accepted_id(self) -> Option<String> {
        self.id.filter(|_| self.status == "accepted")
    }

    /// Whether the service has accepted it, whatever has become of it since, but not cancelled it.
    pub fn is_accepted(&self) -> bool {
        self.status == "accepted" || (self.id.is_some() && self.status != "cancelled")
    }

    /// A row that is left out now.
    pub fn left_out(row: u64, address: String, code: String, message: String) -> Self {
        let (status, when) = ("left_out".to_owned(), timestamp(Utc::now()));
        Self {
            row,
            address,
            status,
            id: None,
            code: Some(code),
            when,
            message: Some(message),
        }
    }

    /// A row with what became of it.
    pub fn new(row: u64, address: String, state: RowState) -> Self {
        let RowState {
            status,
            at,
            id,
            why,
            ..
        } = state;
        let (code, message, when) = (why.code, why.message, timestamp(at));
        Self {
            row,
            address,
            status: status.to_owned(),
            id,
            code,
            when,
            message,
        }
    }
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
    /// Records the status of an email, if the job has a folder on this machine.
    pub fn write(&self, folder: Option<&Path>) -> Result<(), Failure> {
        let Some(folder) = folder else { return Ok(()) };
        let line = serde_json::to_string(self).map_err(std::io::Error::from)?;
        // A killed process may have left an incomplete line.
        let line = format!("\n{line}\n");
        Ok(private::append(&folder.join(FINAL_STATUSES))?.write_all(line.as_bytes())?)
    }

    /// The final statuses of a job's emails, by row.
    pub fn read(folder: Option<&Path>) -> HashMap<u64, FinalStatus> {
        let file = folder.map(|folder| File::open(folder.join(FINAL_STATUSES)));
        let Some(Ok(file)) = file else {
            return HashMap::new();
        };
        // What is not readable is asked for again.
        let known = BufReader::new(file).split(b'\n').map_while(Result::ok);
        let known = known.filter_map(|line| serde_json::from_slice::<FinalStatus>(&line).ok());
        known.map(|known| (known.row, known)).collect()
    }
}
