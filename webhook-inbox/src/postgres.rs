//! An inbox in PostgreSQL, with tokio-postgres and deadpool: `accept_in` in a transaction of the
//! application, `run` and `run_prepared` of the worker, and `Database` for a pool. `transaction`
//! commits a handler's writes together with the end of its delivery, or nothing if another worker
//! has claimed it. A connection is given back only after success; otherwise it is closed. The texts
//! of the statements are made in `simple_query.rs`. `sqlx_postgres.rs` does the same with sqlx.

use deadpool_postgres::tokio_postgres;
use deadpool_postgres::tokio_postgres::error::SqlState;
use deadpool_postgres::{GenericClient, Pool, Transaction};
use futures_util::future::join;
use svc_sql::postgres::{acquire, changed, rows, run};
use svc_sql::{Row, Value, with_literals};
use webhook_verify::Delivery;

use crate::database::within;
use crate::queue::accepted;
use crate::simple_query::{self, CLAIM_LOST, COMMIT, CREATE};
use crate::worker::Failure;
use crate::{Accepted, BoxError, Database, Error, Inbox, Isolation, Job, Worker};

impl Inbox<Pool> {
    /// Stores a verified delivery in your own transaction, unless it is stored already.
    ///
    /// The delivery and what else the transaction writes are committed together. A
    /// [`Transaction`] of deadpool-postgres coerces to one of tokio-postgres. After the commit,
    /// call [`wake`](Self::wake), and respond 2xx.
    ///
    /// If another transaction has stored the same delivery and is not committed, it waits for
    /// the end of that transaction.
    ///
    /// ```
    /// use webhook_inbox::deadpool_postgres::Pool;
    /// use webhook_inbox::{BoxError, Inbox};
    /// use webhook_verify::Delivery;
    ///
    /// async fn receive(
    ///     inbox: &Inbox<Pool>,
    ///     pool: &Pool,
    ///     delivery: &Delivery,
    /// ) -> Result<(), BoxError> {
    ///     let mut client = pool.get().await?;
    ///     let tx = client.transaction().await?;
    ///     tx.execute("UPDATE counters SET deliveries = deliveries + 1", &[]).await?;
    ///     inbox.accept_in(&tx, delivery).await?;
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
        tx: &tokio_postgres::Transaction<'_>,
        delivery: &Delivery,
    ) -> Result<Accepted, Error> {
        let insert = with_literals(&self.insert(), &self.entry(delivery));
        Ok(accepted(changed(&tx.simple_query(&insert).await?)))
    }
}

impl Worker<Pool> {
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
    /// use webhook_inbox::deadpool_postgres::{Pool, Transaction};
    /// use webhook_inbox::{BoxError, Inbox, Job};
    ///
    /// async fn handle(tx: &Transaction<'_>, job: &Job) -> Result<(), BoxError> {
    ///     let event = job.delivery().event().as_str();
    ///     tx.execute("INSERT INTO events (name) VALUES ($1)", &[&event]).await?;
    ///     Ok(())
    /// }
    ///
    /// # async fn example(inbox: Inbox<Pool>) -> Result<(), webhook_inbox::Error> {
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
        F: AsyncFn(&Transaction<'_>, &Job) -> Result<(), BoxError> + Send + 'static,
    {
        let commit = async move |tx: &Transaction<'_>, job: &Job, ()| handler(tx, job).await;
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
    /// # use webhook_inbox::deadpool_postgres::Pool;
    /// # async fn example(inbox: Inbox<Pool>) -> Result<(), webhook_inbox::Error> {
    /// inbox
    ///     .worker()
    ///     .run_prepared(
    ///         async |job| Ok(render(job.delivery().body()).await?),
    ///         async |tx, _job, page| {
    ///             tx.execute("INSERT INTO pages (html) VALUES ($1)", &[&page]).await?;
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
        F: AsyncFn(&Transaction<'_>, &Job, T) -> Result<(), BoxError> + Send + 'static,
    {
        self.work(async move |worker: &Self, job| {
            let prepared = prepare(job.clone()).await?;
            let write = async |tx: &Transaction<'_>| commit(tx, &job, prepared).await;
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

/// Writes, and ends the delivery. The end is sent with the first statement of the handler, and
/// nobody waits for its response: if it fails, so does everything after it.
async fn transaction(
    worker: &Worker<Pool>,
    job: &Job,
    write: impl AsyncFnOnce(&Transaction<'_>) -> Result<(), BoxError>,
) -> Result<(), Failure> {
    let mut connection = within(acquire(&worker.inbox.database)).await?;
    let begin = simple_query::begin(
        job,
        worker.isolation,
        worker.handler_timeout,
        worker.keep_bodies,
    );
    let starts = async { connection.get().transaction().await.map_err(Error::from) };
    let tx = within(starts).await?;
    let write_and_commit = async {
        write(&tx).await?;
        // If it has blocked its thread, its time limit and the stop of the worker come first.
        tokio::task::yield_now().await;
        let committed = tx.batch_execute(COMMIT).await;
        committed.map_err(|error| {
            let code = error.code().cloned();
            simple_query::commit_failed(code.as_ref().map(SqlState::code), error.into())
        })
    };
    let (begun, committed) = join(tx.batch_execute(&begin), write_and_commit).await;
    // Ends the transaction, or the empty one that `COMMIT` has begun.
    drop(tx);
    if let Err(error) = begun {
        return Err(match error.code().map(SqlState::code) {
            Some(CLAIM_LOST) => Failure::ClaimLost,
            _ => Failure::Database(error.into()),
        });
    }

    committed?;
    connection.give_back();
    Ok(())
}

impl Database for Pool {
    const SCHEMA: &str = include_str!("schema.postgres.sql");
    const NOTIFIES: bool = true;

    fn connections(&self) -> usize {
        self.status().max_size
    }

    async fn create(&self) -> Result<(), Error> {
        let mut connection = acquire(self).await?;
        connection.get().batch_execute(CREATE).await?;
        connection.give_back();
        Ok(())
    }

    async fn query(&self, statement: &str, parameters: Vec<Value>) -> Result<Vec<Row>, Error> {
        run(self, statement, &parameters)
            .await
            .map(|messages| rows(&messages))
    }

    async fn execute(&self, statement: &str, parameters: Vec<Value>) -> Result<u64, Error> {
        run(self, statement, &parameters)
            .await
            .map(|messages| changed(&messages))
    }
}
