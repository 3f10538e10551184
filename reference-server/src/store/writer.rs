//! The writer thread: takes the jobs that wait, runs them in one transaction,
//! commits, answers.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rusqlite::Connection;

use super::place::Place;
use super::queue::Queue;
use super::tx::{Effects, Tx, Wake};
use crate::clock::Clock;
use crate::error::{ApiError, Code};

pub(super) struct Job {
    /// Whether it must be on disk before it is answered.
    pub(super) durable: bool,
    /// Whether somebody waits for it, and not only the engine.
    pub(super) awaited: bool,
    /// Does the work, or takes the reason why it cannot be done.
    pub(super) run: Box<Run>,
}

type Run = dyn FnOnce(Result<&mut Tx<'_>, ApiError>) -> Finished + Send;

pub(super) struct Finished {
    /// Whether what the job wrote stays.
    pub(super) keep: bool,
    /// Takes whether it is on disk.
    pub(super) answer: Box<dyn FnOnce(Result<(), ApiError>) + Send>,
}

/// Runs until the queue is closed and empty; the connection closes with it.
pub(super) fn run(
    connection: Connection,
    queue: &Queue,
    clock: &Clock,
    wake: &Wake,
    place: Option<&Place>,
) {
    let _last = Last(queue);
    let mut group = VecDeque::new();
    let (mut full, mut there) = (true, true);
    loop {
        queue.next_group(&mut group);
        if group.is_empty() {
            break;
        }
        if let Some(place) = place {
            let was_there = std::mem::replace(&mut there, place.is_there());
            if was_there && !there {
                tracing::error!("the database's file was removed or replaced: {GONE}");
            }
        }
        if !there {
            refuse(&mut group, &ApiError::new(Code::Unavailable, GONE));
            continue;
        }
        let durable = group.iter().any(|job| job.durable);
        if place.is_some() && durable != full {
            let level = if durable { "FULL" } else { "NORMAL" };
            match connection.pragma_update(None, "synchronous", level) {
                Ok(()) => full = durable,
                Err(error) => tracing::error!(%error, "cannot change the level of syncing"),
            }
        }
        commit(&connection, &mut group, queue, clock, wake);
    }
    connection.flush_prepared_statement_cache();
    if let Err((_, error)) = connection.close() {
        tracing::warn!(%error, "the database did not close cleanly; the next start recovers it");
    }
}

const GONE: &str = "nothing is stored until the server is started again";

/// Nobody is to wait for a writer that is gone, however it went.
struct Last<'a>(&'a Queue);

impl Drop for Last<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// Runs the group in one transaction and answers all of it.
fn commit(
    connection: &Connection,
    group: &mut VecDeque<Job>,
    queue: &Queue,
    clock: &Clock,
    wake: &Wake,
) {
    let mut done: Vec<(Finished, Effects)> = Vec::with_capacity(group.len());
    let mut result = execute(connection, "BEGIN IMMEDIATE");
    while result.is_ok()
        && let Some(job) = group.pop_front()
    {
        let mut tx = Tx::new(connection, clock.now(), queue.pressure());
        match run_one(connection, job, &mut tx) {
            Ok(Some(finished)) => done.push((finished, tx.effects)),
            // It panicked; its dropped answer tells its caller.
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
                (finished.answer)(Ok(()));
            }
        }
        Err(error) => {
            if !connection.is_autocommit() {
                let _ = execute(connection, "ROLLBACK");
            }
            let error = ApiError::from(error);
            for (finished, _) in done {
                (finished.answer)(Err(error.clone()));
            }
            refuse(group, &error);
        }
    }
}

/// Answers all of the group with the error.
fn refuse(group: &mut VecDeque<Job>, error: &ApiError) {
    for job in group.drain(..) {
        ((job.run)(Err(error.clone())).answer)(Ok(()));
    }
}

/// Runs a job in its savepoint. An error means that the whole transaction is lost.
fn run_one(
    connection: &Connection,
    job: Job,
    tx: &mut Tx<'_>,
) -> rusqlite::Result<Option<Finished>> {
    execute(connection, "SAVEPOINT job")?;
    let finished = catch_unwind(AssertUnwindSafe(|| (job.run)(Ok(tx)))).ok();
    // A full or failing disk may have ended the transaction under the job.
    if connection.is_autocommit() {
        let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
        let error = rusqlite::Error::SqliteFailure(full, None);
        if let Some(finished) = finished {
            (finished.answer)(Err(ApiError::new(Code::StorageFull, "nothing was stored")));
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
