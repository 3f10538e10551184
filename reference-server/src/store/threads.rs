//! [`Threads`]: those that take work from one queue. They are not tokio's blocking threads, so that
//! other blocking work cannot stop the database.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

use super::lock::lock;
use crate::model::{Code, Failure, Result};

pub(super) struct Threads<T> {
    /// `None` once closed.
    queue: Mutex<Option<Sender<T>>>,
    running: Mutex<Vec<JoinHandle<()>>>,
}

pub(super) type Queue<T> = Arc<Mutex<Receiver<T>>>;

impl<T: Send + 'static> Threads<T> {
    /// Starts a thread for each of these, which ends when the queue is closed and empty.
    pub(super) fn start<R>(name: &str, runs: impl IntoIterator<Item = R>) -> io::Result<Self>
    where
        R: FnOnce(Queue<T>) + Send + 'static,
    {
        let (sender, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let start = |run: R| {
            let queue = Arc::clone(&queue);
            Builder::new()
                .name(name.to_owned())
                .spawn(move || run(queue))
        };

        let running = runs.into_iter().map(start).collect::<io::Result<_>>()?;
        Ok(Self {
            queue: Mutex::new(Some(sender)),
            running: Mutex::new(running),
        })
    }

    /// Returns an error once the queue is closed.
    pub(super) fn push(&self, work: T) -> Result<()> {
        match &*lock(&self.queue) {
            Some(queue) if queue.send(work).is_ok() => Ok(()),
            _ => Err(Failure::new(Code::Unavailable, "the server is stopping")),
        }
    }

    /// Completes what was pushed, and ends the threads.
    pub(super) fn close(&self) {
        lock(&self.queue).take();
        for thread in lock(&self.running).drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the database panicked");
            }
        }
    }
}
