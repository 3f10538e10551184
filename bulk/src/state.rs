//! What the entries of a journal say about each row.

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, TimeDelta, Utc};
use roaring::RoaringTreemap;

use crate::{JournalEntry, RowOutcome, RowRefusal};

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
    /// Rows that were sent again while they were unknown.
    perhaps_twice: HashSet<u64>,
    /// Of each settled row, if that is asked for.
    outcomes: Option<HashMap<u64, RowState>>,
    accepted: u64,
    invalid: u64,
    /// Requests without a complete outcome, by their number.
    open: BTreeMap<u64, Open>,
    /// The request that a row without an outcome belongs to.
    request_of: HashMap<u64, u64>,
    next_request: u64,
}

/// What became of a row.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RowState {
    /// `accepted`, `refused`, `invalid`, `unknown` or `in_flight`.
    pub status: &'static str,
    /// When it was sent, or has got its outcome.
    pub at: DateTime<Utc>,
    /// The id of the email, if the service told it.
    pub id: Option<String>,
    /// What else is known. The code of an unknown row is that of the error, or `no_response`,
    /// `not_told` or `interrupted`; the message of an accepted one says if it was settled by hand, or
    /// perhaps sent twice.
    pub why: RowRefusal,
}

/// A request without a complete outcome.
#[derive(Debug)]
pub(crate) struct Open {
    /// Its rows without an outcome.
    pub(crate) rows: Vec<u64>,
    pub(crate) key: Option<String>,
    at: DateTime<Utc>,
    in_flight: bool,
    /// Why its rows have no outcome.
    cause: Option<String>,
    /// Rows that were unknown before this request, too: since when, and why.
    before: HashMap<u64, (DateTime<Utc>, Option<String>)>,
    /// Whether the request was not processed.
    taken_back: bool,
    /// The number of rows in the request.
    sent: usize,
}

impl JournalState {
    /// Nothing is known yet. What became of each row is remembered for [`row`](Self::row), which
    /// takes memory.
    pub fn with_rows() -> Self {
        Self { outcomes: Some(HashMap::new()), ..Self::default() }
    }

    /// What became of a row, if it was sent or is invalid.
    pub fn row(&self, row: u64) -> Option<RowState> {
        let Some(open) = self.request_of.get(&row).and_then(|request| self.open.get(request))
        else {
            return self.outcomes.as_ref()?.get(&row).cloned();
        };
        let (at, cause) = open.told(row);
        let (status, code) = match open.in_flight {
            true => ("in_flight", None),
            false => ("unknown", Some(cause.as_deref().unwrap_or("interrupted"))),
        };
        Some(RowState { status, at, id: None, why: RowRefusal::new(code, None) })
    }

    fn remember(
        &mut self,
        row: u64,
        status: &'static str,
        at: DateTime<Utc>,
        id: Option<&String>,
        why: RowRefusal,
    ) {
        if let Some(outcomes) = &mut self.outcomes {
            outcomes.insert(row, RowState { status, at, id: id.cloned(), why });
        }
    }

    /// Takes in the next entry.
    pub fn apply(&mut self, entry: &JournalEntry) {
        match entry {
            JournalEntry::Intent { request, at, key, rows, .. } => {
                self.intend(*request, *at, key.clone(), rows);
            }
            JournalEntry::Outcome { request, at, results } => {
                self.conclude(*request, *at, results);
            }
            JournalEntry::NotSent { request, .. } => self.take_back(*request),
            JournalEntry::Unknown { request, code, .. } => {
                if let Some(open) = self.open.get_mut(request) {
                    open.in_flight = false;
                    open.cause = Some(code.as_deref().unwrap_or("no_response").to_owned());
                }
            }
            JournalEntry::Invalid { row, at, message } => {
                self.invalid += u64::from(self.settled.insert(*row));
                self.remember(*row, "invalid", *at, None, RowRefusal::new(None, Some(message)));
            }
            JournalEntry::Reopened { rows, .. } => rows.iter().for_each(|row| self.reopen(*row)),
            JournalEntry::Settled { rows, at } => {
                rows.iter().for_each(|row| self.settle(*row, *at));
            }
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
        let mut before = HashMap::new();
        for row in rows {
            if self.resend.remove(row) {
                self.perhaps_twice.insert(*row);
            }
            if let Some(earlier) = self.request_of.insert(*row, request) {
                let told = self.open.get(&earlier).map(|open| open.told(*row));
                before.insert(*row, told.unwrap_or((at, None)));
                self.close(earlier, &HashSet::from([*row]));
            }
        }
        self.next_request = self.next_request.max(request + 1);
        let (rows, sent) = (rows.to_vec(), rows.len());
        let (in_flight, cause, taken_back) = (true, None, false);
        let open = Open { rows, key, at, in_flight, cause, before, taken_back, sent };
        self.open.insert(request, open);
    }

    fn conclude(&mut self, request: u64, at: DateTime<Utc>, results: &[RowOutcome]) {
        let Some(mut open) = self.open.remove(&request) else { return };
        open.in_flight = false;
        open.cause = Some("not_told".to_owned());
        let mut results = results.iter();
        open.rows.retain(|&row| {
            match results.next() {
                Some(RowOutcome::Accepted(id)) => {
                    self.accepted += u64::from(self.settled.insert(row));
                    let twice = self.perhaps_twice.contains(&row).then_some(PERHAPS_TWICE);
                    self.remember(row, "accepted", at, Some(id), RowRefusal::new(None, twice));
                }
                Some(RowOutcome::Refused(refusal)) => {
                    if self.settled.insert(row) {
                        self.refused.insert(row);
                    }
                    self.remember(row, "refused", at, None, refusal.clone());
                }
                Some(RowOutcome::Unknown) | None => return true,
            }
            self.request_of.remove(&row);
            false
        });
        if !open.rows.is_empty() {
            self.open.insert(request, open);
        }
    }

    /// A request was not processed. Rows that were unknown before it still are.
    fn take_back(&mut self, request: u64) {
        let Some(open) = self.open.get_mut(&request) else { return };
        (open.in_flight, open.taken_back) = (false, true);
        open.key = None;
        let kept = |row: &u64| open.before.contains_key(row);
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

    fn settle(&mut self, row: u64, at: DateTime<Utc>) {
        let Some(request) = self.request_of.remove(&row) else { return };
        self.close(request, &HashSet::from([row]));
        self.resend.remove(&row);
        self.accepted += u64::from(self.settled.insert(row));
        self.remember(row, "accepted", at, None, RowRefusal::new(None, Some("settled by hand")));
    }

    fn reopen(&mut self, row: u64) {
        if self.refused.remove(row) {
            self.settled.remove(row);
            self.outcomes.as_mut().map(|outcomes| outcomes.remove(&row));
        } else if self.is_unknown(row) {
            self.resend.insert(row);
        }
    }
}

const PERHAPS_TWICE: &str = "perhaps sent twice: an earlier request has no known outcome";

impl Open {
    /// When a row was sent, and why it has no outcome.
    fn told(&self, row: u64) -> (DateTime<Utc>, Option<String>) {
        let earlier = self.before.get(&row).filter(|_| self.taken_back);
        earlier.cloned().unwrap_or_else(|| (self.at, self.cause.clone()))
    }

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
    fn what_became_of_each_row_is_remembered_if_it_is_asked_for() {
        let at = Utc::now();
        let accepted = RowOutcome::Accepted("eml_1".to_owned());
        let refused = RowOutcome::Refused(RowRefusal::new(Some("invalid"), Some("no")));
        let code = Some("http_503".to_owned());
        let entries = [
            intent(0, &[1, 2, 3], None),
            outcome(0, &[accepted.clone(), refused, RowOutcome::Unknown]),
            intent(1, &[4, 5], None),
            JournalEntry::Unknown { request: 1, at, code },
            intent(2, &[6], None),
            JournalEntry::Invalid { row: 7, at, message: "empty".to_owned() },
            JournalEntry::Reopened { rows: vec![5], at, code: None },
            intent(3, &[5], None),
            outcome(3, &[accepted]),
            JournalEntry::Settled { rows: vec![3], at },
        ];
        let mut state = JournalState::with_rows();
        entries.iter().for_each(|entry| state.apply(entry));
        let row = |row: u64| {
            let RowState { status, id, why, .. } = state.row(row)?;
            Some(
                [Some(status.to_owned()), id, why.code, why.message].map(Option::unwrap_or_default),
            )
        };
        for (number, expected) in [
            (1, ["accepted", "eml_1", "", ""]),
            (2, ["refused", "", "invalid", "no"]),
            (3, ["accepted", "", "", "settled by hand"]),
            (4, ["unknown", "", "http_503", ""]),
            (5, ["accepted", "eml_1", "", PERHAPS_TWICE]),
            (6, ["in_flight", "", "", ""]),
            (7, ["invalid", "", "", "empty"]),
        ] {
            assert_eq!(row(number), Some(expected.map(str::to_owned)), "{number}");
        }
        assert_eq!(row(8), None);
        let state = state.stopped();
        assert_eq!(state.row(6).and_then(|row| row.why.code).as_deref(), Some("interrupted"));
        assert_eq!(self::state(&entries).row(1), None, "not asked for");
    }

    #[test]
    fn a_row_that_is_sent_again_has_the_cause_and_the_time_of_what_was_sent() {
        let at = Utc::now();
        let code = Some("http_503".to_owned());
        let mut state = JournalState::with_rows();
        for entry in [
            intent(0, &[1], None),
            JournalEntry::Unknown { request: 0, at, code: code.clone() },
            JournalEntry::Reopened { rows: vec![1], at, code: None },
        ] {
            state.apply(&entry);
        }
        let first = state.row(1).expect("known").at;
        state.apply(&intent(1, &[1, 2], None));
        let not_sent = JournalEntry::NotSent { request: 1, at, code: None };
        let killed = state.stopped();
        let cause = |row: u64| killed.row(row).and_then(|row| row.why.code);
        assert_eq!([1, 2].map(cause), [(); 2].map(|()| Some("interrupted".to_owned())));
        let mut taken_back = killed;
        taken_back.apply(&not_sent);
        let row = taken_back.row(1).expect("known");
        assert_eq!((row.at, row.why.code, taken_back.row(2)), (first, code, None));
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
