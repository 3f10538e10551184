//! The writer thread: takes the waiting writes, runs them in one transaction, commits, and sends
//! the results.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::file_identity::FileIdentity;
use super::lock::lock;
use super::tx::{Effects, Tx, Wake, execute};
use crate::model::error::{ApiError, Code};
use crate::runtime::clock::Clock;

pub(super) struct Write {
    /// Whether the data must be synced to disk before the result is sent.
    pub(super) durable: bool,
    /// Writes, or receives the error that prevents it.
    pub(super) run: Box<Run>,
}

type Run = dyn FnOnce(Result<&mut Tx<'_>, ApiError>) -> Written + Send;

pub(super) struct Written {
    /// Whether to keep what was written.
    pub(super) keep: bool,
    /// Sends the result, given whether the commit succeeded.
    pub(super) respond: Box<dyn FnOnce(Result<(), ApiError>) + Send>,
}

/// Maximum number of writes in one transaction: enough to share the cost of a sync, few enough
/// that none waits long.
const MAX_WRITES: usize = 256;

pub(super) struct Writer {
    /// `None` once closed.
    queue: Mutex<Option<Sender<Write>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts the thread. `path` is that of the database, unless it is in memory.
    pub(super) fn start(
        connection: Connection,
        path: Option<&Path>,
        clock: &Arc<Clock>,
        wake: &Arc<Wake>,
    ) -> std::io::Result<Self> {
        let files = path.map(FileIdentity::of_all).transpose()?.unwrap_or_default();
        let (sender, queue) = channel();
        let (clock, wake) = (Arc::clone(clock), Arc::clone(wake));
        let thread = std::thread::Builder::new().name("svc-writer".to_owned());
        let thread = thread.spawn(move || run(connection, &queue, &clock, &wake, &files))?;
        Ok(Self { queue: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)) })
    }

    /// Returns `false` if the writer accepts no more writes.
    pub(super) fn push(&self, write: Write) -> bool {
        lock(&self.queue).as_ref().is_some_and(|queue| queue.send(write).is_ok())
    }

    /// Completes what was submitted, and ends the thread.
    pub(super) fn close(&self) {
        lock(&self.queue).take();
        if let Some(thread) = lock(&self.thread).take()
            && thread.join().is_err()
        {
            tracing::error!("the database writer thread panicked");
        }
    }
}

/// Runs until the queue is closed and empty, and closes the connection.
fn run(
    connection: Connection,
    queue: &Receiver<Write>,
    clock: &Clock,
    wake: &Wake,
    files: &[FileIdentity],
) {
    let mut group = VecDeque::new();
    let (mut full, mut present) = (true, true);
    while let Ok(first) = queue.recv() {
        group.push_back(first);
        group.extend(queue.try_iter().take(MAX_WRITES - 1));
        let was_present = present;
        present = files.iter().all(FileIdentity::is_present);
        if was_present && !present {
            tracing::error!("{DATABASE_GONE}");
        }
        if !present {
            fail_all(&mut group, &ApiError::new(Code::Unavailable, DATABASE_GONE));
            continue;
        }
        let durable = group.iter().any(|write| write.durable);
        if !files.is_empty() && durable != full {
            let level = if durable { "FULL" } else { "NORMAL" };
            match connection.pragma_update(None, "synchronous", level) {
                Ok(()) => full = durable,
                Err(error) => tracing::error!(%error, "cannot change PRAGMA synchronous"),
            }
        }
        commit(&connection, &mut group, clock, wake);
    }
    connection.flush_prepared_statement_cache();
    if let Err((_, error)) = connection.close() {
        tracing::warn!(%error, "the database was not closed cleanly; the next start recovers it");
    }
}

pub(super) fn stopping() -> ApiError {
    ApiError::new(Code::Unavailable, "the server is stopping")
}

const DATABASE_GONE: &str = "a file of the data directory was removed or replaced, so nothing is \
                             stored; restart the server";

/// Runs the group in one transaction and sends all results.
fn commit(connection: &Connection, group: &mut VecDeque<Write>, clock: &Clock, wake: &Wake) {
    let mut done: Vec<(Written, Effects)> = Vec::with_capacity(group.len());
    let mut result = execute(connection, "BEGIN IMMEDIATE");
    while result.is_ok()
        && let Some(write) = group.pop_front()
    {
        let mut tx = Tx::new(connection, clock.now(), &wake.notifications);
        match run_one(connection, write, &mut tx) {
            Ok(Some(written)) => done.push((written, tx.effects)),
            // It panicked. The dropped result channel reports this to the caller.
            Ok(None) => {}
            Err(error) => result = Err(error),
        }
    }
    if result.is_ok() {
        result = execute(connection, "COMMIT");
    }
    match result {
        Ok(()) => {
            for (written, effects) in done {
                if written.keep {
                    effects.apply(wake);
                }
                (written.respond)(Ok(()));
            }
        }
        Err(error) => {
            if !connection.is_autocommit() {
                let _ = execute(connection, "ROLLBACK");
            }
            let error = ApiError::from(error);
            for (written, _) in done {
                (written.respond)(Err(error.clone()));
            }
            fail_all(group, &error);
        }
    }
}

/// Fails all writes of the group with the error.
fn fail_all(group: &mut VecDeque<Write>, error: &ApiError) {
    for write in group.drain(..) {
        ((write.run)(Err(error.clone())).respond)(Ok(()));
    }
}

/// Runs a write in its savepoint. An error means that the whole transaction failed.
fn run_one(
    connection: &Connection,
    write: Write,
    tx: &mut Tx<'_>,
) -> rusqlite::Result<Option<Written>> {
    execute(connection, "SAVEPOINT write")?;
    let written = catch_unwind(AssertUnwindSafe(|| (write.run)(Ok(tx)))).ok();
    // SQLite rolls back the whole transaction if the disk is full or fails.
    if connection.is_autocommit() {
        let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
        let error = rusqlite::Error::SqliteFailure(full, None);
        if let Some(written) = written {
            (written.respond)(Err(ApiError::new(Code::StorageFull, "nothing was stored")));
        }
        return Err(error);
    }
    if !written.as_ref().is_some_and(|written| written.keep) {
        execute(connection, "ROLLBACK TO write")?;
    }
    execute(connection, "RELEASE write")?;
    Ok(written)
}
