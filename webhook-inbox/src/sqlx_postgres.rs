//! An inbox in PostgreSQL, with sqlx.

use std::borrow::Cow;

use sqlx::error::DatabaseError;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgRow;
use sqlx::{
    Column as _, Connection as _, Executor as _, PgConnection, PgPool, Postgres, Row as _,
    Transaction, TypeInfo as _,
};
use webhook_verify::Delivery;

use crate::database::{Row, Value};
use crate::pooled::{Commit, Pooled, Prepared, Run, Statements, Write};
use crate::queue::{INSERT, accepted};
use crate::worker::nothing;
use crate::{Accepted, BoxError, Error, Inbox, Job, Worker};

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
        query(tx, INSERT, self.entry(delivery))
            .await
            .map(|rows| accepted(&rows))
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
    /// The handlers of a worker share its task, so they must not block their thread.
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
        F: AsyncFn(&mut Transaction<'_, Postgres>, &Job) -> Result<(), BoxError>,
    {
        self.work(&Prepared {
            worker: &self,
            prepare: nothing,
            write: Run(handler),
        })
        .await
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
    pub async fn run_prepared<P, Fut, T, F>(self, prepare: P, commit: F) -> Result<(), Error>
    where
        P: Fn(Job) -> Fut,
        Fut: Future<Output = Result<T, BoxError>>,
        F: AsyncFn(&mut Transaction<'_, Postgres>, &Job, T) -> Result<(), BoxError>,
    {
        self.work(&Prepared {
            worker: &self,
            prepare,
            write: Commit(commit),
        })
        .await
    }
}

impl<'c, F> Write<Transaction<'c, Postgres>, ()> for Run<F>
where
    F: AsyncFn(&mut Transaction<'_, Postgres>, &Job) -> Result<(), BoxError>,
{
    async fn write(
        &self,
        tx: &mut Transaction<'c, Postgres>,
        job: &Job,
        (): (),
    ) -> Result<(), BoxError> {
        (self.0)(tx, job).await
    }
}

impl<'c, T, F> Write<Transaction<'c, Postgres>, T> for Commit<F>
where
    F: AsyncFn(&mut Transaction<'_, Postgres>, &Job, T) -> Result<(), BoxError>,
{
    async fn write(
        &self,
        tx: &mut Transaction<'c, Postgres>,
        job: &Job,
        it: T,
    ) -> Result<(), BoxError> {
        (self.0)(tx, job, it).await
    }
}

impl Pooled for PgPool {
    type Connection = PoolConnection<Postgres>;
    type Transaction<'c> = Transaction<'c, Postgres>;

    fn max_size(&self) -> usize {
        self.options().get_max_connections() as usize
    }

    async fn acquire(&self) -> Result<Self::Connection, Error> {
        self.acquire().await.map_err(error_of)
    }

    fn close(connection: Self::Connection) {
        drop(connection.detach());
    }

    async fn begin(connection: &mut Self::Connection) -> Result<Self::Transaction<'_>, Error> {
        connection.begin().await.map_err(error_of)
    }
}

impl Statements for Transaction<'_, Postgres> {
    async fn run(&mut self, statements: &'static str) -> Result<(), Error> {
        self.execute(sqlx::raw_sql(statements))
            .await
            .map(drop)
            .map_err(error_of)
    }

    async fn rows(
        &mut self,
        statement: &'static str,
        parameters: Vec<Value>,
    ) -> Result<Vec<Row>, Error> {
        query(self, statement, parameters).await
    }

    async fn end(self, commits: bool) -> Result<(), Error> {
        let ended = if commits {
            self.commit().await
        } else {
            self.rollback().await
        };
        ended.map_err(error_of)
    }
}

async fn query(
    connection: &mut PgConnection,
    statement: &'static str,
    parameters: Vec<Value>,
) -> Result<Vec<Row>, Error> {
    let query = parameters
        .into_iter()
        .fold(sqlx::query(statement), |query, value| match value {
            Value::Null => query.bind(None::<String>),
            Value::Int(value) => query.bind(value),
            Value::Text(text) => query.bind(text),
            Value::Bytes(bytes) => query.bind(bytes),
        });
    let rows = query.fetch_all(connection).await.map_err(error_of)?;
    let values = |row: &PgRow| (0..row.len()).map(|column| value(row, column)).collect();
    rows.iter()
        .map(values)
        .collect::<Result<_, _>>()
        .map_err(error_of)
}

fn value(row: &PgRow, column: usize) -> Result<Value, sqlx::Error> {
    let value = match row.column(column).type_info().name() {
        "INT8" => row.try_get::<Option<_>, _>(column)?.map(Value::Int),
        "BYTEA" => row.try_get::<Option<_>, _>(column)?.map(Value::Bytes),
        _ => row.try_get::<Option<_>, _>(column)?.map(Value::Text),
    };
    Ok(value.unwrap_or(Value::Null))
}

fn error_of(error: sqlx::Error) -> Error {
    let code = error
        .as_database_error()
        .and_then(<dyn DatabaseError>::code)
        .map(Cow::into_owned);
    Error::postgres(code.as_deref(), error)
}
