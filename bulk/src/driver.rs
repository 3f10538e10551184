//! What a run needs besides the service: where its requests come from, and where it records them.

use std::fmt::Display;
use std::io;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_core::Stream;

use crate::collect::{Chunk, Collector, Next};
use crate::error::Cause;
use crate::run::address;
use crate::{Entry, ErrorKind, Journal, Row, RowOutcome, State, Totals};
use svc_sdk::email::Email;

/// The source of requests and the record of their outcomes. [`Run`](super::run::Run) makes all
/// other decisions, so that they are the same with a journal and with a queue.
pub(crate) trait Driver {
    /// The next request or invalid row, or `None` at the end. Cancel safe.
    fn next(&mut self) -> impl Future<Output = Result<Option<Next>, ErrorKind>>;

    /// How many requests may be ready while `concurrency` others are in flight.
    fn read_ahead(&self, concurrency: usize) -> usize;

    /// Records, durably, that requests are about to be sent, after what was recorded before.
    /// Tells of the first requests, at least one, whether they may be sent.
    fn begin(&mut self, chunks: &[Chunk]) -> impl Future<Output = io::Result<Vec<Begin>>>;

    /// Records what became of one request or row. Returns false if another worker has taken it
    /// over. It may be kept in memory until [`begin`](Self::begin) or [`write`](Self::write).
    fn record(&mut self, entries: Vec<Entry>) -> impl Future<Output = io::Result<bool>>;

    /// Records the refusal of a row whose request was not recorded as refused.
    fn refuse(
        &mut self,
        row: u64,
        to: String,
        outcome: RowOutcome,
    ) -> impl Future<Output = io::Result<()>>;

    /// Writes what was recorded.
    fn write(&mut self) -> impl Future<Output = io::Result<()>>;

    /// The service asks to wait.
    fn pause(&mut self, time: Duration) -> impl Future<Output = io::Result<()>>;

    /// The current time of the record.
    fn now(&self) -> DateTime<Utc>;

    /// The outcomes of the job so far.
    fn totals(&self) -> Totals;
}

/// Whether a request may be sent.
pub(crate) enum Begin {
    /// Now.
    Send {
        /// The number of the request.
        chunk: u64,
        /// Its idempotency key.
        key: Option<String>,
    },
    /// Ask again after this time.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only a queue says so"))]
    Later(Duration),
    /// Another worker has taken it over.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only a queue says so"))]
    Skip,
    /// The job was cancelled.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only a queue says so"))]
    Stop,
}

/// One process with a journal of its own.
pub(crate) struct JournalDriver<'a, 'j, S, T, R, J: ?Sized> {
    collector: Collector<'a, S, T, R>,
    state: State,
    journal: &'j mut J,
    /// Entries that the state has and the journal lacks.
    unwritten: Vec<Entry>,
}

impl<'a, 'j, S, T, R, J: Journal + ?Sized> JournalDriver<'a, 'j, S, T, R, J> {
    pub(crate) fn new(collector: Collector<'a, S, T, R>, state: State, journal: &'j mut J) -> Self {
        Self { collector, state, journal, unwritten: Vec::new() }
    }

    fn note(&mut self, entries: Vec<Entry>) {
        entries.iter().for_each(|entry| self.state.apply(entry));
        self.unwritten.extend(entries);
    }

    /// Makes everything that was recorded durable.
    pub(crate) async fn sync(&mut self) -> io::Result<()> {
        self.journal.append(std::mem::take(&mut self.unwritten), true).await
    }
}

impl<S, T, E, R, M, J> Driver for JournalDriver<'_, '_, S, T, R, J>
where
    S: Stream<Item = Result<Row<T>, E>>,
    E: Into<Cause>,
    R: FnMut(&T) -> Result<Email, M>,
    M: Display,
    J: Journal + ?Sized,
{
    async fn next(&mut self) -> Result<Option<Next>, ErrorKind> {
        self.collector.next(&self.state).await.map_err(ErrorKind::Rows)
    }

    fn read_ahead(&self, concurrency: usize) -> usize {
        concurrency
    }

    async fn begin(&mut self, chunks: &[Chunk]) -> io::Result<Vec<Begin>> {
        let mut begun = Vec::new();
        for chunk in chunks {
            let (number, key) = match &chunk.repeats {
                Some((number, key)) => (*number, Some(key.clone())),
                None => {
                    let number = self.state.next_chunk();
                    let has_keys = self.collector.key_life.is_some();
                    let key = has_keys.then(|| format!("{}-{number}", self.journal.job()));
                    self.note(vec![chunk.intent(number, self.state.now(), key.clone())]);
                    (number, key)
                }
            };
            begun.push(Begin::Send { chunk: number, key });
        }
        // A repeated request has its intent already.
        if !self.unwritten.is_empty() {
            self.sync().await?;
        }
        Ok(begun)
    }

    async fn record(&mut self, entries: Vec<Entry>) -> io::Result<bool> {
        self.note(entries);
        Ok(true)
    }

    async fn refuse(&mut self, row: u64, to: String, outcome: RowOutcome) -> io::Result<()> {
        let (chunk, at) = (self.state.next_chunk(), self.state.now());
        self.note(refusal(chunk, at, row, to, outcome));
        Ok(())
    }

    async fn write(&mut self) -> io::Result<()> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        self.journal.append(std::mem::take(&mut self.unwritten), false).await
    }

    async fn pause(&mut self, _: Duration) -> io::Result<()> {
        Ok(())
    }

    fn now(&self) -> DateTime<Utc> {
        self.state.now()
    }

    fn totals(&self) -> Totals {
        self.state.totals()
    }
}

impl Chunk {
    pub(crate) fn intent(&self, chunk: u64, at: DateTime<Utc>, key: Option<String>) -> Entry {
        let to = self.emails.iter().map(|email| address(email).to_owned()).collect();
        Entry::Intent { chunk, at, key, rows: self.rows.clone(), to }
    }
}

/// The entries of a row that was refused alone.
pub(crate) fn refusal(
    chunk: u64,
    at: DateTime<Utc>,
    row: u64,
    to: String,
    outcome: RowOutcome,
) -> Vec<Entry> {
    let intent = Entry::Intent { chunk, at, key: None, rows: vec![row], to: vec![to] };
    vec![intent, Entry::Outcome { chunk, at, results: vec![outcome] }]
}
