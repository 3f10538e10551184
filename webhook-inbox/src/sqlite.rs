//! An inbox in SQLite: one connection, which accepts deliveries and runs handlers, on a thread of
//! its own, that of `svc-sql`. Closures reach it through `Sqlite::call`; one whose caller has gone is not
//! started. `transaction` commits a handler's writes together with the end of its delivery, unless the
//! claim is lost or the time limit has passed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use svc_sql::sqlite::{Sqlite, execute_each};
use svc_sql::{Row, Value};
use webhook_verify::Delivery;

use crate::database::TIMEOUT;
use crate::queue::{FINISH, accepted, claim_of};
use crate::worker::Failure;
use crate::{Accepted, BoxError, Database, Error, Inbox, Job, Worker};

impl Inbox<Sqlite> {
    /// Opens the database file of your application, or creates it.
    ///
    /// It sets the journal mode to WAL, so that readers and the writer do not wait for each
    /// other, and commits with `synchronous=FULL`: an accepted delivery survives a power
    /// failure. Like all of SQLite, it must be on a local disk.
    ///
    /// # Errors
    ///
    /// The error of SQLite.
    pub fn sqlite(path: impl AsRef<Path>) -> Result<Self, Error> {
        let database = Sqlite::open(path.as_ref(), "webhook-inbox", TIMEOUT)?;
        Ok(Self::new(database))
    }

    /// Stores a verified delivery in your own transaction, unless it is stored already.
    ///
    /// The delivery and what else the transaction writes are committed together. A
    /// [`Transaction`] coerces to a `&Connection`. After the commit, call [`wake`](Self::wake),
    /// and respond 2xx. It blocks, so call it on a blocking thread.
    ///
    /// ```
    /// use webhook_inbox::rusqlite::Connection;
    /// use webhook_inbox::{BoxError, Inbox, Sqlite};
    /// use webhook_verify::Delivery;
    ///
    /// fn receive(
    ///     inbox: &Inbox<Sqlite>,
    ///     connection: &mut Connection,
    ///     delivery: &Delivery,
    /// ) -> Result<(), BoxError> {
    ///     let tx = connection.transaction()?;
    ///     tx.execute("UPDATE counters SET deliveries = deliveries + 1", [])?;
    ///     inbox.accept_in(&tx, delivery)?;
    ///     tx.commit()?;
    ///     inbox.wake();
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The error of SQLite. Roll back, and respond 503.
    pub fn accept_in(
        &self,
        connection: &Connection,
        delivery: &Delivery,
    ) -> Result<Accepted, Error> {
        execute_each(connection, &self.insert(), &[self.entry(delivery)]).map(accepted)
    }
}

impl Worker<Sqlite> {
    /// Runs `handler` for each delivery, until [`Inbox::stop`].
    ///
    /// The handler runs in a transaction, on a thread of its own. If it returns `Ok`, its writes
    /// and the end of the delivery are committed together, so they happen exactly once. If it
    /// returns `Err` or panics, they are rolled back and the delivery is attempted again.
    ///
    /// All handlers use the same connection, which also accepts deliveries: what a handler
    /// changes in it, such as a `PRAGMA` or a temporary table, stays.
    ///
    /// The transaction holds SQLite's one write lock: while the handler runs, no delivery is
    /// accepted. For anything slow, use [`run_prepared`](Self::run_prepared). At the
    /// [time limit](Self::handler_timeout) its current statement is interrupted, but other code
    /// is not: the lock is free when the handler returns.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let inbox = webhook_inbox::Inbox::sqlite("app.db")?;
    /// inbox.migrate().await?;
    /// inbox
    ///     .worker()
    ///     .run(|tx, job| {
    ///         tx.execute("INSERT INTO events (name) VALUES (?1)", [job.delivery().event().as_str()])?;
    ///         Ok(())
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// See [`Worker`].
    pub async fn run<F>(self, handler: F) -> Result<(), Error>
    where
        F: Fn(&Transaction<'_>, &Job) -> Result<(), BoxError> + Send + Sync + 'static,
    {
        let commit = move |tx: &Transaction<'_>, job: &Job, ()| handler(tx, job);
        self.run_prepared(async |_| Ok(()), commit).await
    }

    /// Runs `prepare`, and then `commit` with its result, for each delivery, until
    /// [`Inbox::stop`].
    ///
    /// `prepare` is asynchronous and runs outside of any transaction: it may take long, for
    /// example for HTTP requests, and may run again after a failure or a crash. `commit` runs
    /// as the handler of [`run`](Self::run) does: its writes happen exactly once.
    ///
    /// ```no_run
    /// # async fn render(_: &[u8]) -> Result<String, std::io::Error> { Ok(String::new()) }
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let inbox = webhook_inbox::Inbox::sqlite("app.db")?;
    /// inbox.migrate().await?;
    /// inbox
    ///     .worker()
    ///     .run_prepared(
    ///         async |job| Ok(render(job.delivery().body()).await?),
    ///         |tx, _job, page| {
    ///             tx.execute("INSERT INTO pages (html) VALUES (?1)", [page])?;
    ///             Ok(())
    ///         },
    ///     )
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// See [`Worker`].
    pub async fn run_prepared<P, T, F>(self, prepare: P, commit: F) -> Result<(), Error>
    where
        P: AsyncFn(Job) -> Result<T, BoxError> + Send + 'static,
        T: Send + 'static,
        F: Fn(&Transaction<'_>, &Job, T) -> Result<(), BoxError> + Send + Sync + 'static,
    {
        let commit = Arc::new(commit);
        self.work(async move |worker: &Self, job| {
            let prepared = prepare(job.clone()).await?;
            let commit = commit.clone();
            transaction(worker, job, move |tx, job| commit(tx, job, prepared)).await
        })
        .await
    }
}

/// Begins with the end of the delivery, writes, and commits.
async fn transaction(
    worker: &Worker<Sqlite>,
    job: Job,
    write: impl FnOnce(&Transaction<'_>, &Job) -> Result<(), BoxError> + Send + 'static,
) -> Result<(), Failure> {
    let database = &worker.inbox.database;
    let claim = claim_of(&job, worker.keep_bodies);
    let running = Arc::new(AtomicBool::new(false));
    let _interrupt = InterruptOnDrop {
        running: running.clone(),
        database,
    };
    let commit = move |connection: &mut Connection, given_up: &dyn Fn() -> bool| {
        let begun = connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let tx = begun.map_err(Error::from)?;
        if execute_each(&tx, FINISH, &[claim])? == 0 {
            return Err(Failure::ClaimLost);
        }
        running.store(true, Ordering::SeqCst);
        let written = catch_unwind(AssertUnwindSafe(|| write(&tx, &job)));
        running.store(false, Ordering::SeqCst);
        written.unwrap_or_else(|panic| resume_unwind(panic))?;
        // After its time limit, the delivery may be another worker's.
        if given_up() {
            return Err(Failure::ClaimLost);
        }
        Ok(tx.commit().map_err(Error::from)?)
    };

    database.call(commit).await.map_err(Failure::from)?
}

/// Interrupts the statement of a handler that is dropped.
struct InterruptOnDrop<'a> {
    running: Arc<AtomicBool>,
    database: &'a Sqlite,
}

impl Drop for InterruptOnDrop<'_> {
    fn drop(&mut self) {
        if self.running.load(Ordering::SeqCst) {
            self.database.interrupt();
        }
    }
}

impl Database for Sqlite {
    const SCHEMA: &str = include_str!("schema.sqlite.sql");
    const NOTIFIES: bool = false;

    fn connections(&self) -> usize {
        // While handlers prepare, they use none.
        usize::MAX
    }

    async fn create(&self) -> Result<(), Error> {
        /// The tables of version 1: one has no column for the owner.
        const IS_FIRST: &str = "SELECT count(*) > 0 AND NOT sum(name = 'owner') \
            FROM pragma_table_info('webhook_inbox')";
        let create = |connection: &mut Connection| {
            let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            if tx.query_row(IS_FIRST, [], |row| row.get(0))? {
                tx.execute_batch(include_str!("expand.sqlite.sql"))?;
            }
            tx.execute_batch(Self::SCHEMA)?;
            tx.commit()
        };
        self.call(move |connection, _| create(connection).map_err(Error::from))
            .await?
    }

    async fn query(&self, statement: &str, parameters: Vec<Value>) -> Result<Vec<Row>, Error> {
        self.query(statement, parameters).await
    }

    async fn execute(&self, statement: &str, parameters: Vec<Value>) -> Result<u64, Error> {
        self.execute(statement, parameters).await
    }
}
