//! The threads that read the database, each with a connection of its own. They are not
//! tokio's blocking threads, so that other blocking work cannot stop reads.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::lock::lock;
use super::{Reader, open};
use crate::model::error::ApiError;

/// Gets an error if there is no connection.
pub(super) type ReadJob = Box<dyn FnOnce(Result<Reader<'_>, ApiError>) + Send>;

pub(super) struct Readers {
    pub(super) path: PathBuf,
    /// `None` once closed.
    jobs: Mutex<Option<Sender<ReadJob>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Readers {
    pub(super) fn start(path: PathBuf, threads: usize) -> io::Result<Self> {
        let (sender, jobs) = channel();
        let jobs = Arc::new(Mutex::new(jobs));
        let start = |_| {
            let (path, jobs) = (path.clone(), Arc::clone(&jobs));
            let thread = std::thread::Builder::new().name("svc-reader".to_owned());
            thread.spawn(move || run(&path, &jobs))
        };
        let threads = (0..threads).map(start).collect::<io::Result<_>>()?;
        Ok(Self { path, jobs: Mutex::new(Some(sender)), threads: Mutex::new(threads) })
    }

    /// Returns `false` if the readers are closed.
    pub(super) fn push(&self, job: ReadJob) -> bool {
        lock(&self.jobs).as_ref().is_some_and(|jobs| jobs.send(job).is_ok())
    }

    /// Waits for all submitted jobs and closes the connections.
    pub(super) fn close(&self) {
        lock(&self.jobs).take();
        for thread in lock(&self.threads).drain(..) {
            if thread.join().is_err() {
                tracing::error!("a database reader thread panicked");
            }
        }
    }
}

/// Runs until the readers are closed and no job is left. The connection is opened at once,
/// so that it does not lack a file descriptor later, and again after a failure.
fn run(path: &Path, jobs: &Mutex<Receiver<ReadJob>>) {
    let mut kept: Option<Connection> = open::reader(path).ok();
    loop {
        // Only one thread waits for the next job; the others wait for the lock.
        let next = lock(jobs).recv();
        let Ok(job) = next else { return };
        let connection = match kept.take() {
            Some(connection) => Ok(connection),
            None => open::reader(path).map_err(ApiError::from),
        };
        // The caller of a job that panics gets an error, because the job drops its sender.
        let reader = connection.as_ref().map(Reader::new).map_err(Clone::clone);
        let finished = catch_unwind(AssertUnwindSafe(|| job(reader)));
        kept = connection.ok().filter(|_| finished.is_ok());
    }
}
