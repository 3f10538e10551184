//! Where a job records what it sends.

use std::io;
use std::pin::Pin;

use crate::{Entry, State};

/// The result of a method of [`Journal`].
pub type JournalFuture<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// Records what a job sends. [`FileJournal`](super::FileJournal) is the implementation on
/// disk.
///
/// An implementation must make sure that at most one job at a time uses a journal.
pub trait Journal: Send {
    /// The id of the job, which is part of each idempotency key.
    fn job(&self) -> &str;

    /// What the entries so far say: [`State::apply`] of each, in their order.
    fn load(&mut self) -> JournalFuture<'_, State>;

    /// Appends entries in this order. If `durable`, they must survive a crash of the machine
    /// once the future is ready; otherwise only one of the process. A future that is dropped
    /// must not leave part of an entry before later ones.
    ///
    /// After an error, nothing more is sent.
    fn append(&mut self, entries: Vec<Entry>, durable: bool) -> JournalFuture<'_, ()>;
}
