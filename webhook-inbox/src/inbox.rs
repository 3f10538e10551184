//! The inbox: accepts verified deliveries.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot, watch};
use tokio::time::sleep;
use webhook_verify::Delivery;

use crate::database::Value;
use crate::{Database, Error, ErrorKind, Worker, queue};

/// An inbox in a database: one row for each delivery, in the table `webhook_inbox`.
///
/// Create one with `Inbox::new(pool)` for PostgreSQL, or with `Inbox::sqlite(path)`. Clones are
/// cheap and share the connections.
pub struct Inbox<D> {
    pub(crate) database: D,
    pub(crate) scope: Option<Arc<str>>,
    pub(crate) signals: Arc<Signals>,
}

/// What an inbox and the workers of this process tell each other.
#[derive(Default)]
pub(crate) struct Signals {
    /// A delivery may be due.
    pub(crate) wake: Notify,
    pub(crate) phase: watch::Sender<Phase>,
    /// How many workers run.
    pub(crate) running: watch::Sender<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    #[default]
    Working,
    /// Workers finish what they are handling.
    Stopping,
    /// Workers drop what they are handling.
    Stopped,
}

impl Signals {
    /// Waits until the phase is reached.
    pub(crate) async fn reached(&self, phase: Phase) {
        // Fails only if the sender is dropped, which `self` holds.
        let _ = self
            .phase
            .subscribe()
            .wait_for(|current| *current >= phase)
            .await;
    }
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
    /// The statements that create the tables and their indexes.
    pub const SCHEMA: &str = D::SCHEMA;

    /// Creates an inbox in the database of your application: a
    /// [`deadpool_postgres::Pool`](crate::deadpool_postgres::Pool) (feature `postgres`) or a
    /// [`sqlx::PgPool`](crate::sqlx::PgPool) (feature `sqlx`). For SQLite, use `Inbox::sqlite`.
    ///
    /// It shares the pool with your application. A handler needs one connection of it, accepting
    /// a delivery another one. The tables are found through the `search_path`.
    pub fn new(database: D) -> Self {
        Self {
            database,
            scope: None,
            signals: Arc::default(),
        }
    }

    /// Returns an inbox with the same table that keeps its deliveries apart from those of
    /// other scopes. Default: the tenant for which the delivery was verified, if there is one.
    ///
    /// A delivery's `id` is unique only within the account that sent it. Use one scope for
    /// each tenant, and one for each of several endpoints that must all handle a delivery.
    /// Workers handle the deliveries of all scopes; [`Job::scope`](crate::Job::scope) tells
    /// them apart.
    ///
    /// It replaces an earlier scope.
    #[must_use]
    pub fn scope(&self, scope: impl Into<Arc<str>>) -> Self {
        Self {
            scope: Some(scope.into()),
            ..self.clone()
        }
    }

    /// Creates the tables and their indexes if they do not exist.
    ///
    /// Call it when your program starts, or run the statements of [`SCHEMA`](Self::SCHEMA) with
    /// your own migrations. Several processes can call it at the same time.
    ///
    /// # Errors
    ///
    /// The error of the database, or [`OtherSchema`](ErrorKind::OtherSchema) if another version
    /// of this crate has created the tables.
    pub async fn migrate(&self) -> Result<(), Error> {
        match self.check_schema().await {
            Err(error) if error.kind() == ErrorKind::NotMigrated => {
                self.database.create().await?;
                self.check_schema().await
            }
            checked => checked,
        }
    }

    /// Stores a verified delivery in a transaction of its own, unless it is stored already.
    ///
    /// When it returns `Ok`, the delivery is durable: respond 2xx. After an error, respond
    /// 503, and the sender delivers again.
    ///
    /// If the future is dropped, for example because the sender hangs up, the delivery may be stored
    /// or not: its retry is then a duplicate, or new.
    ///
    /// # Errors
    ///
    /// The error of the database, or [`Unavailable`](ErrorKind::Unavailable) after 5 seconds.
    pub async fn accept(&self, delivery: &Delivery) -> Result<Accepted, Error> {
        let rows = self.query(queue::INSERT, self.entry(delivery)).await;
        let rows = rows.inspect_err(|error| tracing::error!(%error, "a webhook was not stored"))?;
        let accepted = queue::accepted(&rows);
        if accepted == Accepted::New {
            self.wake();
        }
        Ok(accepted)
    }

    /// Returns a worker, which runs a handler for each delivery.
    pub fn worker(&self) -> Worker<D> {
        Worker::new(self.clone())
    }

    /// Makes the workers of this process look for deliveries at once.
    ///
    /// Call it after the commit of a transaction in which a delivery was accepted. Otherwise the
    /// workers find the delivery at their next [`poll_interval`](Worker::poll_interval).
    pub fn wake(&self) {
        self.signals.wake.notify_one();
    }

    /// Stops the workers of this inbox and its clones in this process: they finish what they are
    /// handling, and return. Workers that start afterwards return at once.
    ///
    /// After `limit`, what is still being handled is dropped: it is rolled back, and attempted
    /// again when its [`lease`](Worker::lease) has ended. Returns whether all workers have ended
    /// within the limit. It returns then in any case, also if a handler blocks its thread.
    pub async fn stop(&self, limit: Duration) -> bool {
        let advance = |to: Phase| {
            self.signals
                .phase
                .send_modify(|phase| *phase = to.max(*phase))
        };
        advance(Phase::Stopping);
        let mut running = self.signals.running.subscribe();
        let ended = tokio::select! {
            biased;
            _ = running.wait_for(|running| *running == 0) => true,
            () = after(limit) => false,
        };
        advance(Phase::Stopped);
        if !ended {
            tracing::warn!(?limit, "handlers of the webhook inbox did not end in time");
        }
        ended
    }

    pub(crate) fn entry(&self, delivery: &Delivery) -> Vec<Value> {
        queue::entry(delivery, self.scope.as_deref())
    }
}

/// Waits on a thread of its own: a handler that blocks its thread can hold up the timers of the
/// runtime. The thread ends when the future is dropped.
async fn after(limit: Duration) {
    let (_waiting, dropped) = std::sync::mpsc::channel::<()>();
    let (elapsed, wait) = oneshot::channel::<()>();
    let wait_on_thread = move || {
        let _ = dropped.recv_timeout(limit);
        drop(elapsed);
    };
    if std::thread::Builder::new().spawn(wait_on_thread).is_err() {
        return sleep(limit).await;
    }
    let _ = wait.await;
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
        f.debug_struct("Inbox")
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}
