//! An inbox in PostgreSQL, with tokio-postgres.

use deadpool_postgres::tokio_postgres::error::SqlState;
use deadpool_postgres::tokio_postgres::types::{ToSql, Type};
use deadpool_postgres::tokio_postgres::{self, Row as PgRow};
use deadpool_postgres::{Object, Pool, PoolError, Transaction};
use webhook_verify::Delivery;

use crate::database::{Row, Value};
use crate::pooled::{Commit, Pooled, Prepared, Run, Statements, Write};
use crate::queue::{INSERT, accepted};
use crate::worker::nothing;
use crate::{Accepted, BoxError, Error, ErrorKind, Inbox, Job, Worker};

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
        query(tx, INSERT, &self.entry(delivery))
            .await
            .map(|rows| accepted(&rows))
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
    /// The handlers of a worker share its task, so they must not block their thread.
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
        F: AsyncFn(&Transaction<'_>, &Job) -> Result<(), BoxError>,
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
    /// # use webhook_inbox::deadpool_postgres::Pool;
    /// # async fn example(inbox: Inbox<Pool>) -> Result<(), webhook_inbox::Error> {
    /// inbox
    ///     .worker()
    ///     .run_prepared(
    ///         |job| async move { Ok(render(job.delivery().body()).await?) },
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
    pub async fn run_prepared<P, Fut, T, F>(self, prepare: P, commit: F) -> Result<(), Error>
    where
        P: Fn(Job) -> Fut,
        Fut: Future<Output = Result<T, BoxError>>,
        F: AsyncFn(&Transaction<'_>, &Job, T) -> Result<(), BoxError>,
    {
        self.work(&Prepared {
            worker: &self,
            prepare,
            write: Commit(commit),
        })
        .await
    }
}

impl<'c, F> Write<Transaction<'c>, ()> for Run<F>
where
    F: AsyncFn(&Transaction<'_>, &Job) -> Result<(), BoxError>,
{
    async fn write(&self, tx: &mut Transaction<'c>, job: &Job, (): ()) -> Result<(), BoxError> {
        (self.0)(tx, job).await
    }
}

impl<'c, T, F> Write<Transaction<'c>, T> for Commit<F>
where
    F: AsyncFn(&Transaction<'_>, &Job, T) -> Result<(), BoxError>,
{
    async fn write(&self, tx: &mut Transaction<'c>, job: &Job, it: T) -> Result<(), BoxError> {
        (self.0)(tx, job, it).await
    }
}

impl Pooled for Pool {
    type Connection = Object;
    type Transaction<'c> = Transaction<'c>;

    fn max_size(&self) -> usize {
        self.status().max_size
    }

    async fn acquire(&self) -> Result<Object, Error> {
        self.get().await.map_err(|error| match error {
            PoolError::Backend(error) => error_of(error),
            error => Error::new(ErrorKind::Unavailable, error),
        })
    }

    fn close(connection: Object) {
        drop(Object::take(connection));
    }

    async fn begin(connection: &mut Object) -> Result<Transaction<'_>, Error> {
        connection.transaction().await.map_err(error_of)
    }
}

impl Statements for Transaction<'_> {
    async fn run(&mut self, statements: &'static str) -> Result<(), Error> {
        self.batch_execute(statements).await.map_err(error_of)
    }

    async fn rows(
        &mut self,
        statement: &'static str,
        parameters: Vec<Value>,
    ) -> Result<Vec<Row>, Error> {
        query(self, statement, &parameters).await
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
    tx: &tokio_postgres::Transaction<'_>,
    statement: &str,
    parameters: &[Value],
) -> Result<Vec<Row>, Error> {
    let parameters = parameters.iter().map(typed).collect::<Vec<_>>();
    let rows = tx
        .query_typed(statement, &parameters)
        .await
        .map_err(error_of)?;
    let values = |row: &PgRow| (0..row.len()).map(|column| value(row, column)).collect();
    rows.iter()
        .map(values)
        .collect::<Result<_, _>>()
        .map_err(error_of)
}

fn typed(value: &Value) -> (&(dyn ToSql + Sync), Type) {
    match value {
        Value::Null => (&None::<&str>, Type::TEXT),
        Value::Int(value) => (value, Type::INT8),
        Value::Text(text) => (text, Type::TEXT),
        Value::Bytes(bytes) => (bytes, Type::BYTEA),
    }
}

fn value(row: &PgRow, column: usize) -> Result<Value, tokio_postgres::Error> {
    let value = match *row.columns()[column].type_() {
        Type::INT8 => row.try_get::<_, Option<_>>(column)?.map(Value::Int),
        Type::BYTEA => row.try_get::<_, Option<_>>(column)?.map(Value::Bytes),
        _ => row.try_get::<_, Option<_>>(column)?.map(Value::Text),
    };
    Ok(value.unwrap_or(Value::Null))
}

fn error_of(error: tokio_postgres::Error) -> Error {
    let code = error.code().cloned();
    Error::postgres(code.as_ref().map(SqlState::code), error)
}
