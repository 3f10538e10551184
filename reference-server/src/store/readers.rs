//! The threads that read the database, each with a connection of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use rusqlite::Connection;

use super::lock::lock;
use super::open::{self, OpenError};
use super::threads::{Queue, Threads};
use super::tx::{Reader, execute};

pub(super) type Read = Box<dyn FnOnce(rusqlite::Result<Reader<'_>>) + Send>;

/// One read that takes long leaves room for others. Each thread takes about 150 KiB when idle.
const THREADS: usize = 2;

/// Opens the connections, so that they do not lack file descriptors later.
pub(super) fn start(path: &Path) -> Result<Threads<Read>, OpenError> {
    let connections = (0..THREADS).map(|_| open::reader(path));
    let connections = connections.collect::<rusqlite::Result<Vec<_>>>()?;
    let runs = connections
        .into_iter()
        .map(|connection| move |queue| run(&connection, &queue));
    Ok(Threads::start("svc-reader", runs)?)
}

/// Runs until the queue is closed and empty.
fn run(connection: &Connection, queue: &Queue<Read>) {
    loop {
        // Only one thread waits for the next read; the others wait for the lock.
        let next = lock(queue).recv();
        let Ok(read) = next else { return };
        // All statements of a read see the same state, and lock the database once.
        let reader = execute(connection, "BEGIN").map(|()| Reader::new(connection));
        // The caller of a read that panics gets an error, because the read drops its sender.
        let _ = catch_unwind(AssertUnwindSafe(|| read(reader)));
        // What cannot be ended is rolled back, so that the next read can begin.
        let _ = execute(connection, "COMMIT").or_else(|_| execute(connection, "ROLLBACK"));
    }
}
