//! The database: one SQLite file, one writer thread that groups commits, a few threads that read,
//! and under load one that copies SQLite's log into the file.
//!
//! A write is a closure. The writer thread takes all that wait, runs each in its own savepoint of
//! one transaction, commits, and only then sends the results. A successful result therefore means
//! that the data is on disk, and concurrent writes share the cost of the sync.
//!
//! Each table has a module that holds every statement for it: the `…_rows` of its resource, or one here. A
//! closure gets a [`Tx`] or a [`Reader`], and calls those.

pub(crate) mod bodies;
pub(crate) mod data_dir;
mod file_identity;
pub(crate) mod idempotency;
mod lock;
pub(crate) mod meta;
mod migrations;
pub(crate) mod notifications;
mod open;
mod organization;
mod readers;
pub(crate) mod rows;
mod search;
mod threads;
mod tx;
mod writer;

use std::path::Path;
use std::sync::Arc;

use svc_sdk::Dialect;
use tokio::sync::oneshot;

pub(crate) use lock::lock;
pub(crate) use open::OpenError;
pub(crate) use organization::{NO_ORGANIZATION, SANDBOX, find_named};
use readers::Read;
pub(crate) use rows::{Json, MAX_LEVELS, Row, json, levels};
use threads::{Queue, Threads};
pub(crate) use tx::{AllKeys, Hash, Reader, Tx, Wake};
use writer::{Write, Writer};

use crate::jobs::clock::Clock;
use crate::model::{Failure, Result};

/// Handle to the database, shared by the whole server.
pub(crate) struct Store {
    writer: Threads<Write>,
    /// `None` for an in-memory database, whose only connection is the writer's.
    readers: Option<Threads<Read>>,
    /// Notified after each commit.
    pub(crate) wake: Arc<Wake>,
}

impl Store {
    /// Opens the database, creates it if it is new, and starts the threads. It is the file `svc.db`
    /// in the directory, or in memory. Also returns the clock, which continues from where it was
    /// saved. The database may grow to `max_bytes`.
    pub(crate) fn open(
        directory: Option<&Path>,
        max_bytes: Option<u64>,
        dialect: Dialect,
    ) -> Result<(Self, Arc<Clock>), OpenError> {
        let path = directory.map(|directory| directory.join("svc.db"));
        let connection = path.as_deref().map_or_else(open::memory, open::file)?;
        if let Some(bytes) = max_bytes {
            open::limit_size(&connection, bytes)?;
        }
        let clock = Arc::new(meta::restore_clock_and_ids(Reader::new(&connection))?);
        let wake = Arc::new(Wake {
            dialect,
            ..Wake::default()
        });
        let readers = path.as_deref().map(readers::start).transpose()?;
        let writer = Writer::new(connection, path, Arc::clone(&clock), Arc::clone(&wake));
        let write = move |queue: Queue<Write>| writer.run(&queue);
        let writer = Threads::start("svc-writer", [write])?;
        Ok((
            Self {
                writer,
                readers,
                wake,
            },
            clock,
        ))
    }

    /// Runs a closure in a transaction and returns once its data is on disk.
    ///
    /// If it fails, nothing that it wrote is kept.
    pub(crate) async fn write<T, F>(&self, write: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        self.submit(true, write).await
    }

    /// Like [`Store::write`], for the work of the engine. After a power failure the work may have
    /// to be done again; after a killed process it is not lost.
    pub(crate) async fn write_relaxed<T, F>(&self, write: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        self.submit(false, write).await
    }

    /// Reads committed data on a reader thread.
    pub(crate) async fn read<T, F>(&self, read: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(Reader<'_>) -> Result<T> + Send + 'static,
    {
        let Some(readers) = &self.readers else {
            return self.submit(false, move |tx| read(tx.reader())).await;
        };

        let (sender, receiver) = oneshot::channel();
        let run = move |reader: rusqlite::Result<Reader<'_>>| {
            // The client may have disconnected while this was waiting.
            if !sender.is_closed() {
                let _ = sender.send(reader.map_err(Failure::from).and_then(read));
            }
        };

        readers.push(Box::new(run))?;
        receiver.await.unwrap_or_else(|_| Err(panicked()))
    }

    /// Completes what was submitted and closes the database.
    pub(crate) fn close(&self) {
        // Close the readers first: the last connection to close copies the write-ahead
        // log into the database file, and a read-only connection cannot.
        self.readers.iter().for_each(Threads::close);
        self.writer.close();
    }

    async fn submit<T, F>(&self, durable: bool, write: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        let (done, committed) = oneshot::channel();
        let (sender, mut result) = oneshot::channel();
        let run = Box::new(move |tx: &mut Tx<'_>| {
            let written = write(tx);
            let keep = written.is_ok();
            // The receiver is gone if the client disconnected.
            let _ = sender.send(written);
            keep
        });
        self.writer.push(Write { durable, run, done })?;
        committed.await.unwrap_or_else(|_| Err(panicked()))?;
        result.try_recv().unwrap_or_else(|_| Err(panicked()))
    }
}

fn panicked() -> Failure {
    Failure::internal("the use of the database panicked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failed_job_leaves_no_rows() {
        let (store, _) = Store::open(None, None, Dialect::default()).unwrap();
        let insert = |tx: &mut Tx<'_>, key: &str| -> Result<(), Failure> {
            tx.execute("INSERT INTO meta VALUES (?1, 'x')", [key])?;
            Ok(())
        };

        let failed = store.write(move |tx| {
            insert(tx, "failed")?;
            Err::<(), _>(Failure::not_found("thing"))
        });
        assert!(failed.await.is_err());
        let panicked = store.write::<(), _>(move |tx| {
            insert(tx, "panicked")?;
            panic!("intentional panic of this test")
        });
        assert!(panicked.await.is_err());
        store.write(move |tx| insert(tx, "done")).await.unwrap();

        let keys = store.read(|reader| {
            let mut statement = reader.statement("SELECT key FROM meta WHERE value = 'x'")?;
            let rows = statement.query_map([], |row| row.get(0))?;
            Ok(rows.collect::<rusqlite::Result<Vec<String>>>()?)
        });
        assert_eq!(keys.await.unwrap(), ["done"]);
    }
}
