//! The database: one SQLite file, one writer thread with group commit, and
//! readers on connections of their own.
//!
//! A write is a closure. The writer takes all that wait, runs each in its own
//! savepoint of one transaction, commits, and only then answers them all: what
//! was answered is on disk, and the cost of reaching it is shared.

mod migrations;
mod open;
mod past;
mod place;
#[cfg(test)]
mod plans;
mod queue;
mod tx;
mod writer;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::oneshot;

pub(crate) use open::{OpenError, limit_size};
pub(crate) use past::follow;
use place::Place;
use queue::Queue;
pub(crate) use tx::{DueKind, Tx, Wake, find};
use writer::{Finished, Job};

use crate::clock::Clock;
use crate::error::ApiError;

/// Where the data lives.
#[derive(Clone, Debug)]
pub(crate) enum Location {
    /// `svc.db` in this directory.
    Directory(PathBuf),
    Memory,
}

/// A handle to the database, shared by all of the server.
pub(crate) struct Store {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// `None` in memory, where the writer's connection is the only one.
    readers: Option<Readers>,
    /// Told after each commit what became due.
    pub(crate) wake: Arc<Wake>,
}

struct Readers {
    path: PathBuf,
    idle: Arc<Mutex<Vec<Connection>>>,
}

/// Readers beyond these are closed after use.
const IDLE_READERS: usize = 4;

impl Store {
    /// Opens the database, brings it up to date, and starts its writer.
    pub(crate) fn open(location: &Location) -> Result<(Self, Connection), OpenError> {
        let (connection, readers) = match location {
            Location::Memory => (open::memory()?, None),
            Location::Directory(directory) => {
                let path = directory.join("svc.db");
                let connection = open::file(&path)?;
                (connection, Some(Readers { path, idle: Arc::default() }))
            }
        };
        let store =
            Self { queue: Arc::default(), thread: Mutex::new(None), readers, wake: Arc::default() };
        Ok((store, connection))
    }

    /// Starts the writer thread on the connection that `open` gave.
    pub(crate) fn start(&self, connection: Connection, clock: Arc<Clock>) -> std::io::Result<()> {
        let (queue, wake) = (Arc::clone(&self.queue), Arc::clone(&self.wake));
        let place = self.readers.as_ref().map(|readers| Place::of(&readers.path)).transpose()?;
        let thread = std::thread::Builder::new()
            .name("svc-writer".to_owned())
            .spawn(move || writer::run(connection, &queue, &clock, &wake, place.as_ref()))?;
        *lock(&self.thread) = Some(thread);
        Ok(())
    }

    /// Runs a job in a transaction and returns once that is on disk.
    ///
    /// A job that fails leaves nothing behind.
    pub(crate) async fn write<T, F>(&self, job: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, ApiError> + Send + 'static,
    {
        self.submit(true, true, job).await
    }

    /// Like `write`, for the engine's own work: it gives way to what somebody
    /// waits for, and is simply done again should the power fail before it has
    /// reached the disk; a killed process does not lose it.
    pub(crate) async fn write_relaxed<T, F>(&self, job: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, ApiError> + Send + 'static,
    {
        self.submit(false, false, job).await
    }

    /// Reads what is committed, off the async threads.
    pub(crate) async fn read<T, F>(&self, job: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, ApiError> + Send + 'static,
    {
        let Some(readers) = &self.readers else {
            return self.submit(false, true, move |tx| job(tx.connection())).await;
        };
        let (path, idle) = (readers.path.clone(), Arc::clone(&readers.idle));
        let task = tokio::task::spawn_blocking(move || {
            let pooled = lock(&idle).pop();
            let connection = match pooled {
                Some(connection) => connection,
                None => open::reader(&path)?,
            };
            let result = job(&connection);
            let mut idle = lock(&idle);
            if idle.len() < IDLE_READERS {
                idle.push(connection);
            }
            result
        });
        task.await.unwrap_or_else(|error| Err(ApiError::internal(error)))
    }

    /// Waits until every job given so far is done, and closes the database.
    pub(crate) fn close(&self) {
        // First: the connection that is closed last brings what is in the log
        // into the database's file, which only the writer's can.
        if let Some(readers) = &self.readers {
            lock(&readers.idle).clear();
        }
        self.queue.close();
        if let Some(thread) = lock(&self.thread).take()
            && thread.join().is_err()
        {
            tracing::error!("the database's writer ended with a panic");
        }
    }

    async fn submit<T, F>(&self, durable: bool, awaited: bool, job: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, ApiError> + Send + 'static,
    {
        let (sender, answer) = oneshot::channel();
        let run = Box::new(move |tx: Result<&mut Tx<'_>, ApiError>| {
            let result = tx.and_then(job);
            Finished {
                keep: result.is_ok(),
                answer: Box::new(move |committed: Result<(), ApiError>| {
                    // Nobody may be waiting any more: the caller hung up.
                    let _ = sender.send(result.and_then(|value| committed.map(|()| value)));
                }),
            }
        });
        if !self.queue.push(Job { durable, awaited, run }) {
            return Err(ApiError::new(crate::error::Code::Unavailable, "the server is stopping"));
        }
        answer.await.unwrap_or_else(|_| Err(ApiError::internal("a database job panicked")))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.queue.close();
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Course;

    #[tokio::test]
    async fn a_job_that_fails_leaves_nothing_behind() {
        let (store, connection) = Store::open(&Location::Memory).unwrap();
        let clock = Arc::new(Clock::new(Course::Running { offset: 0 }));
        store.start(connection, clock).unwrap();
        let insert = |tx: &mut Tx<'_>, key: &str| -> Result<(), ApiError> {
            tx.execute("INSERT INTO meta VALUES (?1, 'x')", [key])?;
            Ok(())
        };
        let failed = store.write(move |tx| {
            insert(tx, "failed")?;
            Err::<(), _>(ApiError::not_found("thing"))
        });
        assert!(failed.await.is_err());
        let panicked = store.write::<(), _>(move |tx| {
            insert(tx, "panicked")?;
            panic!("a job of this test")
        });
        assert!(panicked.await.is_err());
        store.write(move |tx| insert(tx, "done")).await.unwrap();

        let keys = store.read(|connection| {
            let mut statement = connection.prepare("SELECT key FROM meta WHERE value = 'x'")?;
            let rows = statement.query_map([], |row| row.get(0))?;
            Ok(rows.collect::<rusqlite::Result<Vec<String>>>()?)
        });
        assert_eq!(keys.await.unwrap(), ["done"]);
    }
}
