//! What the entries of a journal say about each row.

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};

use crate::{Entry, RowOutcome};

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

/// What is known about the rows of a job.
#[derive(Debug, Default)]
pub struct State {
    settled: RowSet,
    accepted: u64,
    refused: u64,
    invalid: u64,
    /// Requests without a complete outcome, by their number.
    open: BTreeMap<u64, Open>,
    /// The request that a row without an outcome belongs to.
    chunk_of: HashMap<u64, u64>,
    next_chunk: u64,
    /// What the clock of this machine lacks, compared with that of the journal.
    clock_offset: TimeDelta,
}

/// A request without a complete outcome.
#[derive(Debug)]
pub(crate) struct Open {
    /// Its rows without an outcome.
    pub(crate) rows: Vec<u64>,
    pub(crate) key: Option<String>,
    pub(crate) at: DateTime<Utc>,
    in_flight: bool,
    /// Rows that were unknown before this request, too.
    before: HashSet<u64>,
    /// The number of rows in the request.
    sent: usize,
}

impl State {
    /// Takes in the next entry of the journal.
    pub fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Intent { chunk, at, key, rows, .. } => {
                self.intend(*chunk, *at, key.clone(), rows);
            }
            Entry::Outcome { chunk, results, .. } => self.conclude(*chunk, results),
            Entry::NotSent { chunk, .. } => self.take_back(*chunk),
            Entry::Unknown { chunk, .. } => {
                if let Some(open) = self.open.get_mut(chunk) {
                    open.in_flight = false;
                }
            }
            Entry::Invalid { row, .. } => {
                self.invalid += u64::from(self.settled.insert(*row));
            }
        }
    }

    /// How many rows have which outcome. Requests in flight are not counted.
    pub fn totals(&self) -> Totals {
        let unknown = self.open.values().filter(|open| !open.in_flight);
        Totals {
            accepted: self.accepted,
            refused: self.refused,
            invalid: self.invalid,
            unknown: unknown.map(|open| open.rows.len() as u64).sum(),
        }
    }

    /// Whether a row was accepted, refused or is invalid.
    pub fn is_settled(&self, row: u64) -> bool {
        self.settled.contains(row)
    }

    /// Whether a row was sent without a known outcome.
    pub fn is_unknown(&self, row: u64) -> bool {
        self.chunk_of.contains_key(&row)
    }

    /// Counts requests in flight as unknown. For the journal of a job that is not running.
    #[must_use]
    pub fn stopped(mut self) -> Self {
        for open in self.open.values_mut() {
            open.in_flight = false;
        }
        self
    }

    /// The current time, in milliseconds, by the clock of the journal.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        (Utc::now() + self.clock_offset).trunc_subsecs(3)
    }

    #[cfg(feature = "redis")]
    pub(crate) fn set_clock_offset(&mut self, offset: TimeDelta) {
        self.clock_offset = offset;
    }

    /// The numbers of the requests in flight.
    #[cfg(feature = "redis")]
    pub(crate) fn in_flight(&self) -> Vec<u64> {
        self.open.iter().filter(|(_, open)| open.in_flight).map(|(chunk, _)| *chunk).collect()
    }

    pub(crate) fn next_chunk(&mut self) -> u64 {
        self.next_chunk += 1;
        self.next_chunk - 1
    }

    /// The request of an unknown row that can be repeated with its idempotency key.
    pub(crate) fn repeatable(&self, row: u64, life: TimeDelta) -> Option<(u64, &Open)> {
        let chunk = *self.chunk_of.get(&row)?;
        let open = self.open.get(&chunk)?;
        self.can_repeat(open, life).then_some((chunk, open))
    }

    /// Whether any request can be repeated with its idempotency key.
    #[cfg(feature = "redis")]
    pub(crate) fn has_repeatable(&self, life: TimeDelta) -> bool {
        self.open.values().any(|open| self.can_repeat(open, life))
    }

    fn can_repeat(&self, open: &Open, life: TimeDelta) -> bool {
        let age = Utc::now() + self.clock_offset - open.at;
        // A clock that was set back does not tell the age.
        let is_alive = age >= TimeDelta::zero() && age < life;
        let is_whole = open.rows.len() == open.sent;
        open.key.is_some() && is_alive && is_whole && !open.in_flight
    }

    fn intend(&mut self, chunk: u64, at: DateTime<Utc>, key: Option<String>, rows: &[u64]) {
        let mut before = HashSet::new();
        for row in rows {
            if let Some(earlier) = self.chunk_of.insert(*row, chunk) {
                before.insert(*row);
                self.close(earlier, &HashSet::from([*row]));
            }
        }
        self.next_chunk = self.next_chunk.max(chunk + 1);
        let rows = rows.to_vec();
        let sent = rows.len();
        self.open.insert(chunk, Open { rows, key, at, in_flight: true, before, sent });
    }

    fn conclude(&mut self, chunk: u64, results: &[RowOutcome]) {
        let Some(open) = self.open.get_mut(&chunk) else { return };
        open.in_flight = false;
        let mut results = results.iter();
        open.rows.retain(|row| {
            let count = match results.next() {
                Some(RowOutcome::Accepted(_)) => &mut self.accepted,
                Some(RowOutcome::Refused { .. }) => &mut self.refused,
                Some(RowOutcome::Unknown) | None => return true,
            };
            *count += u64::from(self.settled.insert(*row));
            self.chunk_of.remove(row);
            false
        });
        if open.rows.is_empty() {
            self.open.remove(&chunk);
        }
    }

    /// A request was not processed. Rows that were unknown before it still are.
    fn take_back(&mut self, chunk: u64) {
        let Some(open) = self.open.get_mut(&chunk) else { return };
        open.in_flight = false;
        let kept = |row: &u64| open.before.contains(row);
        let closed = open.rows.iter().copied().filter(|row| !kept(row)).collect::<HashSet<_>>();
        for row in &closed {
            self.chunk_of.remove(row);
        }
        self.close(chunk, &closed);
        if let Some(open) = self.open.get_mut(&chunk) {
            open.key = None;
        }
    }

    /// Removes rows from an open request.
    fn close(&mut self, chunk: u64, closed: &HashSet<u64>) {
        if let Some(open) = self.open.get_mut(&chunk) {
            open.rows.retain(|row| !closed.contains(row));
            if open.rows.is_empty() {
                self.open.remove(&chunk);
            }
        }
    }
}

/// A set of row numbers that takes little more than a bit for each.
#[derive(Debug, Default)]
struct RowSet(HashMap<u64, [u64; 16]>);

impl RowSet {
    fn place(row: u64) -> (u64, usize, u64) {
        // Both fit: the remainder is below 1024.
        let within = (row % 1024) as usize;
        (row / 1024, within / 64, 1 << (within % 64))
    }

    fn contains(&self, row: u64) -> bool {
        let (page, word, bit) = Self::place(row);
        self.0.get(&page).is_some_and(|page| page[word] & bit != 0)
    }

    /// Adds a row and returns whether it is new.
    fn insert(&mut self, row: u64) -> bool {
        let (page, word, bit) = Self::place(row);
        let word = &mut self.0.entry(page).or_default()[word];
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intent(chunk: u64, rows: &[u64], key: Option<&str>) -> Entry {
        let to = rows.iter().map(|row| format!("{row}@b.test")).collect();
        let key = key.map(str::to_owned);
        Entry::Intent { chunk, at: Utc::now(), key, rows: rows.to_vec(), to }
    }

    fn outcome(chunk: u64, results: &[RowOutcome]) -> Entry {
        Entry::Outcome { chunk, at: Utc::now(), results: results.to_vec() }
    }

    fn state(entries: &[Entry]) -> State {
        let mut state = State::default();
        entries.iter().for_each(|entry| state.apply(entry));
        state.stopped()
    }

    const DAY: TimeDelta = TimeDelta::days(1);

    #[test]
    fn a_request_without_an_outcome_is_unknown() {
        let accepted = RowOutcome::Accepted("eml_1".to_owned());
        let refused = RowOutcome::refused(Some("invalid"), None);
        let state = state(&[
            intent(0, &[1, 2, 5000], None),
            intent(1, &[6, 7], Some("k")),
            outcome(0, &[accepted, refused, RowOutcome::Unknown]),
        ]);
        let totals = Totals { accepted: 1, refused: 1, invalid: 0, unknown: 3 };
        assert_eq!(state.totals(), totals);
        assert!(state.is_settled(1) && state.is_settled(2) && !state.is_settled(5000));
        assert!(state.is_unknown(5000) && state.is_unknown(6) && !state.is_unknown(3));
        assert!(state.repeatable(6, DAY).is_some_and(|(chunk, _)| chunk == 1));
        assert!(state.repeatable(6, TimeDelta::zero()).is_none(), "the key has expired");
        assert!(state.repeatable(5000, DAY).is_none(), "no key");
    }

    #[test]
    fn a_request_that_was_not_processed_leaves_no_trace() {
        let not_sent = Entry::NotSent { chunk: 0, at: Utc::now(), code: None };
        let state = state(&[intent(0, &[1, 2], None), not_sent]);
        assert_eq!(state.totals(), Totals::default());
        assert!(!state.is_unknown(1) && !state.is_settled(1));
    }

    #[test]
    fn an_unknown_row_that_is_sent_again_and_not_processed_stays_unknown() {
        let not_sent = Entry::NotSent { chunk: 1, at: Utc::now(), code: None };
        let mut state =
            state(&[intent(0, &[1, 2], Some("k")), intent(1, &[1, 2, 3], Some("l")), not_sent]);
        assert_eq!(state.totals().unknown, 2);
        assert!(state.is_unknown(1) && !state.is_unknown(3));
        assert!(state.repeatable(1, DAY).is_none(), "its key belongs to other rows");
        state.apply(&intent(2, &[1, 2], None));
        let accepted = RowOutcome::Accepted("eml_1".to_owned());
        state.apply(&outcome(2, &[accepted.clone(), accepted]));
        assert_eq!(state.totals(), Totals { accepted: 2, ..Totals::default() });
    }
}
