//! An inbox in PostgreSQL, with tokio-postgres.

use std::time::Duration;

use deadpool_postgres::tokio_postgres::error::SqlState;
use deadpool_postgres::tokio_postgres::types::private::BytesMut;
use deadpool_postgres::tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use deadpool_postgres::tokio_postgres::{self, Row as PgRow};
use deadpool_postgres::{Object, Pool, PoolError, Transaction};
use webhook_verify::Delivery;

use crate::database::{Operations, Row, Value, within};
use crate::pooled::{
    self, BEGIN, BEGIN_HANDLER, Borrowed, CHECK, LOCK_SCHEMA, check_failed, time_limit,
};
use crate::queue::{FINISH, INSERT, accepted, ticket};
use crate::worker::{Failure, Handle, nothing};
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
        query(tx, INSERT, &self.entry(delivery)).await.map(|rows| accepted(&rows))
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
        self.work(&Prepared { worker: &self, prepare: nothing, write: Run(handler) }).await
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
        self.work(&Prepared { worker: &self, prepare, write: Commit(commit) }).await
    }
}

/// Prepares, and then writes and commits in a transaction.
struct Prepared<'w, P, W> {
    worker: &'w Worker<Pool>,
    prepare: P,
    write: W,
}

/// What a transaction writes. A trait for the same reason as `Handle`.
trait Write<T> {
    async fn write(&self, tx: &Transaction<'_>, job: &Job, prepared: T) -> Result<(), BoxError>;
}

struct Run<F>(F);

impl<F: AsyncFn(&Transaction<'_>, &Job) -> Result<(), BoxError>> Write<()> for Run<F> {
    async fn write(&self, tx: &Transaction<'_>, job: &Job, (): ()) -> Result<(), BoxError> {
        (self.0)(tx, job).await
    }
}

struct Commit<F>(F);

impl<T, F: AsyncFn(&Transaction<'_>, &Job, T) -> Result<(), BoxError>> Write<T> for Commit<F> {
    async fn write(&self, tx: &Transaction<'_>, job: &Job, prepared: T) -> Result<(), BoxError> {
        (self.0)(tx, job, prepared).await
    }
}

impl<P, Fut, T, W> Handle for Prepared<'_, P, W>
where
    P: Fn(Job) -> Fut,
    Fut: Future<Output = Result<T, BoxError>>,
    W: Write<T>,
{
    async fn handle(&self, job: &Job) -> Result<(), Failure> {
        let prepared = self.worker.prepare(job, (self.prepare)(job.clone())).await?;
        let mut client = within(borrow(&self.worker.inbox.database)).await?;
        let tx = within(begin(client.get(), job, self.worker.handler_timeout)).await?;
        let tx = tx.ok_or(Failure::LeaseLost)?;
        let written = self.write.write(&tx, job, prepared).await;
        // If it has blocked its thread, its time limit and the stop of the worker come first.
        tokio::task::yield_now().await;
        if let Err(error) = written {
            within(async { tx.rollback().await.map_err(error_of) }).await?;
            client.give_back();
            return Err(error.into());
        }
        let check = async { tx.batch_execute(CHECK).await.map_err(error_of) };
        within(check).await.map_err(check_failed)?;
        within(async { tx.commit().await.map_err(error_of) }).await?;
        client.give_back();
        Ok(())
    }
}

/// Begins the transaction of a handler. `None` if another worker has claimed the delivery.
async fn begin<'c>(
    client: &'c mut Object,
    job: &Job,
    limit: Duration,
) -> Result<Option<Transaction<'c>>, Error> {
    let tx = client.transaction().await.map_err(error_of)?;
    query(&tx, BEGIN_HANDLER, &[time_limit(limit)]).await?;
    let locked = query(&tx, FINISH, &ticket(job.ticket)).await?;
    Ok((!locked.is_empty()).then_some(tx))
}

async fn borrow(pool: &Pool) -> Result<Borrowed<Object>, Error> {
    let client = pool.get().await.map_err(|error| match error {
        PoolError::Backend(error) => error_of(error),
        error => Error::new(ErrorKind::Unavailable, error),
    })?;
    Ok(Borrowed::new(client, |client| drop(Object::take(client))))
}

impl Operations for Pool {
    const SCHEMA: &str = pooled::SCHEMA;

    fn connections(&self) -> usize {
        self.status().max_size
    }

    async fn create(&self) -> Result<(), Error> {
        let mut client = borrow(self).await?;
        let create = async {
            let tx = client.get().transaction().await?;
            tx.batch_execute(LOCK_SCHEMA).await?;
            tx.batch_execute(Self::SCHEMA).await?;
            tx.commit().await
        };
        create.await.map_err(error_of)?;
        client.give_back();
        Ok(())
    }

    async fn query(
        &self,
        statement: &'static str,
        parameters: Vec<Value>,
    ) -> Result<Vec<Row>, Error> {
        let mut client = borrow(self).await?;
        let tx = client.get().transaction().await.map_err(error_of)?;
        tx.batch_execute(BEGIN).await.map_err(error_of)?;
        let rows = query(&tx, statement, &parameters).await?;
        tx.commit().await.map_err(error_of)?;
        client.give_back();
        Ok(rows)
    }
}

async fn query(
    tx: &tokio_postgres::Transaction<'_>,
    statement: &str,
    parameters: &[Value],
) -> Result<Vec<Row>, Error> {
    let type_of = |value: &Value| match value {
        Value::Int(_) => Type::INT8,
        Value::Bytes(_) => Type::BYTEA,
        Value::Text(_) | Value::Null => Type::TEXT,
    };
    let parameters = parameters.iter().map(|value| (value as &(dyn ToSql + Sync), type_of(value)));
    let parameters: Vec<_> = parameters.collect();
    let rows = tx.query_typed(statement, &parameters).await.map_err(error_of)?;
    let values = |row: &PgRow| (0..row.len()).map(|column| row.try_get(column)).collect();
    rows.iter().map(values).collect::<Result<_, _>>().map_err(error_of)
}

impl ToSql for Value {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(value) => value.to_sql(ty, out),
            Self::Text(text) => text.to_sql(ty, out),
            Self::Bytes(bytes) => (&**bytes).to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Value {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, BoxError> {
        Ok(match *ty {
            Type::INT8 => Self::Int(i64::from_sql(ty, raw)?),
            Type::BYTEA => Self::Bytes(raw.to_vec().into()),
            _ => Self::Text(String::from_sql(ty, raw)?),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, BoxError> {
        Ok(Self::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

fn error_of(error: tokio_postgres::Error) -> Error {
    let code = error.code().cloned();
    Error::postgres(code.as_ref().map(SqlState::code), error)
}
