//! An inbox in PostgreSQL, with sqlx: `accept_in` in a transaction of the application, `run` and
//! `run_prepared` of the worker, and `Database` for a pool. `transaction` commits a handler's
//! writes together with the end of its delivery, or nothing if another worker has claimed it. A
//! connection is given back only after success; otherwise it is closed. The texts of the statements
//! are made in `simple_query.rs`, which `postgres.rs` shares.

use sqlx::{Connection as _, PgConnection, PgPool, Postgres, QueryBuilder, Transaction};
use svc_sql::{Row, Value, with_literals};
use webhook_verify::Delivery;

use crate::database::within;
use crate::queue::accepted;
use crate::simple_query::{self, CLAIM_LOST, COMMIT, CREATE};
use crate::sqlx_connection::{self, acquire, code, failed, run};
use crate::worker::Failure;
use crate::{Accepted, BoxError, Database, Error, Inbox, Isolation, Job, Worker};

impl Inbox<PgPool> {
    /// Stores a verified delivery in your own transaction, unless it is stored already.
    ///
    /// The delivery and what else the transaction writes are committed together. A
    /// [`Transaction`] coerces to a `&mut PgConnection`. After the commit, call
    /// [`wake`](Self::wake), and respond 2xx.
    ///
    /// If another transaction has stored the same delivery and is not committed, it waits for
    /// the end of that transaction.
    ///
    /// ```
    /// use webhook_inbox::sqlx::{self, PgPool};
    /// use webhook_inbox::{BoxError, Inbox};
    /// use webhook_verify::Delivery;
    ///
    /// async fn receive(
    ///     inbox: &Inbox<PgPool>,
    ///     pool: &PgPool,
    ///     delivery: &Delivery,
    /// ) -> Result<(), BoxError> {
    ///     let mut tx = pool.begin().await?;
    ///     sqlx::query("UPDATE counters SET deliveries = deliveries + 1").execute(&mut *tx).await?;
    ///     inbox.accept_in(&mut tx, delivery).await?;
    ///     tx.commit().await?;
    ///     inbox.wake();
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The error of PostgreSQL. Roll back, and respond 503.
    pub async fn accept_in(
        &self,
        tx: &mut PgConnection,
        delivery: &Delivery,
    ) -> Result<Accepted, Error> {
        let insert = with_literals(&self.insert(), &self.entry(delivery));
        Ok(accepted(run(tx, insert).await.map_err(failed)?))
    }
}

impl Worker<PgPool> {
    /// Runs `handler` for each delivery, until [`Inbox::stop`].
    ///
    /// The handler runs in a transaction. If it returns `Ok`, its writes and the end of the
    /// delivery are committed together, so they happen exactly once. If it returns `Err` or
    /// panics, they are rolled back and the delivery is attempted again. What it does outside
    /// of the transaction, such as an HTTP request, may happen again.
    ///
    /// While it runs, the transaction is open and has a connection of the pool. For anything
    /// slow, use [`run_prepared`](Self::run_prepared). Settings that it changes without
    /// `SET LOCAL` stay in the session, as everywhere with a pool. `statement_timeout` and
    /// `idle_in_transaction_session_timeout` are the [time limit](Self::handler_timeout).
    ///
    /// The handlers of a worker share a thread, so they must not block it.
    ///
    /// ```no_run
    /// use webhook_inbox::sqlx::{self, PgPool, Postgres, Transaction};
    /// use webhook_inbox::{BoxError, Inbox, Job};
    ///
    /// async fn handle(tx: &mut Transaction<'_, Postgres>, job: &Job) -> Result<(), BoxError> {
    ///     let insert = sqlx::query("INSERT INTO events (name) VALUES ($1)");
    ///     insert.bind(job.delivery().event().as_str()).execute(&mut **tx).await?;
    ///     Ok(())
    /// }
    ///
    /// # async fn example(inbox: Inbox<PgPool>) -> Result<(), webhook_inbox::Error> {
    /// inbox.worker().run(handle).await?;
    /// // Or with a closure:
    /// inbox.worker().run(async |tx, job| handle(tx, job).await).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// See [`Worker`].
    pub async fn run<F>(self, handler: F) -> Result<(), Error>
    where
        F: AsyncFn(&mut Transaction<'_, Postgres>, &Job) -> Result<(), BoxError> + Send + 'static,
    {
        let commit =
            async move |tx: &mut Transaction<'_, Postgres>, job: &Job, ()| handler(tx, job).await;
        self.run_prepared(async |_| Ok(()), commit).await
    }

    /// Runs `prepare`, and then `commit` with its result, for each delivery, until
    /// [`Inbox::stop`].
    ///
    /// `prepare` runs outside of any transaction and has no connection: it may take long, for
    /// example for HTTP requests, and may run again after a failure or a crash. `commit` runs
    /// as the handler of [`run`](Self::run) does: its writes happen exactly once.
    ///
    /// ```no_run
    /// # async fn render(_: &[u8]) -> Result<String, std::io::Error> { Ok(String::new()) }
    /// # use webhook_inbox::Inbox;
    /// # use webhook_inbox::sqlx::{self, PgPool};
    /// # async fn example(inbox: Inbox<PgPool>) -> Result<(), webhook_inbox::Error> {
    /// inbox
    ///     .worker()
    ///     .run_prepared(
    ///         |job| async move { Ok(render(job.delivery().body()).await?) },
    ///         async |tx, _job, page| {
    ///             let insert = sqlx::query("INSERT INTO pages (html) VALUES ($1)");
    ///             insert.bind(page).execute(&mut **tx).await?;
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
        F: AsyncFn(&mut Transaction<'_, Postgres>, &Job, T) -> Result<(), BoxError>
            + Send
            + 'static,
    {
        self.work(async move |worker: &Self, job| {
            let prepared = prepare(job.clone()).await?;
            let write = async |tx: &mut Transaction<'_, Postgres>| commit(tx, &job, prepared).await;
            transaction(worker, &job, write).await
        })
        .await
    }

    /// Sets the isolation level of the handler's transactions. Default: that of the database.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }
}

/// Begins with the end of the delivery, writes, and commits.
async fn transaction(
    worker: &Worker<PgPool>,
    job: &Job,
    write: impl AsyncFnOnce(&mut Transaction<'_, Postgres>) -> Result<(), BoxError>,
) -> Result<(), Failure> {
    let mut connection = within(acquire(&worker.inbox.database)).await?;
    let begin = simple_query::begin(
        job,
        worker.isolation,
        worker.handler_timeout,
        worker.keep_bodies,
    );
    let begin = QueryBuilder::<Postgres>::new(format!("BEGIN; {begin}")).into_sql();
    let begun = within(async { Ok(connection.get().begin_with(begin).await) });
    let mut tx = begun
        .await?
        .map_err(|error| match code(&error).as_deref() {
            Some(CLAIM_LOST) => Failure::ClaimLost,
            _ => failed(error).into(),
        })?;
    write(&mut tx).await?;
    // If it has blocked its thread, its time limit and the stop of the worker come first.
    tokio::task::yield_now().await;
    let committed = run(&mut tx, COMMIT.to_owned()).await;
    committed
        .map_err(|error| simple_query::commit_failed(code(&error).as_deref(), failed(error)))?;
    // Ends the empty transaction that `COMMIT` has begun.
    drop(tx);
    connection.give_back();
    Ok(())
}

impl Database for PgPool {
    const SCHEMA: &str = include_str!("schema.postgres.sql");
    const NOTIFIES: bool = true;

    fn connections(&self) -> usize {
        self.options().get_max_connections() as usize
    }

    async fn create(&self) -> Result<(), Error> {
        let mut connection = acquire(self).await?;
        let created = run(connection.get(), CREATE.to_owned()).await;
        created.map_err(failed)?;
        connection.give_back();
        Ok(())
    }

    async fn query(&self, statement: &str, parameters: Vec<Value>) -> Result<Vec<Row>, Error> {
        sqlx_connection::query(self, statement, &parameters).await
    }

    async fn execute(&self, statement: &str, parameters: Vec<Value>) -> Result<u64, Error> {
        sqlx_connection::execute(self, statement, &parameters).await
    }
}
