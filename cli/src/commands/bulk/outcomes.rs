//! What the entries of a journal say about each row.

use std::collections::{HashMap, HashSet};
use std::io::BufRead;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use svc_sdk::bulk::{Entry, RowOutcome, State};

use super::plan::LEFT_OUT;
use crate::failure::Failure;
use crate::output::timestamp;

/// The rows of a request, their recipients, and its time.
type Request = (Vec<u64>, Vec<String>, DateTime<Utc>);

/// The requests of the journal so far.
pub struct Rows {
    /// The state at the end of the journal.
    state: State,
    /// Requests without an outcome: their rows, recipients and time.
    open: HashMap<u64, Request>,
    /// Those of them whose response is lost.
    lost: HashSet<u64>,
    /// Unknown rows that were reported.
    named: HashSet<u64>,
    /// The status of rows whose request has neither an outcome nor lost its response.
    missing: &'static str,
}

impl Rows {
    /// `state` is that at the end; `missing` is the status of rows in flight.
    pub fn new(state: State, missing: &'static str) -> Self {
        let (open, lost, named) = (HashMap::new(), HashSet::new(), HashSet::new());
        Self { state, open, lost, named, missing }
    }

    pub fn take(&mut self, entry: Entry) -> Vec<Value> {
        match entry {
            Entry::Intent { chunk, at, rows, to, .. } => {
                self.open.insert(chunk, (rows, to, at));
                Vec::new()
            }
            Entry::Outcome { chunk, at, results } => {
                let Some((rows, to, _)) = self.open.remove(&chunk) else { return Vec::new() };
                let rows = rows.into_iter().zip(to).zip(results);
                rows.filter_map(|((row, to), result)| self.row(row, &to, at, result, "unknown"))
                    .collect()
            }
            Entry::NotSent { chunk, .. } => {
                // Rows that were unknown before are named by their first request.
                let open = self.open.remove(&chunk);
                let (rows, to, at) = open.unwrap_or_default();
                let rows = rows.into_iter().zip(to);
                let unknown = RowOutcome::Unknown;
                rows.filter_map(|(row, to)| self.row(row, &to, at, unknown.clone(), "unknown"))
                    .collect()
            }
            Entry::Invalid { row, at, message } => {
                vec![value(row, "", "invalid", [None, None, Some(&message)], at)]
            }
            // The request may be repeated later.
            Entry::Unknown { chunk, .. } => {
                self.lost.insert(chunk);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// The rows of requests without an outcome.
    pub fn unfinished(mut self) -> Vec<Value> {
        let mut open = std::mem::take(&mut self.open).into_iter().collect::<Vec<_>>();
        open.sort_unstable_by_key(|(chunk, _)| *chunk);
        let mut all = Vec::new();
        for (chunk, (rows, to, at)) in open {
            let missing = if self.lost.contains(&chunk) { "unknown" } else { self.missing };
            for (row, to) in rows.into_iter().zip(to) {
                all.extend(self.row(row, &to, at, RowOutcome::Unknown, missing));
            }
        }
        all
    }

    /// `missing` is the status of a row without an outcome.
    fn row(
        &mut self,
        row: u64,
        to: &str,
        at: DateTime<Utc>,
        result: RowOutcome,
        missing: &str,
    ) -> Option<Value> {
        match result {
            RowOutcome::Accepted(id) => {
                Some(value(row, to, "accepted", [Some(&id), None, None], at))
            }
            RowOutcome::Refused { code, message } => {
                let texts = [None, code.as_deref(), message.as_deref()];
                Some(value(row, to, "refused", texts, at))
            }
            // Only if no later request told, and once.
            _ => (self.state.is_unknown(row) && self.named.insert(row))
                .then(|| value(row, to, missing, [None; 3], at)),
        }
    }
}

fn value(
    row: u64,
    address: &str,
    status: &str,
    [id, code, message]: [Option<&str>; 3],
    at: DateTime<Utc>,
) -> Value {
    let when = timestamp(at);
    json!({
        "row": row, "address": address, "status": status, "id": id, "code": code, "when": when,
        "message": message,
    })
}

/// Calls `each` for every row that was left out when the job was created.
pub fn left_out(
    lines: impl BufRead,
    created: DateTime<Utc>,
    mut each: impl FnMut(Value) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for line in lines.lines() {
        let line: Value = serde_json::from_str(&line?)
            .map_err(|_| Failure::other(format!("{LEFT_OUT} of the job is damaged")))?;
        each(json!({
            "row": line["row"],
            "address": line["address"],
            "status": "left_out",
            "id": null,
            "code": line["code"],
            "when": timestamp(created),
            "message": line["message"],
        }))?;
    }
    Ok(())
}
