//! The writer thread: takes the waiting writes, runs them in one transaction, commits, and sends
//! the results. It has the only connection that can write.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::file_identity::Files;
use super::lock::lock;
use super::threads::{Queue, Threads};
use super::tx::{Effects, Tx, Wake, execute};
use super::{meta, open};
use crate::jobs::clock::Clock;
use crate::model::{Code, Failure, Millis, Result};

pub(super) struct Write {
    /// Whether the data must be synced to disk before the result is sent.
    pub(super) durable: bool,
    /// Writes. Returns whether to keep what was written.
    pub(super) run: Box<Run>,
    /// Gets the result of the commit.
    pub(super) done: oneshot::Sender<Result<()>>,
}

type Run = dyn FnOnce(&mut Tx<'_>) -> bool + Send;

/// Maximum number of writes in one transaction: enough to share the cost of a sync, few enough
/// that none waits long.
const MAX_WRITES: usize = 256;

/// How many rows are written before the log is copied into the database.
const COPIED_ROWS: u64 = 4_000;

/// How long nothing is written before free pages are given back.
const QUIET: Duration = Duration::from_millis(100);
/// How many pages of 4 KiB may be free in the file, and how many are given back at once: a write
/// that comes meanwhile waits some milliseconds.
const MAX_FREE_PAGES: u32 = 512;
const PAGES_AT_ONCE: u32 = 512;

pub(super) struct Writer {
    connection: Connection,
    /// `None` for a database in memory.
    path: Option<PathBuf>,
    clock: Arc<Clock>,
    wake: Arc<Wake>,
    files: Files,
    /// Whether the files were in place when this was last checked.
    has_files: bool,
    /// The value of `PRAGMA synchronous`, once it was set.
    synchronous: &'static str,
    /// The rows written when the log was last copied into the database.
    rows_copied: u64,
    /// The thread that copies the log, once it was needed.
    copier: Option<Threads<()>>,
    /// The time of a frozen or advanced clock that is stored.
    clock_saved_at: Millis,
    /// Whether there may be free pages to give back.
    may_shrink: bool,
}

impl Writer {
    pub(super) fn new(
        connection: Connection,
        path: Option<PathBuf>,
        clock: Arc<Clock>,
        wake: Arc<Wake>,
    ) -> Self {
        let files = path.as_deref().map(Files::of).unwrap_or_default();
        Self {
            connection,
            may_shrink: path.is_some(),
            path,
            clock,
            wake,
            files,
            has_files: true,
            synchronous: "",
            rows_copied: 0,
            copier: None,
            clock_saved_at: Millis::MIN,
        }
    }

    /// Writes until the queue is closed and empty, and closes the connection.
    pub(super) fn run(mut self, queue: &Queue<Write>) {
        let queue = lock(queue);
        loop {
            let received = if self.may_shrink {
                queue.recv_timeout(QUIET)
            } else {
                queue.recv().map_err(RecvTimeoutError::from)
            };
            let first = match received {
                Ok(first) => first,
                Err(RecvTimeoutError::Timeout) => {
                    self.shrink();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };

            let waiting = std::iter::once(first).chain(queue.try_iter().take(MAX_WRITES - 1));
            // The work of the engine does not delay requests.
            let (requests, work) = waiting.partition::<Vec<_>, _>(|write| write.durable);
            self.write(requests, "FULL");
            self.write(work, "NORMAL");
            self.copy_log_if_long();
            self.may_shrink = self.path.is_some();
        }
        self.close();
    }

    /// Writes a group in one transaction and sends all results.
    fn write(&mut self, group: Vec<Write>, synchronous: &'static str) {
        if group.is_empty() {
            return;
        }
        if !self.check_files() {
            for write in group {
                let gone = Failure::new(Code::Unavailable, DATABASE_GONE);
                let _ = write.done.send(Err(gone));
            }
            return;
        }

        self.set_synchronous(synchronous);
        self.commit(group);
    }

    /// Returns whether the files are still in place, and logs when they are not any more.
    fn check_files(&mut self) -> bool {
        let present = self.files.are_present();
        if self.has_files && !present {
            tracing::error!("{DATABASE_GONE}");
        }
        self.has_files = present;
        present
    }

    fn set_synchronous(&mut self, level: &'static str) {
        if self.synchronous == level {
            return;
        }
        match self.connection.pragma_update(None, "synchronous", level) {
            Ok(()) => self.synchronous = level,
            Err(error) => tracing::error!(%error, "cannot change PRAGMA synchronous"),
        }
    }

    fn commit(&mut self, group: Vec<Write>) {
        let mut runs = Vec::with_capacity(group.len());
        let mut waiting = Vec::with_capacity(group.len());
        for write in group {
            runs.push(write.run);
            waiting.push(write.done);
        }

        let committed = match self.transact(runs) {
            Ok(effects) => {
                for effects in effects {
                    effects.apply(&self.wake);
                }
                Ok(())
            }
            Err(error) => {
                if !self.connection.is_autocommit() {
                    let _ = execute(&self.connection, "ROLLBACK");
                }
                Err(Failure::from(error))
            }
        };
        for done in waiting {
            // The receiver is gone if the client disconnected.
            let _ = done.send(committed.clone());
        }
    }

    /// Runs writes in one transaction. Returns the effects of those that are kept.
    fn transact(&mut self, runs: Vec<Box<Run>>) -> rusqlite::Result<Vec<Effects>> {
        execute(&self.connection, "BEGIN IMMEDIATE")?;
        let begun = self.connection.total_changes();
        let mut kept = Vec::new();
        let mut reached = Millis::MIN;
        for run in runs {
            let mut tx = Tx::new(&self.connection, begun, self.clock.now(), &self.wake);
            if run_one(&self.connection, run, &mut tx)? {
                reached = reached.max(tx.now);
                kept.push(tx.effects);
            }
        }

        // With the work of an advance goes the time that it has reached: if the server is killed,
        // nothing that is stored lies in the future of the next one.
        if let Some(mode) = self.clock.mode_at(reached)
            && reached > self.clock_saved_at
        {
            meta::save_clock(&self.connection, mode)?;
        }

        execute(&self.connection, "COMMIT")?;
        self.clock_saved_at = self.clock_saved_at.max(reached);
        Ok(kept)
    }

    /// Has the log copied into the database once enough was written.
    fn copy_log_if_long(&mut self) {
        let written = self.connection.total_changes();
        if written - self.rows_copied <= COPIED_ROWS {
            return;
        }

        self.rows_copied = written;
        if let Some(copier) = self.copier() {
            // It fails only after `close`.
            let _ = copier.push(());
        }
    }

    /// The thread that copies the log, which is started when it is first needed. Without it, only
    /// the writer copies the log.
    fn copier(&mut self) -> Option<&Threads<()>> {
        if self.copier.is_none() {
            match open::copier(self.path.as_deref()?) {
                Ok(copier) => self.copier = Some(copier),
                Err(error) => {
                    tracing::warn!(%error, "only the writer copies the log into the database");
                }
            }
        }
        self.copier.as_ref()
    }

    /// Gives free pages back to the file system, some at a time.
    fn shrink(&mut self) {
        match self.give_back() {
            Ok(is_more_free) => self.may_shrink = is_more_free,
            Err(error) => {
                tracing::warn!(%error, "the database file keeps its free pages");
                self.may_shrink = false;
            }
        }
    }

    /// Returns whether there are more pages to give back.
    fn give_back(&self) -> rusqlite::Result<bool> {
        let free_pages = || {
            self.connection
                .query_row("PRAGMA freelist_count", [], |row| row.get::<_, u32>(0))
        };

        if !self.has_files || free_pages()? <= MAX_FREE_PAGES {
            return Ok(false);
        }

        let vacuum = format!("PRAGMA incremental_vacuum({PAGES_AT_ONCE})");
        let mut vacuum = self.connection.prepare_cached(&vacuum)?;
        let mut rows = vacuum.query([])?;
        while rows.next()?.is_some() {}
        drop(rows);
        if free_pages()? > MAX_FREE_PAGES {
            return Ok(true);
        }

        // The file shrinks when the log is copied into it.
        let checkpoint = "PRAGMA wal_checkpoint(PASSIVE)";
        self.connection.query_row(checkpoint, [], |_| Ok(()))?;
        Ok(false)
    }

    fn close(self) {
        // The last connection to close copies the rest, and removes the log.
        if let Some(copier) = &self.copier {
            copier.close();
        }
        self.connection.flush_prepared_statement_cache();
        if let Err((_, error)) = self.connection.close() {
            tracing::warn!(%error, "the database was not closed cleanly; the next start recovers it");
        }
    }
}

const DATABASE_GONE: &str = "a file of the data directory was removed or replaced, so nothing is \
                             stored; restart the server";

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
