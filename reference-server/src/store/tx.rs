//! The transaction as a job sees it, and the effects that follow its commit.

use std::cell::RefCell;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use rusqlite::{CachedStatement, Connection, Params, Row};
use serde::Serialize;
use tokio::sync::{Notify, Semaphore, broadcast};

use super::lock::lock;
use super::pressure::Pressure;
use super::reader::Reader;
use crate::model::error::{ApiError, Code};
use crate::model::event_log::{EventLog, NewEvent};
use crate::model::time::Millis;
use crate::model::worker::Worker;

/// A job's view of its transaction, with the effects to apply after the commit.
pub(crate) struct Tx<'a> {
    connection: &'a Connection,
    /// Time of the server's clock at which the job runs.
    pub(crate) now: Millis,
    pressure: &'a Pressure,
    log: &'a EventLog,
    pub(super) effects: Effects,
}

/// Effects of a job, applied after the commit.
#[derive(Default)]
pub(super) struct Effects {
    earliest_due: Option<Millis>,
    recheck_due: bool,
    workers: Vec<(Worker, Millis)>,
    /// The organization and the recipient of each stored message.
    messages: Vec<(i64, String)>,
    /// For the clients that watch.
    events: RefCell<Vec<NewEvent>>,
    after_commit: Vec<Box<dyn FnOnce() + Send>>,
}

impl<'a> Tx<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        now: Millis,
        pressure: &'a Pressure,
        log: &'a EventLog,
    ) -> Self {
        Self { connection, now, pressure, log, effects: Effects::default() }
    }

    /// How many units of work a background job may do; see [`Pressure::share`].
    pub(crate) fn share(&self, wanted: usize) -> usize {
        self.pressure.share(wanted)
    }

    /// Whether a background job that has done this many units of work should leave the
    /// rest for later, because a request waits.
    pub(crate) fn is_enough(&self, done: usize) -> bool {
        self.pressure.is_enough(done)
    }

    /// The number of deliveries that this transaction has written, including other jobs.
    pub(super) fn deliveries(&self) -> usize {
        self.pressure.deliveries.load(Ordering::Relaxed)
    }

    pub(super) fn count_delivery(&self) {
        self.pressure.deliveries.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads what this transaction sees.
    pub(crate) fn reader(&self) -> Reader<'a> {
        Reader::new(self.connection)
    }

    /// The row number that the last `INSERT` chose.
    pub(super) fn last_row(&self) -> i64 {
        self.connection.last_insert_rowid()
    }

    /// Executes one statement and returns the number of changed rows.
    pub(super) fn execute(&self, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
        self.statement(sql)?.execute(params)
    }

    /// Returns the first row of a query, if any.
    pub(super) fn find<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        self.reader().find(sql, params, read)
    }

    /// Returns 409 if the organization has this many rows in a table.
    pub(super) fn limit(
        &self,
        table: &str,
        organization: i64,
        limit: usize,
    ) -> Result<(), ApiError> {
        let sql = format!("SELECT COUNT(*) FROM {table} WHERE organization = ?1");
        let count: Option<i64> = self.find(&sql, [organization], |row| row.get(0))?;
        if count.is_none_or(|count| count < limit as i64) {
            return Ok(());
        }
        let what = if table == "api_key" { "key" } else { table };
        let message = format!("an organization can have at most {limit} {what}s");
        Err(ApiError::new(Code::Conflict, message).with(|details| details.limit = Some(limit)))
    }

    pub(super) fn statement(&self, sql: &str) -> rusqlite::Result<CachedStatement<'a>> {
        self.reader().statement(sql)
    }

    /// Tells the engine, after the commit, that the table `due` has work at `at`.
    pub(super) fn step_due(&mut self, at: Millis) {
        let earliest = self.effects.earliest_due.get_or_insert(at);
        *earliest = at.min(*earliest);
    }

    /// Tells the engine, after the commit, that the next due time may be a later one now.
    pub(super) fn recheck_due(&mut self) {
        self.effects.recheck_due = true;
    }

    /// Tells the engine, after the commit, that this worker has work at `at`.
    pub(crate) fn worker_due(&mut self, worker: Worker, at: Millis) {
        match self.effects.workers.iter_mut().find(|(known, _)| *known == worker) {
            Some((_, earliest)) => *earliest = at.min(*earliest),
            None => self.effects.workers.push((worker, at)),
        }
    }

    /// Notifies clients that wait for a message.
    pub(crate) fn message_stored(&mut self, organization: i64, recipient: &str) {
        self.effects.messages.push((organization, recipient.to_owned()));
    }

    /// Whether a client watches what changes.
    pub(super) fn is_watched(&self) -> bool {
        self.log.is_watched()
    }

    /// Tells the clients that watch, after the commit. `data` is created only if there are any.
    pub(crate) fn publish<T: Serialize>(
        &self,
        organization: Option<i64>,
        kind: &'static str,
        data: impl FnOnce() -> T,
    ) {
        if self.is_watched() {
            let event = NewEvent::new(organization, kind, &data());
            self.effects.events.borrow_mut().extend(event);
        }
    }

    /// Wakes all clients that wait for a message, because organizations have other numbers now.
    pub(super) fn organizations_renumbered(&mut self) {
        self.effects.messages.push((NO_ORGANIZATION, String::new()));
    }

    /// The earliest time that this job has added to the table `due`.
    pub(crate) fn earliest_due(&self) -> Option<Millis> {
        self.effects.earliest_due
    }

    /// Whether this job has left work for a worker.
    pub(crate) fn has_work_for_workers(&self) -> bool {
        !self.effects.workers.is_empty()
    }

    /// Runs an action after the commit, before any result is sent.
    pub(crate) fn after_commit(&mut self, action: impl FnOnce() + Send + 'static) {
        self.effects.after_commit.push(Box::new(action));
    }
}

impl Effects {
    pub(super) fn apply(self, wake: &Wake) {
        for action in self.after_commit {
            action();
        }
        if !self.messages.is_empty() {
            // Fails if no client waits.
            let _ = wake.messages.send(Arc::new(self.messages));
        }
        let events = self.events.into_inner();
        if !events.is_empty() {
            wake.log.add(events);
        }
        let earliest_due = if self.recheck_due { Some(Millis::MIN) } else { self.earliest_due };
        if earliest_due.is_none() && self.workers.is_empty() {
            return;
        }
        if let Some(at) = earliest_due {
            wake.earliest_due.fetch_min(at, Ordering::SeqCst);
        }
        if !self.workers.is_empty() {
            lock(&wake.workers).extend(self.workers);
        }
        wake.notify.notify_one();
    }
}

/// The number that no organization has: they count from 1.
pub(crate) const NO_ORGANIZATION: i64 = 0;

/// Collects what committed jobs made due, until the engine takes it.
pub(crate) struct Wake {
    earliest_due: AtomicI64,
    workers: Mutex<Vec<(Worker, Millis)>>,
    pub(crate) notify: Notify,
    /// Gets, after each commit, the organization and the recipient of each stored message, and
    /// [`NO_ORGANIZATION`] after a reset.
    pub(crate) messages: broadcast::Sender<Arc<Vec<(i64, String)>>>,
    /// Limits how many waiting clients look for their message at the same time.
    pub(crate) searches: Semaphore,
    /// For the clients that watch what changes.
    pub(crate) log: Arc<EventLog>,
}

impl Default for Wake {
    fn default() -> Self {
        Self {
            earliest_due: AtomicI64::new(Millis::MAX),
            workers: Mutex::default(),
            notify: Notify::new(),
            messages: broadcast::Sender::new(256),
            searches: Semaphore::new(4),
            log: Arc::default(),
        }
    }
}

impl Wake {
    /// Takes what became due since the last call: the earliest time in the table `due`,
    /// and workers with the earliest time of their work.
    pub(crate) fn take(&self) -> (Millis, Vec<(Worker, Millis)>) {
        let earliest = self.earliest_due.swap(Millis::MAX, Ordering::SeqCst);
        (earliest, std::mem::take(&mut *lock(&self.workers)))
    }
}
