//! The threads that read the database, each with a connection of its own.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::lock::lock;
use super::open;
use super::threads::{Queue, Threads};
use super::tx::{Reader, execute};
use crate::model::error::ApiError;

/// Gets an error if there is no connection.
pub(super) type Read = Box<dyn FnOnce(Result<Reader<'_>, ApiError>) + Send>;

/// One read that takes long leaves room for others. Each thread takes about 150 KiB when idle.
const THREADS: usize = 2;

pub(super) fn start(path: &Path) -> io::Result<Threads<Read>> {
    let one = |_| {
        let path = path.to_owned();
        move |queue| run(&path, &queue)
    };
    Threads::start("svc-reader", (0..THREADS).map(one))
}

/// Runs until the readers are closed and nothing is left. The connection is opened at once, so
/// that it does not lack a file descriptor later, and again after a failure.
fn run(path: &Path, queue: &Queue<Read>) {
    let mut kept = open::reader(path).ok();
    loop {
        // Only one thread waits for the next read; the others wait for the lock.
        let next = lock(queue).recv();
        let Ok(read) = next else { return };
        let connection = match kept.take() {
            Some(connection) => Ok(connection),
            None => open::reader(path),
        };
        // All statements of a read see the same state, and lock the database once.
        let begun = connection.and_then(|connection| {
            execute(&connection, "BEGIN")?;
            Ok(connection)
        });
        let begun = begun.map_err(ApiError::from);
        // The caller of a read that panics gets an error, because the read drops its sender.
        let reader = begun.as_ref().map(Reader::new).map_err(Clone::clone);
        let _ = catch_unwind(AssertUnwindSafe(|| read(reader)));
        kept = begun.ok().filter(|connection| execute(connection, "COMMIT").is_ok());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_connection_that_could_not_be_opened_at_start_is_opened_later() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("svc.db");
        let readers = start(&path).unwrap();
        let read = || {
            let (sender, result) = channel();
            let read = move |reader: Result<Reader<'_>, ApiError>| {
                let _ = sender.send(reader.map(|_| ()));
            };
            readers.push(Box::new(read)).unwrap();
            result.recv().unwrap()
        };
        for _ in 0..2 * THREADS {
            assert!(read().is_err(), "there is no database yet");
        }
        drop(open::file(&path).unwrap());
        for _ in 0..2 * THREADS {
            assert!(read().is_ok());
        }
        readers.close();
    }
}
