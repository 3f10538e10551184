//! The database: one SQLite file, one writer thread with group commit, and a fixed number
//! of threads for readers and for searches.
//!
//! A write is a closure, called a job. The writer thread takes all waiting jobs, runs
//! each in its own savepoint of one transaction, commits, and only then sends the
//! results. A successful result therefore means that the data is on disk, and
//! concurrent jobs share the cost of the sync.
//!
//! Each table has a module, which holds every statement for it. No other code can run one:
//! a job gets a [`Tx`] or a [`Reader`], and only the store can run statements with those.

pub(crate) mod attempts;
pub(crate) mod audiences;
pub(crate) mod bodies;
mod checkpoint;
pub(crate) mod contacts;
pub(crate) mod crashes;
pub(crate) mod data_dir;
pub(crate) mod deleted;
pub(crate) mod deliveries;
pub(crate) mod dns_records;
pub(crate) mod domains;
pub(crate) mod due;
pub(crate) mod emails;
mod error;
pub(crate) mod faults;
mod file_identity;
pub(crate) mod idempotency;
pub(crate) mod in_progress;
mod job;
pub(crate) mod keys;
pub(crate) mod large;
pub(crate) mod local_deliveries;
mod lock;
pub(crate) mod messages;
pub(crate) mod meta;
mod migrations;
mod open;
pub(crate) mod organizations;
pub(crate) mod pending_events;
#[cfg(debug_assertions)]
mod plans;
mod pressure;
mod queue;
mod reader;
mod readers;
pub(crate) mod relay_queue;
pub(crate) mod request_log;
pub(crate) mod reset;
mod restore;
mod running;
pub(crate) mod templates;
mod tx;
pub(crate) mod webhooks;
mod word_index;
mod writer;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Connection, InterruptHandle};
use tokio::sync::{Semaphore, oneshot};

use checkpoint::Checkpoints;
use file_identity::FileIdentity;
use in_progress::{InProgress, Job};
use job::{Job as WriterJob, JobResult};
pub(crate) use lock::lock;
pub(crate) use open::OpenError;
use queue::Queue;
pub(crate) use reader::Reader;
use readers::Readers;
use restore::restore_clock_and_ids;
use running::InterruptOnDrop;
pub(crate) use tx::{NO_ORGANIZATION, Tx, Wake};

use crate::model::clock::Clock;
use crate::model::error::{ApiError, Code};
use crate::model::heavy;

/// Where the data is stored.
#[derive(Clone, Debug)]
pub(crate) enum Location {
    /// The file `svc.db` in this directory.
    Directory(PathBuf),
    Memory,
}

/// Handle to the database, shared by the whole server.
pub(crate) struct Store {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// `None` for an in-memory database, whose only connection is the writer's.
    readers: Option<Readers>,
    /// The same for searches.
    searchers: Option<Readers>,
    /// The background jobs in progress.
    pub(crate) in_progress: InProgress,
    /// Those that the last server left when it crashed.
    interrupted: Vec<Job>,
    /// Held while a piece of a large value is stored.
    staging: Semaphore,
    /// Of the writer's connection.
    interrupt: Mutex<Option<InterruptHandle>>,
    /// Set when the writer thread has no more jobs and begins to close the database.
    closing: Arc<Mutex<Option<Instant>>>,
    /// Notified after each commit about work that became due.
    pub(crate) wake: Arc<Wake>,
}

impl Store {
    /// Opens the database, applies missing migrations, and starts the writer thread. Also
    /// returns the clock, which continues from where it was saved. The database may grow to
    /// `max_bytes`.
    pub(crate) fn open(
        location: &Location,
        max_bytes: Option<u64>,
    ) -> Result<(Self, Arc<Clock>), OpenError> {
        let (connection, readers, searchers) = match location {
            Location::Memory => (open::memory()?, None, None),
            Location::Directory(directory) => {
                let path = directory.join("svc.db");
                let connection = open::file(&path)?;
                let start = |threads| Readers::start(path.clone(), threads).map(Some);
                let readers = start(READERS).map_err(OpenError::Start)?;
                (connection, readers, start(SEARCHERS).map_err(OpenError::Start)?)
            }
        };
        if let Some(bytes) = max_bytes {
            open::limit_size(&connection, bytes)?;
        }
        let clock = Arc::new(restore_clock_and_ids(Reader::new(&connection))?);
        let (in_progress, interrupted) = match location {
            Location::Memory => Default::default(),
            Location::Directory(directory) => {
                InProgress::open(directory).unwrap_or_else(|error| {
                    // Most likely the disk is full.
                    tracing::warn!(%error, "a job that ends this process will not be counted");
                    Default::default()
                })
            }
        };
        let store = Self {
            queue: Arc::default(),
            in_progress,
            interrupted,
            thread: Mutex::new(None),
            readers,
            searchers,
            staging: Semaphore::new(1),
            interrupt: Mutex::new(Some(connection.get_interrupt_handle())),
            closing: Arc::default(),
            wake: Arc::default(),
        };
        let checkpoints = match location {
            Location::Memory => None,
            Location::Directory(directory) => {
                Some(Checkpoints::start(&connection, &directory.join("svc.db"))?)
            }
        };
        store.start(connection, checkpoints, Arc::clone(&clock)).map_err(OpenError::Start)?;
        Ok((store, clock))
    }

    fn start(
        &self,
        connection: Connection,
        checkpoints: Option<Checkpoints>,
        clock: Arc<Clock>,
    ) -> std::io::Result<()> {
        let (queue, wake) = (Arc::clone(&self.queue), Arc::clone(&self.wake));
        let closing = Arc::clone(&self.closing);
        let files = match &self.readers {
            Some(readers) => FileIdentity::of_all(&readers.path)?,
            None => Vec::new(),
        };
        let thread =
            std::thread::Builder::new().name("svc-writer".to_owned()).spawn(move || {
                writer::run(connection, checkpoints, &queue, &clock, &wake, &files, &closing);
            })?;
        *lock(&self.thread) = Some(thread);
        Ok(())
    }

    /// Runs a job in a transaction and returns once it is on disk.
    ///
    /// If the job fails, nothing that it wrote is kept.
    pub(crate) async fn write<T, F>(&self, job: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, ApiError> + Send + 'static,
    {
        self.submit(true, true, job).await
    }

    /// Like [`Store::write`], for background work of the engine. It yields to jobs that
    /// a request waits for. After a power failure the work may have to be done again;
    /// after a killed process it is not lost.
    pub(crate) async fn write_relaxed<T, F>(&self, job: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, ApiError> + Send + 'static,
    {
        self.submit(false, false, job).await
    }

    /// Reads committed data on a reader thread.
    pub(crate) async fn read<T, F>(&self, job: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(Reader<'_>) -> Result<T, ApiError> + Send + 'static,
    {
        let Some(readers) = &self.readers else {
            return self.submit(false, true, move |tx| job(tx.reader())).await;
        };
        let (sender, receiver) = oneshot::channel();
        let run = move |reader: Result<Reader<'_>, ApiError>| {
            // The client may have disconnected while the job was waiting.
            if !sender.is_closed() {
                let _ = sender.send(reader.and_then(job));
            }
        };
        if !readers.push(Box::new(run)) {
            return Err(stopping());
        }
        receiver.await.unwrap_or_else(|_| Err(ApiError::internal("a database job panicked")))
    }

    /// Like [`Store::read`], for a job that may read a whole table. Such jobs have threads of
    /// their own, and are interrupted when their client disconnects.
    pub(crate) async fn search<T, F>(&self, job: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(Reader<'_>) -> Result<T, ApiError> + Send + 'static,
    {
        let interrupt = InterruptOnDrop::default();
        let running = Arc::clone(&interrupt.running);
        let (sender, receiver) = oneshot::channel();
        let run = move |reader: Result<Reader<'_>, ApiError>| {
            let result = reader.and_then(|reader| {
                let _end = running.begin(reader.interrupt_handle());
                // The client may have disconnected before that.
                if sender.is_closed() { Err(stopping()) } else { job(reader) }
            });
            let _ = sender.send(result);
        };
        if let Some(searchers) = &self.searchers {
            if !searchers.push(Box::new(run)) {
                return Err(stopping());
            }
        } else {
            let run = |tx: &mut Tx<'_>| {
                run(Ok(tx.reader()));
                Ok(())
            };
            self.submit(false, true, run).await?;
        }
        receiver.await.unwrap_or_else(|_| Err(ApiError::internal("a database job panicked")))
    }

    /// Does a part of a background job that needs no network, on this many bytes, on a blocking
    /// thread (see [`InProgress::run`]).
    pub(crate) async fn run_background<T: Send + 'static>(
        self: &Arc<Self>,
        job: &Job,
        bytes: usize,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let (store, job) = (Arc::clone(self), job.clone());
        let work = move || store.in_progress.run(job, work);
        heavy::run_aside(bytes, work).await
    }

    /// Waits for all submitted jobs and closes the database.
    pub(crate) fn close(&self) {
        // A job that is cut off by the end of the process did not end it.
        self.in_progress.close();
        // Close the readers first: the last connection to close copies the write-ahead
        // log into the database file, and a read-only connection cannot.
        for readers in self.searchers.iter().chain(&self.readers) {
            readers.close();
        }
        self.queue.close();
        if let Some(thread) = lock(&self.thread).take()
            && thread.join().is_err()
        {
            tracing::error!("the database writer thread panicked");
        }
    }

    /// Makes the statements that are being executed fail, and drops the queued jobs, so that
    /// [`Store::close`] returns soon. Their callers get an error, and nothing that they wrote
    /// is kept.
    ///
    /// When the jobs have ended, SQLite copies the write-ahead log into the database file. That
    /// is interrupted only after [`LOG_TIMEOUT`]: nothing is lost, but the next start has to do it.
    pub(crate) fn interrupt(&self) {
        self.queue.abandon();
        for readers in self.searchers.iter().chain(&self.readers) {
            readers.interrupt();
        }
        let closing = lock(&self.closing);
        if closing.is_some_and(|since| since.elapsed() < LOG_TIMEOUT) {
            return;
        }
        if let Some(handle) = &*lock(&self.interrupt) {
            handle.interrupt();
        }
    }

    async fn submit<T, F>(&self, durable: bool, awaited: bool, job: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, ApiError> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let run = Box::new(move |tx: Result<&mut Tx<'_>, ApiError>| {
            let result = tx.and_then(job);
            JobResult {
                keep: result.is_ok(),
                respond: Box::new(move |committed: Result<(), ApiError>| {
                    // The receiver is gone if the client disconnected.
                    let _ = sender.send(result.and_then(|value| committed.map(|()| value)));
                }),
            }
        });
        if !self.queue.push(WriterJob { durable, awaited, run }) {
            return Err(stopping());
        }
        receiver.await.unwrap_or_else(|_| Err(ApiError::internal("a database job panicked")))
    }
}

/// How long an interrupted [`Store::close`] waits for the copy of the write-ahead log.
const LOG_TIMEOUT: Duration = Duration::from_secs(3);
/// Number of threads that read: more than a machine usually has cores, so that reads that wait
/// for the disk leave room for others.
const READERS: usize = 8;
/// Number of threads that search.
pub(crate) const SEARCHERS: usize = 4;

fn stopping() -> ApiError {
    ApiError::new(Code::Unavailable, "the server is stopping")
}

impl Drop for Store {
    fn drop(&mut self) {
        self.queue.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than there are threads for them, each without an end.
    #[tokio::test]
    async fn searches_end_when_their_clients_disconnect_and_hold_up_no_read() {
        // Without `WHERE`, so that the check of plans accepts it.
        const ENDLESS: &str = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)
                               SELECT MAX(x) FROM n LIMIT 1";
        let directory = tempfile::tempdir().unwrap();
        for location in [Location::Directory(directory.path().to_owned()), Location::Memory] {
            let (store, _) = Store::open(&location, None).unwrap();
            let store = Arc::new(store);
            let (started, mut begun) = tokio::sync::mpsc::unbounded_channel();
            let searches: Vec<_> = (0..2 * SEARCHERS)
                .map(|_| {
                    let (store, started) = (Arc::clone(&store), started.clone());
                    tokio::spawn(async move {
                        let search = store.search(move |reader| {
                            let _ = started.send(());
                            Ok(reader.find(ENDLESS, [], |row| row.get::<_, i64>(0))?)
                        });
                        search.await.map(drop)
                    })
                })
                .collect();
            begun.recv().await.unwrap();
            let read = |reader: Reader<'_>| Ok(reader.find("SELECT 1", [], |_| Ok(()))?);
            let limit = Duration::from_secs(60);
            if matches!(location, Location::Directory(_)) {
                tokio::time::timeout(limit, store.read(read)).await.expect("a read").unwrap();
            }
            searches.iter().for_each(tokio::task::JoinHandle::abort);
            tokio::time::timeout(limit, store.search(read)).await.expect("a search").unwrap();
            // The searches are still being interrupted, by tasks of this runtime.
            tokio::task::spawn_blocking(move || store.close()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_failed_job_leaves_no_rows() {
        let (store, _) = Store::open(&Location::Memory, None).unwrap();
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

    /// SQLite keeps an interruption that comes between two statements until the next one.
    #[tokio::test]
    async fn an_interruption_when_no_job_runs_does_not_prevent_the_copy_of_the_log() {
        let directory = tempfile::tempdir().unwrap();
        let location = Location::Directory(directory.path().to_owned());
        let (store, _) = Store::open(&location, None).unwrap();
        let insert = |tx: &mut Tx<'_>| Ok(tx.execute("INSERT INTO meta VALUES ('x', 'x')", [])?);
        store.write(insert).await.unwrap();
        let log = directory.path().join("svc.db-wal");
        assert!(log.exists());
        store.interrupt();
        tokio::task::spawn_blocking(move || store.close()).await.unwrap();
        assert!(!log.exists(), "the write-ahead log still exists");
    }

    #[tokio::test]
    async fn an_interrupted_job_leaves_no_rows_and_lets_the_store_close() {
        let directory = Location::Directory(tempfile::tempdir().unwrap().keep());
        let store = Arc::new(Store::open(&directory, None).unwrap().0);
        let endless = |tx: Reader<'_>| -> Result<(), ApiError> {
            loop {
                tx.find("SELECT 1", [], |_| Ok(()))?;
            }
        };
        let write = store.write(move |tx| {
            tx.execute("INSERT INTO meta VALUES ('endless', 'x')", [])?;
            endless(tx.reader())
        });
        let read = store.read(endless);
        let closing = Arc::clone(&store);
        let closed = std::thread::spawn(move || closing.close());
        let interrupt = async {
            while !closed.is_finished() {
                store.interrupt();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let (write, read, ()) = tokio::join!(write, read, interrupt);
        assert!(write.is_err() && read.is_err());
        let (store, _) = Store::open(&directory, None).unwrap();
        let keys = store.read(|reader| Ok(reader.find("SELECT key FROM meta", [], |_| Ok(()))?));
        assert_eq!(keys.await.unwrap(), None);
        let Location::Directory(path) = directory else { unreachable!() };
        drop(store);
        let _ = std::fs::remove_dir_all(path);
    }
}
