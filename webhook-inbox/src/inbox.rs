//! The inbox: accepts verified deliveries.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use webhook_verify::Delivery;

use crate::database::Entry;
use crate::{Database, DeadLetters, Error, Worker};

/// An inbox in a database: one row for each delivery, in the table `webhook_inbox`.
///
/// Create one with `Inbox::sqlite` or `Inbox::postgres`. Clones are cheap and share the
/// connections.
pub struct Inbox<D> {
    pub(crate) database: D,
    pub(crate) scope: Option<Arc<str>>,
    pub(crate) signals: Arc<Signals>,
}

/// What an inbox tells the workers of this process.
#[derive(Default)]
pub(crate) struct Signals {
    /// A delivery may be due.
    pub(crate) wake: Notify,
    pub(crate) stopped: watch::Sender<bool>,
}

/// The result of accepting a delivery. Respond 2xx to both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The delivery was stored.
    New,
    /// The delivery is stored already: it waits, is being handled, was handled, or is a dead
    /// letter.
    Duplicate,
}

impl<D: Database> Inbox<D> {
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(crate) fn new(database: D, signals: Arc<Signals>) -> Self {
        Self { database, scope: None, signals }
    }

    /// Returns an inbox with the same table that keeps its deliveries apart from those of
    /// other scopes. Default: no scope.
    ///
    /// A delivery's `id` is unique only within the account that sent it. Use one scope for
    /// each tenant, and one for each of several endpoints that must all handle a delivery.
    /// Workers handle the deliveries of all scopes; [`Job::scope`](crate::Job::scope) tells
    /// them apart.
    ///
    /// It replaces an earlier scope.
    #[must_use]
    pub fn scope(&self, scope: impl Into<Arc<str>>) -> Self {
        Self { scope: Some(scope.into()), ..self.clone() }
    }

    /// Creates the table and its indexes if they do not exist.
    ///
    /// Call it when your program starts, or run the statements of `SCHEMA` with your own
    /// migrations. Several processes can call it at the same time.
    ///
    /// # Errors
    ///
    /// The error of the database.
    pub async fn migrate(&self) -> Result<(), Error> {
        self.database.migrate().await
    }

    /// Stores a verified delivery in a transaction of its own, unless it is stored already.
    ///
    /// When it returns `Ok`, the delivery is durable: respond 2xx. After an error, respond
    /// 503, and the sender delivers again.
    ///
    /// It runs in a task of its own, which is completed if the future is dropped, for example
    /// because the sender hangs up.
    ///
    /// # Errors
    ///
    /// The error of the database, or
    /// [`Unavailable`](crate::ErrorKind::Unavailable) after 5 seconds.
    pub async fn accept(&self, delivery: &Delivery) -> Result<Accepted, Error> {
        let (inbox, entry) = (self.clone(), self.entry(delivery));
        let task = tokio::spawn(async move {
            let accepted = inbox.database.accept(entry).await?;
            if accepted == Accepted::New {
                inbox.wake();
            }
            Ok(accepted)
        });
        result_of(task).await
    }

    /// Returns a worker, which runs a handler for each delivery.
    pub fn worker(&self) -> Worker<D> {
        Worker::new(self.clone())
    }

    /// The deliveries whose last attempt failed.
    pub fn dead_letters(&self) -> DeadLetters<D> {
        DeadLetters::new(self.clone())
    }

    /// Deletes the deliveries that were handled longer ago than `older_than`. Returns how
    /// many.
    ///
    /// A deleted delivery is not remembered: `older_than` must be longer than the period over
    /// which the sender retries, for example 3 days. Dead letters are kept. It deletes in slices,
    /// so that nothing waits for long.
    ///
    /// # Errors
    ///
    /// The error of the database.
    pub async fn purge(&self, older_than: Duration) -> Result<u64, Error> {
        self.database.purge(older_than).await
    }

    /// Makes the workers of this process look for deliveries at once.
    ///
    /// Call it after the commit of a transaction in SQLite in which a delivery was accepted.
    /// Otherwise the workers find the delivery at their next
    /// [`poll_interval`](Worker::poll_interval).
    pub fn wake(&self) {
        self.signals.wake.notify_one();
    }

    /// Stops the workers of this inbox and its clones in this process: they finish what they
    /// are handling, and return. Workers that start afterwards return at once.
    pub fn stop(&self) {
        self.signals.stopped.send_replace(true);
    }

    pub(crate) fn entry(&self, delivery: &Delivery) -> Entry {
        let key = match &self.scope {
            Some(scope) => delivery.key_in_scope(scope),
            None => delivery.key().to_owned(),
        };
        Entry { scope: self.scope.clone(), key, delivery: delivery.clone() }
    }
}

/// Waits for a task. A panic is resumed.
pub(crate) async fn result_of<T>(task: JoinHandle<T>) -> T {
    match task.await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime shuts down.
            Err(_) => std::future::pending().await,
        },
    }
}

impl<D: Clone> Clone for Inbox<D> {
    fn clone(&self) -> Self {
        Self {
            database: self.database.clone(),
            scope: self.scope.clone(),
            signals: self.signals.clone(),
        }
    }
}

impl<D> fmt::Debug for Inbox<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("scope", &self.scope).finish_non_exhaustive()
    }
}
