//! An inbox in PostgreSQL.

mod connection;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, GenericClient, IsolationLevel, Row, Socket, Transaction};
use webhook_verify::{Storable, StoredDelivery};

use self::connection::{Connections, error, within};
use crate::database::{Entry, Operations};
use crate::inbox::Signals;
use crate::job::Ticket;
use crate::worker::{Ended, Handle};
use crate::{Accepted, BoxError, DeadLetter, Error, Inbox, Job, Worker};

/// The database of an [`Inbox`] in PostgreSQL (feature `postgres`).
#[derive(Clone)]
pub struct Postgres {
    connections: Arc<Connections>,
}

type Parameters<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

impl Inbox<Postgres> {
    /// The statements that create the table and its indexes.
    pub const SCHEMA: &str = include_str!("postgres/schema.sql");

    /// Creates an inbox in the database of your application. It connects at the first use,
    /// and again after a connection was lost.
    ///
    /// It uses up to 8 connections to accept deliveries. With a worker, it uses one more, and one
    /// for each handler that runs. The table is found through the `search_path`. For connections without TLS, pass `tokio_postgres::NoTls`.
    ///
    /// Workers are notified with `LISTEN` and `NOTIFY`. Behind a pooler that does not support
    /// them, such as PgBouncer in transaction mode, they find deliveries at their next
    /// [`poll_interval`](Worker::poll_interval).
    pub fn postgres<T>(config: Config, tls: T) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::TlsConnect: Send,
        T::Stream: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let signals = Arc::<Signals>::default();
        let connections = Arc::new(Connections::new(config, tls, signals.clone()));
        Self::new(Postgres { connections }, signals)
    }

    /// Stores a verified delivery in your own transaction, unless it is stored already.
    ///
    /// The delivery and what else the transaction writes are committed together. Workers are
    /// notified by the commit. The client can be a `Transaction` or a `Client` of
    /// `tokio_postgres`, such as those that the objects of `deadpool-postgres` and
    /// `bb8-postgres` dereference to.
    ///
    /// If another transaction has stored the same delivery and is not committed, it waits for
    /// the end of that transaction.
    ///
    /// ```
    /// use tokio_postgres::Client;
    /// use webhook_inbox::{BoxError, Inbox, Postgres};
    /// use webhook_verify::MailDelivery;
    ///
    /// async fn receive(
    ///     inbox: &Inbox<Postgres>,
    ///     client: &mut Client,
    ///     delivery: &MailDelivery,
    /// ) -> Result<(), BoxError> {
    ///     let tx = client.transaction().await?;
    ///     tx.execute("UPDATE counters SET deliveries = deliveries + 1", &[]).await?;
    ///     inbox.accept_in(&tx, delivery).await?;
    ///     tx.commit().await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The error of PostgreSQL. Roll back, and respond 503.
    pub async fn accept_in(
        &self,
        client: &(impl GenericClient + Sync),
        delivery: &impl Storable,
    ) -> Result<Accepted, Error> {
        insert(client, &self.entry(delivery)).await.map_err(error)
    }
}

impl Worker<Postgres> {
    /// Runs `handler` for each delivery, until [`Inbox::stop`].
    ///
    /// The handler runs in a transaction. If it returns `Ok`, its writes and the end of the
    /// delivery are committed together, so they happen exactly once. If it returns `Err` or
    /// panics, they are rolled back and the delivery is attempted again. What it does outside
    /// of the transaction, such as an HTTP request, may happen again.
    ///
    /// The handlers of a worker share its task, so they must not block their thread.
    ///
    /// ```no_run
    /// use tokio_postgres::Transaction;
    /// use webhook_inbox::{BoxError, Inbox, Job, Postgres};
    ///
    /// async fn handle(tx: &Transaction<'_>, job: &Job) -> Result<(), BoxError> {
    ///     let event = job.delivery().event().as_str();
    ///     tx.execute("INSERT INTO events (name) VALUES ($1)", &[&event]).await?;
    ///     Ok(())
    /// }
    ///
    /// # async fn example(inbox: Inbox<Postgres>) -> Result<(), webhook_inbox::Error> {
    /// inbox.worker().run(handle).await?;
    /// // Or with a closure:
    /// inbox.worker().run(async |tx, job| handle(tx, job).await).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotMigrated`](crate::ErrorKind::NotMigrated). Other errors of the database are
    /// logged, and the operation is repeated.
    pub async fn run<F>(self, handler: F) -> Result<(), Error>
    where
        F: AsyncFn(&Transaction<'_>, &Job) -> Result<(), BoxError>,
    {
        self.work(&InTransaction { database: self.database(), handler }).await
    }
}

/// Runs a handler in a transaction.
struct InTransaction<F> {
    database: Postgres,
    handler: F,
}

impl<F> Handle for InTransaction<F>
where
    F: AsyncFn(&Transaction<'_>, &Job) -> Result<(), BoxError>,
{
    async fn handle(&self, job: &Job) -> Result<Ended, BoxError> {
        let mut client = self.database.connections.take().await?;
        // After an error of the database, the connection is not used again.
        let ended = in_transaction(&mut client, job, &self.handler).await?;
        self.database.connections.put_back(client);
        ended
    }
}

/// The inner error is the handler's.
async fn in_transaction<F>(
    client: &mut Client,
    job: &Job,
    handler: &F,
) -> Result<Result<Ended, BoxError>, Error>
where
    F: AsyncFn(&Transaction<'_>, &Job) -> Result<(), BoxError>,
{
    /// How long the end of a transaction may take. The renewal of the lease does not wait
    /// for it.
    const COMMIT_TIMEOUT: Duration = Duration::from_secs(30);
    // Under a stricter isolation level, the renewal of the lease would make the commit fail.
    let tx = client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start();
    let tx = within(COMMIT_TIMEOUT, tx).await?;
    if let Err(error) = handler(&tx, job).await {
        within(COMMIT_TIMEOUT, tx.rollback()).await?;
        return Ok(Err(error));
    }
    let done = "UPDATE webhook_inbox \
                SET status = 'done', ended_at = clock_timestamp(), error = NULL \
                WHERE id = $1 AND token = $2 AND status = 'pending'";
    let ticket: Parameters<'_> = &[(&job.ticket.id, Type::INT8), (&job.ticket.token, Type::INT8)];
    if within(COMMIT_TIMEOUT, tx.execute_typed(done, ticket)).await? == 0 {
        within(COMMIT_TIMEOUT, tx.rollback()).await?;
        return Ok(Ok(Ended::LeaseLost));
    }
    within(COMMIT_TIMEOUT, tx.commit()).await?;
    Ok(Ok(Ended::Committed))
}

impl Postgres {
    /// Runs a statement that a worker needs to keep its leases.
    async fn query(&self, query: &str, parameters: Parameters<'_>) -> Result<Vec<Row>, Error> {
        let run = async |client: &Client| client.query_typed(query, parameters).await;
        self.connections.control(run).await
    }

    /// Runs a statement that may take long, on a connection of its own.
    async fn long<T>(
        &self,
        operation: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, Error> {
        const TIMEOUT: Duration = Duration::from_secs(600);
        let client = self.connections.take().await?;
        let value = within(TIMEOUT, operation(&client)).await?;
        self.connections.put_back(client);
        Ok(value)
    }
}

impl Operations for Postgres {
    async fn migrate(&self) -> Result<(), Error> {
        // Creating an index waits for transactions that write to the table, also if the index
        // exists, and what is accepted waits behind it.
        const EXISTS: &str = "SELECT to_regclass('webhook_inbox') IS NOT NULL \
             AND to_regclass('webhook_inbox_due') IS NOT NULL \
             AND to_regclass('webhook_inbox_ended') IS NOT NULL";
        let exists = self.query(EXISTS, &[]).await?;
        if exists.first().is_some_and(|row| row.get(0)) {
            return Ok(());
        }
        // `IF NOT EXISTS` alone fails if two processes create the table at the same time.
        let statements = format!(
            "BEGIN; SELECT pg_advisory_xact_lock(hashtext('webhook_inbox')); {} COMMIT;",
            Inbox::<Self>::SCHEMA
        );
        self.long(async |client| client.batch_execute(&statements).await).await
    }

    async fn accept(&self, entry: Entry) -> Result<Accepted, Error> {
        let run = async |client: &Client| insert(client, &entry).await;
        self.connections.accept(run).await
    }

    async fn claim(&self, lease: Duration) -> Result<Option<Job>, Error> {
        let rows = self
            .query(
                "UPDATE webhook_inbox SET due_at = clock_timestamp() + make_interval(secs => $1), \
                 token = token + 1, attempts = attempts + 1 \
                 WHERE id = (SELECT id FROM webhook_inbox \
                     WHERE status = 'pending' AND due_at <= now() \
                     ORDER BY due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED) \
                 RETURNING id, token, attempts, scope, service, event, key, body, received_at",
                &[(&lease.as_secs_f64(), Type::FLOAT8)],
            )
            .await?;
        rows.first().map(job).transpose().map_err(error)
    }

    async fn next_due(&self) -> Result<Option<Duration>, Error> {
        // A delivery that is due now is locked by the transaction that is about to end it.
        let next = "SELECT extract(epoch FROM min(due_at) - now())::float8 FROM webhook_inbox \
                    WHERE status = 'pending' AND due_at > now()";
        let rows = self.query(next, &[]).await?;
        let seconds = rows.first().map(|row| row.try_get(0)).transpose().map_err(error)?.flatten();
        Ok(seconds.map(|seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default()))
    }

    async fn renew(&self, ticket: Ticket, lease: Duration) -> Result<bool, Error> {
        // A handler's transaction that is being committed has locked the row.
        let renew = "WITH current AS (SELECT id FROM webhook_inbox \
                         WHERE id = $1 AND token = $2 AND status = 'pending'), \
                     renewed AS (UPDATE webhook_inbox \
                         SET due_at = clock_timestamp() + make_interval(secs => $3) \
                         WHERE id = (SELECT id FROM webhook_inbox \
                             WHERE id = $1 AND token = $2 AND status = 'pending' \
                             FOR UPDATE SKIP LOCKED)) \
                     SELECT id FROM current";
        let parameters: Parameters<'_> = &[
            (&ticket.id, Type::INT8),
            (&ticket.token, Type::INT8),
            (&lease.as_secs_f64(), Type::FLOAT8),
        ];
        Ok(!self.query(renew, parameters).await?.is_empty())
    }

    async fn fail(
        &self,
        ticket: Ticket,
        error: String,
        retry_in: Option<Duration>,
    ) -> Result<bool, Error> {
        let fail = "UPDATE webhook_inbox \
                    SET status = CASE WHEN $4 IS NULL THEN 'dead' ELSE 'pending' END, \
                        due_at = clock_timestamp() + make_interval(secs => coalesce($4, 0)), \
                        ended_at = CASE WHEN $4 IS NULL THEN clock_timestamp() END, \
                        error = $3, token = token + 1 \
                    WHERE id = $1 AND token = $2 AND status = 'pending' RETURNING id";
        let parameters: Parameters<'_> = &[
            (&ticket.id, Type::INT8),
            (&ticket.token, Type::INT8),
            (&error, Type::TEXT),
            (&retry_in.map(|delay| delay.as_secs_f64()), Type::FLOAT8),
        ];
        Ok(!self.query(fail, parameters).await?.is_empty())
    }

    async fn dead_letters(&self, after: i64, limit: u32) -> Result<Vec<DeadLetter>, Error> {
        let list = "SELECT id, token, attempts, scope, service, event, key, body, received_at, \
                    error, ended_at FROM webhook_inbox WHERE status = 'dead' AND id > $1 \
                    ORDER BY id LIMIT $2";
        let parameters: Parameters<'_> = &[(&after, Type::INT8), (&i64::from(limit), Type::INT8)];
        let rows = self.long(async |client| client.query_typed(list, parameters).await).await?;
        rows.iter().map(dead_letter).collect::<Result<_, _>>().map_err(error)
    }

    async fn replay(&self, id: Option<i64>) -> Result<u64, Error> {
        let replay = "WITH replayed AS (UPDATE webhook_inbox \
                          SET status = 'pending', due_at = clock_timestamp(), attempts = 0, \
                              ended_at = NULL \
                          WHERE status = 'dead' AND ($1 IS NULL OR id = $1) RETURNING id) \
                      SELECT count(*), pg_notify('webhook_inbox', '') FROM replayed";
        let run = async |client: &Client| client.query_typed(replay, &[(&id, Type::INT8)]).await;
        let rows = self.long(run).await?;
        let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0)).map_err(error)?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    async fn delete_dead_letter(&self, id: i64) -> Result<bool, Error> {
        let delete = "DELETE FROM webhook_inbox WHERE status = 'dead' AND id = $1";
        let run = async |client: &Client| client.execute_typed(delete, &[(&id, Type::INT8)]).await;
        Ok(self.long(run).await? > 0)
    }

    async fn purge(&self, older_than: Duration) -> Result<u64, Error> {
        let purge = "DELETE FROM webhook_inbox WHERE status = 'done' \
                     AND ended_at <= clock_timestamp() - make_interval(secs => $1)";
        let age: Parameters<'_> = &[(&older_than.as_secs_f64(), Type::FLOAT8)];
        self.long(async |client| client.execute_typed(purge, age).await).await
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").finish_non_exhaustive()
    }
}

async fn insert(
    client: &(impl GenericClient + Sync),
    entry: &Entry,
) -> Result<Accepted, tokio_postgres::Error> {
    let Entry { scope, key, delivery } = entry;
    // PostgreSQL does not store NUL in a text.
    let text = |text: &str| text.replace('\0', "\u{fffd}");
    let insert = "WITH added AS (INSERT INTO webhook_inbox (key, scope, service, event, body) \
                      VALUES ($1, $2, $3, $4, $5) ON CONFLICT (key) DO NOTHING RETURNING id) \
                  SELECT id, pg_notify('webhook_inbox', '') FROM added";
    let parameters: Parameters<'_> = &[
        (&text(key.as_str()), Type::TEXT),
        (&scope.as_deref().map(text), Type::TEXT),
        (&delivery.service(), Type::TEXT),
        (&text(delivery.event().as_str()), Type::TEXT),
        (&delivery.body(), Type::BYTEA),
    ];
    let rows = client.query_typed(insert, parameters).await?;
    Ok(if rows.is_empty() { Accepted::Duplicate } else { Accepted::New })
}

/// Reads the columns `id, token, attempts, scope, service, event, key, body, received_at`.
fn job(row: &Row) -> Result<Job, tokio_postgres::Error> {
    let (service, event): (&str, &str) = (row.try_get(4)?, row.try_get(5)?);
    let (key, body): (&str, &[u8]) = (row.try_get(6)?, row.try_get(7)?);
    let attempts: i32 = row.try_get(2)?;
    Ok(Job {
        ticket: Ticket { id: row.try_get(0)?, token: row.try_get(1)? },
        attempt: u32::try_from(attempts).unwrap_or(0),
        scope: row.try_get::<_, Option<&str>>(3)?.map(Into::into),
        delivery: StoredDelivery::from_parts(service, event, key, body)
            .expect("the table accepts only known services"),
        received_at: row.try_get::<_, SystemTime>(8)?,
    })
}

fn dead_letter(row: &Row) -> Result<DeadLetter, tokio_postgres::Error> {
    let Job { ticket, attempt, scope, delivery, received_at } = job(row)?;
    Ok(DeadLetter {
        id: ticket.id,
        delivery,
        scope,
        attempts: attempt,
        error: row.try_get(9)?,
        received_at,
        failed_at: row.try_get(10)?,
    })
}
