//! An inbox in PostgreSQL.

mod connection;
mod text;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, GenericClient, Row, Socket};
use webhook_verify::Delivery;

use self::connection::{Connections, error};
use self::text::{decode, encode};
use crate::database::{Entry, Operations, SLICE, WRONG_CLOCK};
use crate::inbox::Signals;
use crate::job::Ticket;
use crate::{Accepted, DeadLetter, Error, Inbox, Job};

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
    /// for each handler that runs. The table is found through the `search_path`. For connections
    /// without TLS, pass `tokio_postgres::NoTls`.
    ///
    /// An operation that takes longer than 5 seconds fails, and is canceled in the server.
    ///
    /// Workers are notified with `LISTEN` and `NOTIFY`. Behind a pooler that does not support
    /// them, such as PgBouncer in transaction mode, they find deliveries at their next
    /// [`poll_interval`](crate::Worker::poll_interval).
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
    /// use webhook_verify::Delivery;
    ///
    /// async fn receive(
    ///     inbox: &Inbox<Postgres>,
    ///     client: &mut Client,
    ///     delivery: &Delivery,
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
        delivery: &Delivery,
    ) -> Result<Accepted, Error> {
        insert(client, &self.entry(delivery)).await.map_err(error)
    }
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
        self.connections.on_own_connection(TIMEOUT, operation).await
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
                 token = token + 1 \
                 WHERE id = (SELECT id FROM webhook_inbox \
                     WHERE status = 'pending' AND due_at <= now() \
                     ORDER BY due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED) \
                 RETURNING id, token, attempts + 1, scope, service, event, key, body, received_at",
                &[(&seconds(lease), Type::FLOAT8)],
            )
            .await?;
        rows.first().map(job).transpose().map_err(error)
    }

    async fn next_due(&self) -> Result<Option<Duration>, Error> {
        // A delivery that is due now is locked by the transaction that is about to end it.
        let next = "WITH wrong AS (SELECT FROM (SELECT due_at, token FROM webhook_inbox \
                        WHERE status = 'pending' ORDER BY due_at DESC, id DESC LIMIT 1) last \
                        WHERE due_at > now() + make_interval(secs => $1) \
                            OR (token = 0 AND due_at > now() + make_interval(secs => 1))), \
                    repaired AS (UPDATE webhook_inbox SET due_at = now() \
                        WHERE EXISTS (SELECT FROM wrong) AND status = 'pending' \
                            AND due_at > now() \
                            AND (token = 0 OR due_at > now() + make_interval(secs => $1))) \
                    SELECT extract(epoch FROM min(due_at) - now())::float8 FROM webhook_inbox \
                    WHERE status = 'pending' AND due_at > now()";
        let rows = self.query(next, &[(&seconds(WRONG_CLOCK), Type::FLOAT8)]).await?;
        let seconds = rows.first().map(|row| row.try_get(0)).transpose().map_err(error)?.flatten();
        Ok(seconds.map(|seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default()))
    }

    async fn renew(&self, ticket: Ticket, lease: Duration) -> Result<bool, Error> {
        // A handler's transaction that is being committed has locked the row. After the commit,
        // the ticket is still valid.
        let renew = "WITH current AS (SELECT id FROM webhook_inbox \
                         WHERE id = $1 AND token = $2), \
                     renewed AS (UPDATE webhook_inbox \
                         SET due_at = clock_timestamp() + make_interval(secs => $3) \
                         WHERE id = (SELECT id FROM webhook_inbox \
                             WHERE id = $1 AND token = $2 AND status = 'pending' \
                             FOR UPDATE SKIP LOCKED)) \
                     SELECT id FROM current";
        let parameters: Parameters<'_> = &[
            (&ticket.id, Type::INT8),
            (&ticket.token, Type::INT8),
            (&seconds(lease), Type::FLOAT8),
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
            (&retry_in.map(seconds), Type::FLOAT8),
        ];
        Ok(!self.query(fail, parameters).await?.is_empty())
    }

    async fn release(&self, ticket: Ticket, attempts: u32) -> Result<(), Error> {
        let release = "UPDATE webhook_inbox SET attempts = $3, due_at = clock_timestamp() \
                       WHERE id = $1 AND token = $2 AND status = 'pending'";
        let attempts = i32::try_from(attempts).unwrap_or(i32::MAX);
        let parameters: Parameters<'_> =
            &[(&ticket.id, Type::INT8), (&ticket.token, Type::INT8), (&attempts, Type::INT4)];
        self.query(release, parameters).await.map(drop)
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
        let before = "SELECT clock_timestamp() - make_interval(secs => $1)";
        let age: Parameters<'_> = &[(&seconds(older_than), Type::FLOAT8)];
        let rows = self.query(before, age).await?;
        let Some(before) = rows.first() else { return Ok(0) };
        let before: SystemTime = before.try_get(0).map_err(error)?;
        let purge = "DELETE FROM webhook_inbox WHERE id IN (SELECT id FROM webhook_inbox \
                     WHERE status = 'done' AND ended_at <= $1 ORDER BY ended_at LIMIT $2)";
        let slice: Parameters<'_> =
            &[(&before, Type::TIMESTAMPTZ), (&i64::from(SLICE), Type::INT8)];
        let mut purged = 0;
        loop {
            let run = async |client: &Client| client.execute_typed(purge, slice).await;
            let deleted = self.long(run).await?;
            purged += deleted;
            if deleted < u64::from(SLICE) {
                return Ok(purged);
            }
        }
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").finish_non_exhaustive()
    }
}

/// A duration for `make_interval`, at most a thousand years, which a point in time can be added
/// to.
fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64().min(1000.0 * 366.0 * 86_400.0)
}

async fn insert(
    client: &(impl GenericClient + Sync),
    entry: &Entry,
) -> Result<Accepted, tokio_postgres::Error> {
    let Entry { scope, key, delivery } = entry;
    let insert = "WITH added AS (INSERT INTO webhook_inbox (key, scope, service, event, body) \
                      VALUES ($1, $2, $3, $4, $5) ON CONFLICT (key) DO NOTHING RETURNING id) \
                  SELECT id, pg_notify('webhook_inbox', '') FROM added";
    let parameters: Parameters<'_> = &[
        (&encode(key.as_str()), Type::TEXT),
        (&scope.as_deref().map(encode), Type::TEXT),
        (&delivery.service().name(), Type::TEXT),
        (&encode(delivery.event().as_str()), Type::TEXT),
        (&&delivery.body()[..], Type::BYTEA),
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
        scope: row.try_get::<_, Option<&str>>(3)?.map(|scope| decode(scope).into()),
        // The key stays encoded, so that a handler can store it in a text.
        delivery: Delivery::from_storage(
            service.parse().expect("the table accepts only known services"),
            &decode(event),
            key,
            body.to_vec(),
        ),
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
