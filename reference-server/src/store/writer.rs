//! The writer thread: takes the waiting jobs, runs them in one transaction, commits,
//! and sends the results.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Instant;

use rusqlite::Connection;

use super::checkpoint::Checkpoints;
use super::file_identity::FileIdentity;
use super::job::{Job, JobResult};
use super::lock::lock;
use super::queue::Queue;
use super::tx::{Effects, Tx, Wake};
use crate::model::clock::Clock;
use crate::model::error::{ApiError, Code};

/// Runs until the queue is closed and empty, sets `closing`, and closes the connection.
pub(super) fn run(
    connection: Connection,
    checkpoints: Option<Checkpoints>,
    queue: &Queue,
    clock: &Clock,
    wake: &Wake,
    files: &[FileIdentity],
    closing: &Mutex<Option<Instant>>,
) {
    let _abandon = AbandonOnExit(queue);
    let mut group = VecDeque::new();
    let (mut full, mut present) = (true, true);
    loop {
        queue.next_group(&mut group);
        if group.is_empty() {
            break;
        }
        let was_present = present;
        present = files.iter().all(FileIdentity::is_present);
        if was_present && !present {
            tracing::error!("{DATABASE_GONE}");
        }
        if !present {
            fail_all(&mut group, &ApiError::new(Code::Unavailable, DATABASE_GONE));
            continue;
        }
        let durable = group.iter().any(|job| job.durable);
        if !files.is_empty() && durable != full {
            let level = if durable { "FULL" } else { "NORMAL" };
            match connection.pragma_update(None, "synchronous", level) {
                Ok(()) => full = durable,
                Err(error) => tracing::error!(%error, "cannot change PRAGMA synchronous"),
            }
        }
        commit(&connection, &mut group, queue, clock, wake);
        if let Some(checkpoints) = &checkpoints {
            checkpoints.after_commit(&connection);
        }
    }
    // The last connection to close copies the rest of the log.
    let _database = checkpoints.map(Checkpoints::stop);
    {
        let mut closing = lock(closing);
        *closing = Some(Instant::now());
        // Clears an interruption that no statement has seen: it would end the copy of the
        // write-ahead log.
        let _ = connection.execute_batch("SELECT 1");
    }
    connection.flush_prepared_statement_cache();
    if let Err((_, error)) = connection.close() {
        tracing::warn!(%error, "the database was not closed cleanly; the next start recovers it");
    }
}

const DATABASE_GONE: &str = "a file of the data directory was removed or replaced, so nothing is \
                             stored; restart the server";

/// Abandons the queue when the writer ends, even by a panic, so that no caller waits
/// for ever.
struct AbandonOnExit<'a>(&'a Queue);

impl Drop for AbandonOnExit<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// Runs the group in one transaction and sends all results.
fn commit(
    connection: &Connection,
    group: &mut VecDeque<Job>,
    queue: &Queue,
    clock: &Clock,
    wake: &Wake,
) {
    let mut done: Vec<(JobResult, Effects)> = Vec::with_capacity(group.len());
    let mut result = execute(connection, "BEGIN IMMEDIATE");
    while result.is_ok()
        && let Some(job) = group.pop_front()
    {
        let mut tx = Tx::new(connection, clock.now(), queue.pressure(), &wake.log);
        match run_one(connection, job, &mut tx) {
            Ok(Some(finished)) => done.push((finished, tx.effects)),
            // The job panicked. The dropped result channel reports this to the caller.
            Ok(None) => {}
            Err(error) => result = Err(error),
        }
    }
    if result.is_ok() {
        result = execute(connection, "COMMIT");
    }
    match result {
        Ok(()) => {
            for (finished, effects) in done {
                if finished.keep {
                    effects.apply(wake);
                }
                (finished.respond)(Ok(()));
            }
        }
        Err(error) => {
            if !connection.is_autocommit() {
                let _ = execute(connection, "ROLLBACK");
            }
            let error = ApiError::from(error);
            for (finished, _) in done {
                (finished.respond)(Err(error.clone()));
            }
            fail_all(group, &error);
        }
    }
}

/// Fails all jobs of the group with the error.
fn fail_all(group: &mut VecDeque<Job>, error: &ApiError) {
    for job in group.drain(..) {
        ((job.run)(Err(error.clone())).respond)(Ok(()));
    }
}

/// Runs a job in its savepoint. An error means that the whole transaction failed.
fn run_one(
    connection: &Connection,
    job: Job,
    tx: &mut Tx<'_>,
) -> rusqlite::Result<Option<JobResult>> {
    execute(connection, "SAVEPOINT job")?;
    let finished = catch_unwind(AssertUnwindSafe(|| (job.run)(Ok(tx)))).ok();
    // SQLite rolls back the whole transaction if the disk is full or fails.
    if connection.is_autocommit() {
        let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
        let error = rusqlite::Error::SqliteFailure(full, None);
        if let Some(finished) = finished {
            (finished.respond)(Err(ApiError::new(Code::StorageFull, "nothing was stored")));
        }
        return Err(error);
    }
    if !finished.as_ref().is_some_and(|finished| finished.keep) {
        execute(connection, "ROLLBACK TO job")?;
    }
    execute(connection, "RELEASE job")?;
    Ok(finished)
}

fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}
