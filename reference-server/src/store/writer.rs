//! The writer thread: takes the waiting writes, runs them in one transaction, commits, and sends
//! the results.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::file_identity::Files;
use super::lock::lock;
use super::open::{self, OpenError};
use super::threads::{Queue, Threads};
use super::tx::{Tx, Wake, execute};
use crate::model::error::{ApiError, Code};
use crate::runtime::clock::Clock;

pub(super) struct Write {
    /// Whether the data must be synced to disk before the result is sent.
    pub(super) durable: bool,
    /// Writes. Returns whether to keep what was written.
    pub(super) run: Box<Run>,
    /// Gets the result of the commit.
    pub(super) done: oneshot::Sender<Result<(), ApiError>>,
}

type Run = dyn FnOnce(&mut Tx<'_>) -> bool + Send;

/// Maximum number of writes in one transaction: enough to share the cost of a sync, few enough
/// that none waits long.
const MAX_WRITES: usize = 256;

/// How many rows are written before the log is copied into the database.
const COPIED_ROWS: u64 = 4_000;

/// Runs until the queue is closed and empty, and closes the connection to the file at `path`.
pub(super) fn run(
    connection: Connection,
    path: Option<&Path>,
    queue: &Queue<Write>,
    clock: &Clock,
    wake: &Wake,
    files: &Files,
) {
    let queue = lock(queue);
    let (mut present, mut set, mut copied) = (true, "", 0);
    let mut copier: Option<Threads<()>> = None;
    while let Ok(first) = queue.recv() {
        let group = std::iter::once(first).chain(queue.try_iter().take(MAX_WRITES - 1));
        // The work of the engine does not delay requests.
        let (requests, work): (Vec<_>, Vec<_>) = group.partition(|write| write.durable);
        for (group, level) in [(requests, "FULL"), (work, "NORMAL")] {
            if group.is_empty() {
                continue;
            }
            let was_present = std::mem::replace(&mut present, files.are_present());
            if was_present && !present {
                tracing::error!("{DATABASE_GONE}");
            }
            if !present {
                for write in group {
                    let _ = write
                        .done
                        .send(Err(ApiError::new(Code::Unavailable, DATABASE_GONE)));
                }
                continue;
            }
            if set != level {
                match connection.pragma_update(None, "synchronous", level) {
                    Ok(()) => set = level,
                    Err(error) => tracing::error!(%error, "cannot change PRAGMA synchronous"),
                }
            }
            commit(&connection, group, clock, wake);
        }
        if connection.total_changes() - copied > COPIED_ROWS {
            copied = connection.total_changes();
            let failed = |error: &OpenError| {
                tracing::warn!(%error, "only the writer copies the log into the database");
            };
            copier = copier.or_else(|| open::copier(path?).inspect_err(failed).ok());
            copier.iter().for_each(|copier| drop(copier.push(())));
        }
    }
    // The last connection to close copies the rest, and removes the log.
    copier.iter().for_each(Threads::close);
    connection.flush_prepared_statement_cache();
    if let Err((_, error)) = connection.close() {
        tracing::warn!(%error, "the database was not closed cleanly; the next start recovers it");
    }
}

const DATABASE_GONE: &str = "a file of the data directory was removed or replaced, so nothing is \
                             stored; restart the server";

/// Runs the group in one transaction and sends all results.
fn commit(connection: &Connection, group: Vec<Write>, clock: &Clock, wake: &Wake) {
    let mut result = execute(connection, "BEGIN IMMEDIATE");
    let begun = connection.total_changes();
    let (mut effects, mut waiting) = (Vec::new(), Vec::new());
    for Write { run, done, .. } in group {
        waiting.push(done);
        if result.is_ok() {
            let mut tx = Tx::new(connection, begun, clock.now(), wake);
            match run_one(connection, run, &mut tx) {
                Ok(true) => effects.push(tx.effects),
                Ok(false) => {}
                Err(error) => result = Err(error),
            }
        }
    }
    let result = result.and_then(|()| execute(connection, "COMMIT"));
    if result.is_ok() {
        effects.into_iter().for_each(|effects| effects.apply(wake));
    } else if !connection.is_autocommit() {
        let _ = execute(connection, "ROLLBACK");
    }
    let result = result.map_err(ApiError::from);
    for done in waiting {
        // The receiver is gone if the client disconnected.
        let _ = done.send(result.clone());
    }
}

/// Runs a write in its savepoint. Returns whether what it wrote is kept. An error means that the
/// whole transaction failed.
fn run_one(connection: &Connection, run: Box<Run>, tx: &mut Tx<'_>) -> rusqlite::Result<bool> {
    execute(connection, "SAVEPOINT write")?;
    // The caller of a write that panics gets an error, because the write drops its result.
    let keep = catch_unwind(AssertUnwindSafe(|| run(tx))).unwrap_or(false);
    // SQLite rolls back the whole transaction if the disk is full or fails.
    if connection.is_autocommit() {
        let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
        return Err(rusqlite::Error::SqliteFailure(full, None));
    }
    if !keep {
        execute(connection, "ROLLBACK TO write")?;
    }
    execute(connection, "RELEASE write")?;
    Ok(keep)
}
