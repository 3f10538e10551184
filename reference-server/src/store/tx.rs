//! [`Tx`]: the transaction as a write sees it, [`Reader`] as a read does, and the effects that
//! follow a commit. A write only notes its effects: new jobs, messages, notifications, changed
//! keys. `Effects::apply` runs after the commit and before the results are sent, so that nobody
//! hears of what is not stored, and what a result tells is in effect. A failure of SQLite becomes a
//! `Failure` here. The writer thread is in `store.rs`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rusqlite::types::{FromSql, FromSqlResult, ValueRef};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Params, Row};
use svc_sdk::Dialect;
use tokio::sync::{Notify, watch};

use super::notifications::{Notifications, Published};
use crate::model::key::Key;
use crate::model::{Code, Failure, Millis, Result, Timestamp};
use crate::notifications::notification_wire::Notification;

/// Read access to the database, within a transaction or outside of one. Only the store
/// and the rows of resources run statements with it (`tests/it/structure.rs`).
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(&'a Connection);

impl<'a> Reader<'a> {
    pub(crate) fn new(connection: &'a Connection) -> Self {
        Self(connection)
    }

    pub(crate) fn statement(self, sql: &str) -> rusqlite::Result<CachedStatement<'a>> {
        self.0.prepare_cached(sql)
    }

    /// Returns the first row of a query, if any.
    pub(crate) fn find<T>(
        self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        self.statement(sql)?.query_row(params, read).optional()
    }

    /// Returns all rows of a query.
    pub(crate) fn all<T>(
        self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let mut statement = self.statement(sql)?;
        Ok(statement
            .query_map(params, read)?
            .collect::<rusqlite::Result<_>>()?)
    }
}

pub(crate) fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}

/// A write's view of its transaction, with the effects to apply after the commit.
pub(crate) struct Tx<'a> {
    connection: &'a Connection,
    /// How many rows the connection had written before the transaction.
    begun: u64,
    /// Time of the server's clock at which the write runs.
    pub(crate) now: Millis,
    pub(crate) wake: &'a Wake,
    pub(crate) effects: Effects,
}

/// Effects of a write, applied after the commit.
#[derive(Default)]
pub(crate) struct Effects {
    has_new_jobs: bool,
    has_new_messages: bool,
    /// For the clients that watch.
    notifications: RefCell<Vec<Arc<Published>>>,
    after_commit: Vec<Box<dyn FnOnce() + Send>>,
}

impl<'a> Tx<'a> {
    /// How the services behave where their reference is silent.
    pub(crate) fn dialect(&self) -> &'a Dialect {
        &self.wake.dialect
    }

    pub(crate) fn new(connection: &'a Connection, begun: u64, now: Millis, wake: &'a Wake) -> Self {
        Self {
            connection,
            begun,
            now,
            wake,
            effects: Effects::default(),
        }
    }

    /// Reads what this transaction sees.
    pub(crate) fn reader(&self) -> Reader<'a> {
        Reader::new(self.connection)
    }

    /// The row number that the last `INSERT` chose.
    pub(crate) fn last_row(&self) -> i64 {
        self.connection.last_insert_rowid()
    }

    /// How many rows this write, and those before it in its transaction, have written.
    pub(crate) fn rows_written(&self) -> u64 {
        self.connection.total_changes() - self.begun
    }

    /// Executes one statement and returns the number of changed rows.
    pub(crate) fn execute(&self, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
        self.reader().statement(sql)?.execute(params)
    }

    /// Like [`execute`](Self::execute), for a statement that changes `what`: 404 if there is none.
    pub(crate) fn change(&self, what: &str, sql: &str, params: impl Params) -> Result<()> {
        if self.execute(sql, params)? > 0 {
            Ok(())
        } else {
            Err(Failure::not_found(what))
        }
    }

    /// Tells the engine, after the commit, that there is work.
    pub(crate) fn jobs_added(&mut self) {
        self.effects.has_new_jobs = true;
    }

    /// Wakes clients that wait for a message.
    pub(crate) fn message_stored(&mut self) {
        self.effects.has_new_messages = true;
    }

    /// Whether a client watches what changes.
    pub(crate) fn is_watched(&self) -> bool {
        self.wake.notifications.is_watched()
    }

    /// Tells the clients that watch, after the commit. The notification is created only if there
    /// are any.
    pub(crate) fn publish(&self, organization: Option<i64>, create: impl FnOnce() -> Notification) {
        if self.is_watched() {
            let new = Published::of(organization, &create());
            self.effects.notifications.borrow_mut().extend(new);
        }
    }

    /// Runs an action after the commit, before any result is sent.
    pub(crate) fn after_commit(&mut self, action: impl FnOnce() + Send + 'static) {
        self.effects.after_commit.push(Box::new(action));
    }
}

impl Effects {
    pub(crate) fn apply(self, wake: &Wake) {
        for action in self.after_commit {
            action();
        }

        if self.has_new_messages {
            wake.messages.send_replace(());
        }
        let notifications = self.notifications.into_inner();
        if !notifications.is_empty() {
            wake.notifications.add(notifications);
        }
        if self.has_new_jobs {
            wake.jobs.notify_one();
        }
    }
}

pub(crate) type Hash = [u8; 32];

/// All keys, by the hash of their secret.
pub(crate) type AllKeys = HashMap<Hash, Arc<Key>>;

/// Changes of a commit, which are told to those that wait for them.
#[derive(Default)]
pub(crate) struct Wake {
    /// The keys as they are committed.
    pub(crate) keys: Arc<Mutex<AllKeys>>,
    /// Notified when there is work for the engine.
    pub(crate) jobs: Notify,
    /// Changes with each stored message, and with a reset of the server.
    pub(crate) messages: watch::Sender<()>,
    /// For the clients that watch what changes.
    pub(crate) notifications: Arc<Notifications>,
    /// How deliveries are written.
    pub(crate) dialect: Dialect,
}

impl FromSql for Timestamp {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(value.as_i64()?.into())
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{
            CannotOpen, DatabaseBusy, DatabaseLocked, DiskFull, OutOfMemory, SystemIoFailure,
        };
        match error.sqlite_error_code() {
            Some(DiskFull) => {
                tracing::error!("the disk is full");
                Failure::new(
                    Code::StorageFull,
                    "the server's disk is full; nothing was stored",
                )
            }
            // Not a defect: another process may use the database.
            Some(CannotOpen | SystemIoFailure | DatabaseBusy | DatabaseLocked | OutOfMemory) => {
                tracing::error!(%error, "the database cannot be read or written");
                Failure::new(
                    Code::Unavailable,
                    "the server's database cannot be read or written",
                )
                .retry_after(1)
            }
            _ => Failure::internal(error),
        }
    }
}
