//! What the entries of a journal say about each row.

#[cfg(feature = "redis")]
use std::collections::BTreeSet;
use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, TimeDelta, Utc};
use roaring::RoaringTreemap;

use crate::entries::{JournalEntry, now};
use crate::{RowOutcome, RowRefusal};

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
    /// Rows that were sent again while they were unknown.
    perhaps_twice: HashSet<u64>,
    /// Of each settled row, if that is asked for.
    outcomes: Option<HashMap<u64, RowState>>,
    accepted: u64,
    invalid: u64,
    /// Rows that were sent and have no outcome.
    open: BTreeMap<u64, Open>,
    /// The requests that they were sent in, by their number.
    requests: BTreeMap<u64, Sent>,
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

/// A row that was sent and has no outcome.
#[derive(Debug)]
struct Open {
    request: u64,
    in_flight: bool,
    /// Whether it is to be sent again.
    resend: bool,
    /// When it was sent, and why it has no outcome.
    told: (DateTime<Utc>, Option<String>),
    /// The same of an earlier request, of which it was unknown already.
    before: Option<(DateTime<Utc>, Option<String>)>,
}

/// A request without a complete outcome.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) rows: Vec<u64>,
    pub(crate) key: Option<String>,
    at: DateTime<Utc>,
}

const PERHAPS_TWICE: &str = "perhaps sent twice: an earlier request has no known outcome";

impl JournalState {
    /// Nothing is known yet. What became of each row is remembered for [`row`](Self::row), which
    /// takes memory.
    pub fn with_rows() -> Self {
        Self {
            outcomes: Some(HashMap::new()),
            ..Self::default()
        }
    }

    /// What became of a row, if it was sent or is invalid.
    pub fn row(&self, row: u64) -> Option<RowState> {
        let Some(Open {
            in_flight,
            resend,
            told: (at, cause),
            ..
        }) = self.open.get(&row)
        else {
            return self.outcomes.as_ref()?.get(&row).cloned();
        };
        let (status, code) = match in_flight {
            true => ("in_flight", None),
            false => ("unknown", Some(cause.as_deref().unwrap_or("interrupted"))),
        };
        let again = resend.then_some("is to be sent again");
        Some(RowState {
            status,
            at: *at,
            id: None,
            why: RowRefusal::new(code, again),
        })
    }

    /// How many rows have which outcome. Requests in flight, and rows that are to be sent again, are
    /// not counted.
    pub fn totals(&self) -> Totals {
        let is_unknown = |open: &&Open| !open.in_flight && !open.resend;
        Totals {
            accepted: self.accepted,
            refused: self.refused.len(),
            invalid: self.invalid,
            unknown: self.open.values().filter(is_unknown).count() as u64,
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
        self.open.contains_key(&row)
    }

    /// Whether a row is not to be sent: it is settled, or unknown and kept back.
    pub fn is_kept_back(&self, row: u64) -> bool {
        self.is_settled(row) || self.open.get(&row).is_some_and(|open| !open.resend)
    }

    /// Counts requests in flight as unknown. For the journal of a job that is not running.
    #[must_use]
    pub fn stopped(mut self) -> Self {
        self.open
            .values_mut()
            .for_each(|open| open.in_flight = false);
        self
    }

    /// Rows that were refused, and those that are unknown, as far as they are asked for, are to be
    /// sent again.
    pub(crate) fn reopened(&self, refused: bool, unknown: bool) -> Vec<JournalEntry> {
        let unknown = self.open.keys().filter(|_| unknown).copied();
        let mut rows = self
            .refused
            .iter()
            .filter(|_| refused)
            .chain(unknown)
            .collect::<Vec<_>>();
        rows.sort_unstable();
        JournalEntry::reopened(rows).into_iter().collect()
    }

    /// What someone has decided about unknown rows: `sent` were accepted, and `resend` are sent
    /// again.
    pub(crate) fn decided(&self, sent: &[u64], resend: &[u64]) -> Vec<JournalEntry> {
        let unknown = |rows: &[u64]| {
            rows.iter()
                .copied()
                .filter(|row| self.is_unknown(*row))
                .collect::<Vec<_>>()
        };
        let sent = Some(unknown(sent)).filter(|rows| !rows.is_empty());
        let sent = sent.map(|rows| JournalEntry::Settled { rows, at: now() });
        sent.into_iter()
            .chain(JournalEntry::reopened(unknown(resend)))
            .collect()
    }

    /// The numbers of the requests in flight.
    #[cfg(feature = "redis")]
    pub(crate) fn in_flight(&self) -> BTreeSet<u64> {
        self.open
            .values()
            .filter(|open| open.in_flight)
            .map(|open| open.request)
            .collect()
    }

    /// The number of the next request.
    pub(crate) fn next_request(&self) -> u64 {
        self.next_request
    }

    /// The request of an unknown row that can be repeated with its idempotency key, if none of its
    /// rows has an outcome.
    pub(crate) fn repeatable(
        &self,
        row: u64,
        now: DateTime<Utc>,
        life: TimeDelta,
    ) -> Option<(u64, &Sent)> {
        let number = self.open.get(&row)?.request;
        let request = self.requests.get(&number)?;
        let age = now - request.at;
        // A clock that was set back does not tell the age.
        let is_alive = age >= TimeDelta::zero() && age < life;
        let is_open = |row: &u64| {
            self.open
                .get(row)
                .is_some_and(|open| open.request == number && !open.in_flight)
        };
        let is_repeatable = request.key.is_some() && is_alive && request.rows.iter().all(is_open);
        is_repeatable.then_some((number, request))
    }

    /// Whether any request can be repeated with its idempotency key.
    #[cfg(feature = "redis")]
    pub(crate) fn has_repeatable(&self, now: DateTime<Utc>, life: TimeDelta) -> bool {
        self.open
            .keys()
            .any(|row| self.repeatable(*row, now, life).is_some())
    }

    /// Takes in the next entry.
    pub(crate) fn apply(&mut self, entry: &JournalEntry) {
        match entry {
            JournalEntry::Intent {
                request,
                at,
                key,
                rows,
            } => {
                for row in rows {
                    let earlier = self.open.remove(row);
                    if earlier.as_ref().is_some_and(|earlier| earlier.resend) {
                        self.perhaps_twice.insert(*row);
                    }
                    let before = earlier.map(|earlier| earlier.told);
                    let (request, told) = (*request, (*at, None));
                    let open = Open {
                        request,
                        in_flight: true,
                        resend: false,
                        told,
                        before,
                    };
                    self.open.insert(*row, open);
                }
                self.next_request = self.next_request.max(request + 1);
                let sent = Sent {
                    rows: rows.clone(),
                    key: key.clone(),
                    at: *at,
                };
                self.requests.insert(*request, sent);
            }
            JournalEntry::Outcome {
                request,
                at,
                results,
            } => {
                let rows = self.rows_of(*request);
                for (row, result) in rows.iter().zip(results) {
                    let (status, id, why) = match result {
                        RowOutcome::Accepted(id) => {
                            let twice = self.perhaps_twice.contains(row).then_some(PERHAPS_TWICE);
                            ("accepted", Some(id), RowRefusal::new(None, twice))
                        }
                        RowOutcome::Refused(refusal) => ("refused", None, refusal.clone()),
                        RowOutcome::Unknown => continue,
                    };
                    self.settle(*row, status, *at, id, why);
                }
                self.interrupt(*request, "not_told");
            }
            // Rows that were unknown before the request still are.
            JournalEntry::NotSent { request } => {
                for row in self.rows_of(*request) {
                    let Some(mut open) = self.open.remove(&row) else {
                        continue;
                    };
                    if let Some(before) = open.before.take() {
                        (open.told, open.in_flight) = (before, false);
                        self.open.insert(row, open);
                    }
                }
                self.requests.remove(request);
            }
            JournalEntry::Unknown { request, code, .. } => {
                self.interrupt(*request, code.as_deref().unwrap_or("no_response"));
            }
            JournalEntry::Invalid { row, at, message } => {
                let why = RowRefusal::new(None, Some(message));
                self.settle(*row, "invalid", *at, None, why);
            }
            JournalEntry::Reopened { rows } => rows.iter().for_each(|row| {
                if self.refused.remove(*row) {
                    self.settled.remove(*row);
                    self.outcomes.as_mut().map(|outcomes| outcomes.remove(row));
                } else if let Some(open) = self.open.get_mut(row) {
                    open.resend = true;
                }
            }),
            JournalEntry::Settled { rows, at } => {
                for row in rows.iter().copied() {
                    let why = RowRefusal::new(None, Some("settled by hand"));
                    if self.is_unknown(row) {
                        self.settle(row, "accepted", *at, None, why);
                    }
                }
            }
        }
    }

    /// The rows of a request that have no outcome yet, in their order.
    fn rows_of(&self, request: u64) -> Vec<u64> {
        let rows = self
            .requests
            .get(&request)
            .map(|sent| &sent.rows[..])
            .unwrap_or_default();
        let is_open = |row: &&u64| {
            self.open
                .get(row)
                .is_some_and(|open| open.request == request)
        };
        rows.iter().filter(is_open).copied().collect()
    }

    /// The rows of a request without an outcome are unknown.
    fn interrupt(&mut self, request: u64, cause: &str) {
        let rows = self.rows_of(request);
        if rows.is_empty() {
            self.requests.remove(&request);
        }
        for row in rows {
            if let Some(open) = self.open.get_mut(&row) {
                (open.in_flight, open.told.1) = (false, Some(cause.to_owned()));
            }
        }
    }

    fn settle(
        &mut self,
        row: u64,
        status: &'static str,
        at: DateTime<Utc>,
        id: Option<&String>,
        why: RowRefusal,
    ) {
        self.open.remove(&row);
        if self.settled.insert(row) {
            match status {
                "accepted" => self.accepted += 1,
                "invalid" => self.invalid += 1,
                _ => _ = self.refused.insert(row),
            }
        }
        if let Some(outcomes) = &mut self.outcomes {
            outcomes.insert(
                row,
                RowState {
                    status,
                    at,
                    id: id.cloned(),
                    why,
                },
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RowRefusal;

    fn intent(request: u64, rows: &[u64], key: Option<&str>) -> JournalEntry {
        let key = key.map(str::to_owned);
        JournalEntry::Intent {
            request,
            at: Utc::now(),
            key,
            rows: rows.to_vec(),
        }
    }

    fn outcome(request: u64, results: &[RowOutcome]) -> JournalEntry {
        JournalEntry::Outcome {
            request,
            at: Utc::now(),
            results: results.to_vec(),
        }
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
        let totals = Totals {
            accepted: 1,
            refused: 1,
            invalid: 0,
            unknown: 3,
        };
        assert_eq!(state.totals(), totals);
        assert!(state.is_settled(1) && state.is_settled(2) && !state.is_settled(5000));
        assert!(state.is_unknown(5000) && state.is_unknown(6) && !state.is_unknown(3));
        assert!(
            state
                .repeatable(6, Utc::now(), DAY)
                .is_some_and(|(request, _)| request == 1)
        );
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
            JournalEntry::Unknown {
                request: 1,
                at,
                code,
            },
            intent(2, &[6], None),
            JournalEntry::Invalid {
                row: 7,
                at,
                message: "empty".to_owned(),
            },
            JournalEntry::Reopened { rows: vec![5] },
            intent(3, &[5], None),
            outcome(3, &[accepted]),
            JournalEntry::Settled { rows: vec![3], at },
        ];
        let mut state = JournalState::with_rows();
        entries.iter().for_each(|entry| state.apply(entry));
        let row = |row: u64| {
            let RowState {
                status, id, why, ..
            } = state.row(row)?;
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
        assert_eq!(
            state.row(6).and_then(|row| row.why.code).as_deref(),
            Some("interrupted")
        );
        assert_eq!(self::state(&entries).row(1), None, "not asked for");
    }

    #[test]
    fn a_row_that_is_sent_again_has_the_cause_and_the_time_of_what_was_sent() {
        let at = Utc::now();
        let code = Some("http_503".to_owned());
        let mut state = JournalState::with_rows();
        for entry in [
            intent(0, &[1], None),
            JournalEntry::Unknown {
                request: 0,
                at,
                code: code.clone(),
            },
            JournalEntry::Reopened { rows: vec![1] },
        ] {
            state.apply(&entry);
        }
        let first = state.row(1).expect("known").at;
        state.apply(&intent(1, &[1, 2], None));
        let not_sent = JournalEntry::NotSent { request: 1 };
        let killed = state.stopped();
        let cause = |row: u64| killed.row(row).and_then(|row| row.why.code);
        assert_eq!(
            [1, 2].map(cause),
            [(); 2].map(|()| Some("interrupted".to_owned()))
        );
        let mut taken_back = killed;
        taken_back.apply(&not_sent);
        let row = taken_back.row(1).expect("known");
        assert_eq!(
            (row.at, row.why.code, taken_back.row(2)),
            (first, code, None)
        );
    }

    #[test]
    fn a_request_that_was_not_processed_leaves_no_trace() {
        let not_sent = JournalEntry::NotSent { request: 0 };
        let state = state(&[intent(0, &[1, 2], None), not_sent]);
        assert_eq!(state.totals(), Totals::default());
        assert!(!state.is_unknown(1) && !state.is_settled(1));
    }

    #[test]
    fn an_unknown_row_that_is_sent_again_and_not_processed_stays_unknown() {
        let not_sent = JournalEntry::NotSent { request: 1 };
        let mut state = state(&[
            intent(0, &[1, 2], Some("k")),
            intent(1, &[1, 2, 3], Some("l")),
            not_sent,
        ]);
        assert_eq!(state.totals().unknown, 2);
        assert!(state.is_unknown(1) && !state.is_unknown(3));
        assert!(
            state.repeatable(1, Utc::now(), DAY).is_none(),
            "its key belongs to other rows"
        );
        state.apply(&intent(2, &[1, 2], None));
        let accepted = RowOutcome::Accepted("eml_1".to_owned());
        state.apply(&outcome(2, &[accepted.clone(), accepted]));
        assert_eq!(
            state.totals(),
            Totals {
                accepted: 2,
                ..Totals::default()
            }
        );
    }
}
