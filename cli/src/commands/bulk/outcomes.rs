//! A row in a report.

use chrono::Utc;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svc_bulk::{RowRecord, RowStatus};

use crate::output::timestamp;

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
    pub fn new(row: RowRecord) -> Self {
        let is_accepted = row.status == RowStatus::Accepted;
        let status = match row.status {
            RowStatus::Waiting | RowStatus::Held => "not_sent",
            status => status.as_str(),
        };
        let mut status = status.to_owned();
        let mut message = row.why.message;
        if row.perhaps_twice {
            let text = if is_accepted {
                "perhaps sent twice: an earlier request has no known outcome"
            } else {
                "an earlier request has no known outcome"
            };
            message.get_or_insert_with(|| text.to_owned());
        }

        if let Some(known) = row.final_status.filter(|_| is_accepted) {
            status = known.status;
            message = known.reason.or(message);
        }
        Self {
            row: row.number,
            address: row.address,
            status,
            id: row.id,
            code: row.why.code,
            when: timestamp(row.at.unwrap_or_else(Utc::now)),
            message,
        }
    }

    /// The id of an email that was accepted, and whose final status is not known.
    pub fn accepted_id(self) -> Option<String> {
        self.id.filter(|_| self.status == "accepted")
    }

    /// Whether the service has accepted it, whatever has become of it since, but not cancelled it.
    pub fn is_accepted(&self) -> bool {
        self.status == "accepted" || (self.id.is_some() && self.status != "cancelled")
    }
}
