//! `Inbox<D>` accepts verified deliveries, and stops the workers of its process. `accept` stores a
//! `Delivery` and returns whether it is new; after its `Ok` the delivery is durable. The statement
//! is in `queue.rs`, the database in the module of `D`. `Signals` connects the inbox with the
//! workers of this process: new deliveries, the phase of a stop, and which workers run. A delivery
//! goes on in `worker.rs`.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use svc_sql::Value;
use tokio::sync::{Notify, RwLock, watch};
use tokio::time::{sleep, timeout};
use webhook_verify::Delivery;

use crate::error::text_of;
use crate::{Database, Error, ErrorKind, Worker, queue};

/// An inbox in a database: one row for each delivery, in the table `webhook_inbox`.
///
/// Create one with `Inbox::new(pool)` for PostgreSQL, or with `Inbox::sqlite(path)`. Clones are
/// cheap and share the connections.
#[derive(Clone)]
pub struct Inbox<D> {
    pub(crate) database: D,
    pub(crate) scope: Option<Arc<str>>,
    pub(crate) signals: Arc<Signals>,
    notifies: bool,
}

/// The signals between an inbox and the workers of this process.
#[derive(Default)]
pub(crate) struct Signals {
    /// A delivery may be due.
    pub(crate) wake: Notify,
    news: Mutex<News>,
    pub(crate) phase: watch::Sender<Phase>,
    /// The workers that run, by what the table calls them.
    pub(crate) owners: watch::Sender<BTreeSet<i64>>,
    /// Handlers share it, and one whose delivery is tried alone has it for itself.
    pub(crate) alone: Arc<RwLock<()>>,
}

/// The tenants that may have a delivery due.
#[derive(Default)]
pub(crate) struct News {
    /// Empty for deliveries without a scope.
    pub(crate) tenants: BTreeSet<String>,
    /// Anybody may have one.
    pub(crate) all: bool,
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
    pub(crate) fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

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
    /// The statements that create the tables and their indexes. With PostgreSQL they also expand
    /// those of an earlier version.
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
            notifies: false,
        }
    }

    /// Lets [`accept`](Self::accept) notify the channel `webhook_inbox` of PostgreSQL, for workers
    /// of other processes: they `LISTEN` on a connection of their own, and call
    /// [`wake`](Self::wake) for each notification. Default: no, because PostgreSQL commits
    /// transactions that notify one after the other. No effect with SQLite.
    #[must_use]
    pub fn notify(mut self) -> Self {
        self.notifies = D::NOTIFIES;
        self
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

    /// Creates the tables and their indexes if they do not exist, and expands those of an earlier
    /// version of this crate, whose programs can run on.
    ///
    /// Call it when your program starts, or run the statements of [`SCHEMA`](Self::SCHEMA) with
    /// your own migrations. Several processes can call it at the same time.
    ///
    /// # Errors
    ///
    /// The error of the database, or [`OtherSchema`](ErrorKind::OtherSchema) if a newer version
    /// of this crate has changed the tables so that this one cannot use them.
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
    /// The error of the database, or [`Unavailable`](ErrorKind::Unavailable) after 5 seconds. It
    /// is logged with its cause.
    pub async fn accept(&self, delivery: &Delivery) -> Result<Accepted, Error> {
        let stored = self.execute(&self.insert(), self.entry(delivery)).await;
        let tenant = self.scope.as_deref().or(delivery.tenant());
        let stored = stored.inspect_err(|error| {
            let event = delivery.event().as_str();
            let id = delivery.id();
            let cause = text_of(error);
            if error.needs_somebody() {
                tracing::error!(tenant, event, id, cause, "a webhook was not stored");
            } else {
                tracing::warn!(tenant, event, id, cause, "a webhook was not stored");
            }
        })?;
        let accepted = queue::accepted(stored);
        if accepted == Accepted::New {
            let tenant = tenant.unwrap_or_default().to_owned();
            self.signals.news().tenants.insert(tenant);
            self.signals.wake.notify_one();
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
        self.signals.news().all = true;
        self.signals.wake.notify_one();
    }

    /// Stops the workers of this inbox and its clones in this process: they finish what they are
    /// handling, and return. Workers that start afterwards return at once.
    ///
    /// After `limit`, what is still being handled is dropped: it is rolled back, is due again at
    /// once for other processes, and its attempt does not count. Returns whether all workers have
    /// ended within the limit. It returns within two more seconds in any case, also if a handler
    /// blocks its thread: its delivery is due again when the [`lease`](Worker::lease) has ended.
    pub async fn stop(&self, limit: Duration) -> bool {
        let advance = |to: Phase| {
            self.signals
                .phase
                .send_modify(|phase| *phase = to.max(*phase));
        };

        advance(Phase::Stopping);
        let mut owners = self.signals.owners.subscribe();
        let ended = timeout(limit, owners.wait_for(BTreeSet::is_empty))
            .await
            .is_ok();
        advance(Phase::Stopped);
        if !ended {
            tracing::warn!(?limit, "handlers of the webhook inbox did not end in time");
            let still = owners.borrow().clone();
            let left = async {
                for owner in still {
                    self.leave_soon(owner).await;
                }
            };
            // What is not given back is due when the lease has ended.
            let _ = timeout(Duration::from_secs(2), left).await;
        }

        ended
    }

    /// Gives back what a worker holds. The server may need a moment to notice that a connection
    /// was closed.
    pub(crate) async fn leave_soon(&self, owner: i64) {
        for _ in 0..10 {
            match self.leave(owner).await {
                Ok(true) => return,
                Ok(false) => sleep(Duration::from_millis(50)).await,
                Err(error) => {
                    let cause = text_of(&error);
                    tracing::warn!(cause, "webhook deliveries are not given back");
                    return;
                }
            }
        }
    }

    pub(crate) fn insert(&self) -> String {
        queue::insert(self.notifies)
    }

    pub(crate) fn entry(&self, delivery: &Delivery) -> Vec<Value> {
        queue::entry(delivery, self.scope.as_deref())
    }
}

impl<D> fmt::Debug for Inbox<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox")
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}
