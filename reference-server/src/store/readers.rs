//! The threads that read the database, each with a connection of its own. They are not
//! tokio's blocking threads, so that other blocking work cannot stop reads.

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rusqlite::{Connection, InterruptHandle};

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
    /// Of the connections in use.
    interrupts: Arc<Mutex<HashMap<usize, InterruptHandle>>>,
}

impl Readers {
    pub(super) fn start(path: PathBuf, threads: usize) -> io::Result<Self> {
        let (sender, jobs) = channel();
        let jobs = Arc::new(Mutex::new(jobs));
        let interrupts = Arc::new(Mutex::default());
        let start = |number| {
            let (path, jobs) = (path.clone(), Arc::clone(&jobs));
            let interrupts = Arc::clone(&interrupts);
            let thread = std::thread::Builder::new().name("svc-reader".to_owned());
            thread.spawn(move || run(number, &path, &jobs, &interrupts))
        };
        let threads = (0..threads).map(start).collect::<io::Result<_>>()?;
        let (jobs, threads) = (Mutex::new(Some(sender)), Mutex::new(threads));
        Ok(Self { path, jobs, threads, interrupts })
    }

    /// Makes the statements that are being executed fail.
    pub(super) fn interrupt(&self) {
        lock(&self.interrupts).values().for_each(InterruptHandle::interrupt);
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
fn run(
    number: usize,
    path: &Path,
    jobs: &Mutex<Receiver<ReadJob>>,
    interrupts: &Mutex<HashMap<usize, InterruptHandle>>,
) {
    let mut kept: Option<Connection> = open::reader(path).ok();
    loop {
        // Only one thread waits for the next job; the others wait for the lock.
        let next = lock(jobs).recv();
        let Ok(job) = next else { return };
        let connection = match kept.take() {
            Some(connection) => Ok(connection),
            None => open::reader(path).map_err(ApiError::from),
        };
        if let Ok(connection) = &connection {
            lock(interrupts).insert(number, connection.get_interrupt_handle());
        }
        // The caller of a job that panics gets an error, because the job drops its sender.
        let reader = connection.as_ref().map(Reader::new).map_err(Clone::clone);
        let finished = catch_unwind(AssertUnwindSafe(|| job(reader)));
        lock(interrupts).remove(&number);
        kept = connection.ok().filter(|_| finished.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_could_not_be_opened_at_start_is_opened_later() {
        const THREADS: usize = 2;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("svc.db");
        let readers = Readers::start(path.clone(), THREADS).unwrap();
        let read = || {
            let (sender, result) = channel();
            let job = move |reader: Result<Reader<'_>, ApiError>| {
                let _ = sender.send(reader.map(|_| ()));
            };
            assert!(readers.push(Box::new(job)));
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
