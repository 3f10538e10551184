//! What the entries of a journal say about each row.

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, TimeDelta, Utc};
use roaring::RoaringTreemap;

use crate::{JournalEntry, RowOutcome};

/// How many rows have which outcome, in all runs of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Accepted by the service.
    pub accepted: u64,
    /// Refused by the service.
    pub refused: u64,
    /// Not sent, because no valid email could be made of them.
    pub invalid: u64,
    /// Sent, but the service's response is missing: it may have accepted them. They are kept
    /// back.
    pub unknown: u64,
}

/// What is known about the rows of a job: what its entries say.
#[derive(Debug, Default)]
pub struct JournalState {
    /// Accepted, refused or invalid.
    settled: RoaringTreemap,
    refused: RoaringTreemap,
    /// Unknown rows that are to be sent again.
    resend: HashSet<u64>,
    accepted: u64,
    invalid: u64,
    /// Requests without a complete outcome, by their number.
    open: BTreeMap<u64, Open>,
    /// The request that a row without an outcome belongs to.
    request_of: HashMap<u64, u64>,
    next_request: u64,
}

/// A request without a complete outcome.
#[derive(Debug)]
pub(crate) struct Open {
    /// Its rows without an outcome.
    pub(crate) rows: Vec<u64>,
    pub(crate) key: Option<String>,
    at: DateTime<Utc>,
    in_flight: bool,
    /// Rows that were unknown before this request, too.
    before: HashSet<u64>,
    /// The number of rows in the request.
    sent: usize,
}

impl JournalState {
    /// Takes in the next entry.
    pub fn apply(&mut self, entry: &JournalEntry) {
        match entry {
            JournalEntry::Intent { request, at, key, rows, .. } => {
                self.intend(*request, *at, key.clone(), rows);
            }
            JournalEntry::Outcome { request, results, .. } => self.conclude(*request, results),
            JournalEntry::NotSent { request, .. } => self.take_back(*request),
            JournalEntry::Unknown { request, .. } => {
                if let Some(open) = self.open.get_mut(request) {
                    open.in_flight = false;
                }
            }
            JournalEntry::Invalid { row, .. } => {
                self.invalid += u64::from(self.settled.insert(*row));
            }
            JournalEntry::Reopened { rows, .. } => rows.iter().for_each(|row| self.reopen(*row)),
            JournalEntry::Settled { rows, .. } => rows.iter().for_each(|row| self.settle(*row)),
        }
    }

    /// How many rows have which outcome. Requests in flight are not counted.
    pub fn totals(&self) -> Totals {
        let unknown = self.open.values().filter(|open| !open.in_flight);
        Totals {
            accepted: self.accepted,
            refused: self.refused.len(),
            invalid: self.invalid,
            unknown: unknown.map(|open| open.rows.len() as u64).sum(),
        }
    }

    /// Whether a row was accepted, refused or is invalid, and is not to be sent again.
    pub fn is_settled(&self, row: u64) -> bool {
        self.settled.contains(row)
    }

    /// Whether a row was refused and is not to be sent again.
    pub fn is_refused(&self, row: u64) -> bool {
        self.refused.contains(row)
    }

    /// Whether a row was sent without a known outcome.
    pub fn is_unknown(&self, row: u64) -> bool {
        self.request_of.contains_key(&row)
    }

    /// Counts requests in flight as unknown. For the journal of a job that is not running.
    #[must_use]
    pub fn stopped(mut self) -> Self {
        self.open.values_mut().for_each(|open| open.in_flight = false);
        self
    }

    /// Whether a row is not to be sent: it is settled, or unknown and kept back.
    pub(crate) fn is_kept_back(&self, row: u64) -> bool {
        self.is_settled(row) || (self.is_unknown(row) && !self.resend.contains(&row))
    }

    /// The rows that were refused, and those that are unknown, as far as they are asked for.
    pub(crate) fn reopenable(&self, refused: bool, unknown: bool) -> Vec<u64> {
        let unknown = self.request_of.keys().filter(|_| unknown).copied();
        let mut rows = self.refused.iter().filter(|_| refused).chain(unknown).collect::<Vec<_>>();
        rows.sort_unstable();
        rows
    }

    /// The numbers of the requests in flight.
    #[cfg(feature = "redis")]
    pub(crate) fn in_flight(&self) -> Vec<u64> {
        self.open.iter().filter(|(_, open)| open.in_flight).map(|(request, _)| *request).collect()
    }

    pub(crate) fn next_request(&mut self) -> u64 {
        self.next_request += 1;
        self.next_request - 1
    }

    /// The request of an unknown row that can be repeated with its idempotency key.
    pub(crate) fn repeatable(
        &self,
        row: u64,
        now: DateTime<Utc>,
        life: TimeDelta,
    ) -> Option<(u64, &Open)> {
        let request = *self.request_of.get(&row)?;
        let open = self.open.get(&request)?;
        open.is_repeatable(now, life).then_some((request, open))
    }

    /// Whether any request can be repeated with its idempotency key.
    #[cfg(feature = "redis")]
    pub(crate) fn has_repeatable(&self, now: DateTime<Utc>, life: TimeDelta) -> bool {
        self.open.values().any(|open| open.is_repeatable(now, life))
    }

    fn intend(&mut self, request: u64, at: DateTime<Utc>, key: Option<String>, rows: &[u64]) {
        let mut before = HashSet::new();
        for row in rows {
            self.resend.remove(row);
            if let Some(earlier) = self.request_of.insert(*row, request) {
                before.insert(*row);
                self.close(earlier, &HashSet::from([*row]));
            }
        }
        self.next_request = self.next_request.max(request + 1);
        let (rows, sent) = (rows.to_vec(), rows.len());
        self.open.insert(request, Open { rows, key, at, in_flight: true, before, sent });
    }

    fn conclude(&mut self, request: u64, results: &[RowOutcome]) {
        let Some(open) = self.open.get_mut(&request) else { return };
        open.in_flight = false;
        let mut results = results.iter();
        open.rows.retain(|row| {
            match results.next() {
                Some(RowOutcome::Accepted(_)) => {
                    self.accepted += u64::from(self.settled.insert(*row));
                }
                Some(RowOutcome::Refused(_)) => {
                    if self.settled.insert(*row) {
                        self.refused.insert(*row);
                    }
                }
                Some(RowOutcome::Unknown) | None => return true,
            }
            self.request_of.remove(row);
            false
        });
        if open.rows.is_empty() {
            self.open.remove(&request);
        }
    }

    /// A request was not processed. Rows that were unknown before it still are.
    fn take_back(&mut self, request: u64) {
        let Some(open) = self.open.get_mut(&request) else { return };
        open.in_flight = false;
        open.key = None;
        let kept = |row: &u64| open.before.contains(row);
        let closed = open.rows.iter().copied().filter(|row| !kept(row)).collect::<HashSet<_>>();
        for row in &closed {
            self.request_of.remove(row);
        }
        self.close(request, &closed);
    }

    /// Removes rows from an open request.
    fn close(&mut self, request: u64, closed: &HashSet<u64>) {
        if let Some(open) = self.open.get_mut(&request) {
            open.rows.retain(|row| !closed.contains(row));
            if open.rows.is_empty() {
                self.open.remove(&request);
            }
        }
    }

    fn settle(&mut self, row: u64) {
        let Some(request) = self.request_of.remove(&row) else { return };
        self.close(request, &HashSet::from([row]));
        self.resend.remove(&row);
        self.accepted += u64::from(self.settled.insert(row));
    }

    fn reopen(&mut self, row: u64) {
        if self.refused.remove(row) {
            self.settled.remove(row);
        } else if self.is_unknown(row) {
            self.resend.insert(row);
        }
    }
}

impl Open {
    fn is_repeatable(&self, now: DateTime<Utc>, life: TimeDelta) -> bool {
        let age = now - self.at;
        // A clock that was set back does not tell the age.
        let is_alive = age >= TimeDelta::zero() && age < life;
        self.key.is_some() && is_alive && self.rows.len() == self.sent && !self.in_flight
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RowRefusal;

    fn intent(request: u64, rows: &[u64], key: Option<&str>) -> JournalEntry {
        let to = rows.iter().map(|row| format!("{row}@b.test")).collect();
        let key = key.map(str::to_owned);
        JournalEntry::Intent { request, at: Utc::now(), key, rows: rows.to_vec(), to }
    }

    fn outcome(request: u64, results: &[RowOutcome]) -> JournalEntry {
        JournalEntry::Outcome { request, at: Utc::now(), results: results.to_vec() }
    }

    fn state(entries: &[JournalEntry]) -> JournalState {
        let mut state = JournalState::default();
        entries.iter().for_each(|entry| state.apply(entry));
        state.stopped()
    }

    const DAY: TimeDelta = TimeDelta::days(1);

    #[test]
    fn a_request_without_an_outcome_is_unknown() {
        let accepted = RowOutcome::Accepted("eml_1".to_owned());
        let refused = RowOutcome::Refused(RowRefusal::new(Some("invalid"), None));
        let state = state(&[
            intent(0, &[1, 2, 5000], None),
            intent(1, &[6, 7], Some("k")),
            outcome(0, &[accepted, refused, RowOutcome::Unknown]),
        ]);
        let totals = Totals { accepted: 1, refused: 1, invalid: 0, unknown: 3 };
        assert_eq!(state.totals(), totals);
        assert!(state.is_settled(1) && state.is_settled(2) && !state.is_settled(5000));
        assert!(state.is_unknown(5000) && state.is_unknown(6) && !state.is_unknown(3));
        assert!(state.repeatable(6, Utc::now(), DAY).is_some_and(|(request, _)| request == 1));
        assert!(
            state.repeatable(6, Utc::now(), TimeDelta::zero()).is_none(),
            "the key has expired"
        );
        assert!(state.repeatable(5000, Utc::now(), DAY).is_none(), "no key");
    }

    #[test]
    fn a_request_that_was_not_processed_leaves_no_trace() {
        let not_sent = JournalEntry::NotSent { request: 0, at: Utc::now(), code: None };
        let state = state(&[intent(0, &[1, 2], None), not_sent]);
        assert_eq!(state.totals(), Totals::default());
        assert!(!state.is_unknown(1) && !state.is_settled(1));
    }

    #[test]
    fn an_unknown_row_that_is_sent_again_and_not_processed_stays_unknown() {
        let not_sent = JournalEntry::NotSent { request: 1, at: Utc::now(), code: None };
        let mut state =
            state(&[intent(0, &[1, 2], Some("k")), intent(1, &[1, 2, 3], Some("l")), not_sent]);
        assert_eq!(state.totals().unknown, 2);
        assert!(state.is_unknown(1) && !state.is_unknown(3));
        assert!(state.repeatable(1, Utc::now(), DAY).is_none(), "its key belongs to other rows");
        state.apply(&intent(2, &[1, 2], None));
        let accepted = RowOutcome::Accepted("eml_1".to_owned());
        state.apply(&outcome(2, &[accepted.clone(), accepted]));
        assert_eq!(state.totals(), Totals { accepted: 2, ..Totals::default() });
    }
}
