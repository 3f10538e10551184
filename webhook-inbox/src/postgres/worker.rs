//! Workers with PostgreSQL: handlers and their transactions.

use std::time::{Duration, SystemTime};

use tokio::time::{Instant, interval_at};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, IsolationLevel, Transaction};

use super::connection::{is_outage, within};
use super::{Parameters, Postgres};
use crate::job::Ticket;
use crate::worker::{Ended, Handle};
use crate::{BoxError, Error, Job, Worker};

/// How long the beginning and the end of a transaction may take. The renewal of the lease does
/// not wait for them.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(30);

impl Worker<Postgres> {
    /// Runs `handler` for each delivery, until [`Inbox::stop`](crate::Inbox::stop).
    ///
    /// The handler runs in a transaction. If it returns `Ok`, its writes and the end of the
    /// delivery are committed together, so they happen exactly once. If it returns `Err` or
    /// panics, they are rolled back and the delivery is attempted again. What it does outside
    /// of the transaction, such as an HTTP request, may happen again.
    ///
    /// While it runs, the transaction is open and has a connection of its own. For anything
    /// slow, use [`run_prepared`](Self::run_prepared). What it changes in its session, such as
    /// settings, temporary tables and advisory locks, is reset when it has ended.
    ///
    /// The handlers of a worker share its task, so they must not block their thread. The server
    /// ends the transaction of a worker that has not responded for the duration of the lease,
    /// or for one minute if that is longer, so that its locks do not block others.
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
        let transactions = Transactions { database: self.database(), lease: self.lease };
        self.work(&InTransaction { transactions, handler }).await
    }

    /// Runs `prepare`, and then `commit` with its result, for each delivery, until
    /// [`Inbox::stop`](crate::Inbox::stop).
    ///
    /// `prepare` runs outside of any transaction and has no connection: it may take long, for
    /// example for HTTP requests, and may run again after a failure or a crash. `commit` runs
    /// as the handler of [`run`](Self::run) does: its writes happen exactly once.
    ///
    /// ```no_run
    /// # async fn render(_: &[u8]) -> Result<String, std::io::Error> { Ok(String::new()) }
    /// # use webhook_inbox::{Inbox, Postgres};
    /// # async fn example(inbox: Inbox<Postgres>) -> Result<(), webhook_inbox::Error> {
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
    /// As [`run`](Self::run).
    pub async fn run_prepared<P, Fut, T, F>(self, prepare: P, commit: F) -> Result<(), Error>
    where
        P: Fn(Job) -> Fut,
        Fut: Future<Output = Result<T, BoxError>>,
        F: AsyncFn(&Transaction<'_>, &Job, T) -> Result<(), BoxError>,
    {
        let transactions = Transactions { database: self.database(), lease: self.lease };
        self.work(&Prepared { transactions, prepare, commit }).await
    }
}

/// Runs a handler in a transaction.
struct InTransaction<F> {
    transactions: Transactions,
    handler: F,
}

impl<F> Handle for InTransaction<F>
where
    F: AsyncFn(&Transaction<'_>, &Job) -> Result<(), BoxError>,
{
    async fn handle(&self, job: &Job) -> Result<Ended, BoxError> {
        let connections = &self.transactions.database.connections;
        let client = match connections.take(&connections.handlers).await {
            Ok(client) => client,
            Err(error) => return Ok(Ended::Unavailable(error)),
        };
        let cancel = connections.cancel_on_drop(&client);
        let table = match within(TRANSACTION_TIMEOUT, start(&client, job.ticket)).await {
            Ok(table) => table,
            Err(error) => return Ok(self.transactions.unavailable(error)),
        };
        cancel.disarm();
        let Some(table) = table else {
            connections.handlers.put_back(client);
            return Ok(Ended::LeaseLost);
        };
        self.transactions.run(client, &table, job, Run(&self.handler)).await
    }
}

/// Prepares, and then commits in a transaction.
struct Prepared<P, F> {
    transactions: Transactions,
    prepare: P,
    commit: F,
}

impl<P, Fut, T, F> Handle for Prepared<P, F>
where
    P: Fn(Job) -> Fut,
    Fut: Future<Output = Result<T, BoxError>>,
    F: AsyncFn(&Transaction<'_>, &Job, T) -> Result<(), BoxError>,
{
    async fn handle(&self, job: &Job) -> Result<Ended, BoxError> {
        let connections = &self.transactions.database.connections;
        let started = connections.control(async |client| start(client, job.ticket).await);
        let table = match started.await {
            Ok(Some(table)) => table,
            Ok(None) => return Ok(Ended::LeaseLost),
            Err(error) => return Ok(Ended::Unavailable(error)),
        };
        let prepared = (self.prepare)(job.clone()).await?;
        let client = match connections.take(&connections.handlers).await {
            Ok(client) => client,
            Err(error) => return Ok(Ended::Unavailable(error)),
        };
        self.transactions.run(client, &table, job, Commit(&self.commit, prepared)).await
    }
}

/// What a transaction runs.
trait Write {
    async fn write(self, tx: &Transaction<'_>, job: &Job) -> Result<(), BoxError>;
}

struct Run<'a, F>(&'a F);

impl<F> Write for Run<'_, F>
where
    F: AsyncFn(&Transaction<'_>, &Job) -> Result<(), BoxError>,
{
    async fn write(self, tx: &Transaction<'_>, job: &Job) -> Result<(), BoxError> {
        (self.0)(tx, job).await
    }
}

struct Commit<'a, F, T>(&'a F, T);

impl<F, T> Write for Commit<'_, F, T>
where
    F: AsyncFn(&Transaction<'_>, &Job, T) -> Result<(), BoxError>,
{
    async fn write(self, tx: &Transaction<'_>, job: &Job) -> Result<(), BoxError> {
        (self.0)(tx, job, self.1).await
    }
}

/// Counts the attempt, and returns the table of the inbox with its schema, because a handler may
/// change the `search_path`. `None` if the ticket is not valid any more.
async fn start(client: &Client, ticket: Ticket) -> Result<Option<String>, tokio_postgres::Error> {
    // If the server crashes, the count may be lost. Waiting for the disk would cost more.
    let start = "UPDATE webhook_inbox SET attempts = attempts + 1 \
                 WHERE id = $1 AND token = $2 AND status = 'pending' \
                     AND set_config('synchronous_commit', 'off', true) = 'off' \
                 RETURNING (SELECT format('%I.%I', nspname, relname) \
                     FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace \
                     WHERE pg_class.oid = webhook_inbox.tableoid)";
    let ticket: Parameters<'_> = &[(&ticket.id, Type::INT8), (&ticket.token, Type::INT8)];
    let rows = client.query_typed(start, ticket).await?;
    rows.first().map(|row| row.try_get(0)).transpose()
}

struct Transactions {
    database: Postgres,
    lease: Duration,
}

impl Transactions {
    async fn run(
        &self,
        mut client: Client,
        table: &str,
        job: &Job,
        write: impl Write,
    ) -> Result<Ended, BoxError> {
        let connections = &self.database.connections;
        let cancel = connections.cancel_on_drop(&client);
        let ended = self.in_transaction(&mut client, table, job, write).await;
        if let Ok(Ended::Unavailable(error)) = ended {
            return Ok(self.unavailable(error));
        }
        cancel.disarm();
        connections.put_back_reset(client).await;
        ended
    }

    async fn in_transaction(
        &self,
        client: &mut Client,
        table: &str,
        job: &Job,
        write: impl Write,
    ) -> Result<Ended, BoxError> {
        let (tx, began) = match within(TRANSACTION_TIMEOUT, self.begin(client)).await {
            Ok(begun) => begun,
            Err(error) => return Ok(Ended::Unavailable(error)),
        };
        let period = self.lease / 3;
        let mut times = interval_at(Instant::now() + period, period);
        // While the handler does something else, the server has to know that it is alive.
        let stay_alive = async {
            loop {
                times.tick().await;
                if tx.client().check_connection().await.is_err() {
                    // The handler gets the error from its next statement, or at the end.
                    std::future::pending::<()>().await;
                }
            }
        };
        let written = tokio::select! {
            written = write.write(&tx, job) => written,
            () = stay_alive => unreachable!("it never ends"),
        };
        let ended = match written {
            Ok(()) => finish(tx, began, table, job.ticket).await,
            Err(error) => {
                // If it fails, the reset of the connection fails, too.
                let _ = within(TRANSACTION_TIMEOUT, tx.rollback()).await;
                return Err(error);
            }
        };
        match ended {
            Ok(ended) => ended,
            Err(error) if is_outage(&error) => Ok(Ended::Unavailable(error)),
            Err(error) => Err(error.into()),
        }
    }

    fn unavailable(&self, error: Error) -> Ended {
        // The connections that are idle may not work either.
        self.database.connections.handlers.clear();
        Ended::Unavailable(error)
    }

    /// Begins a transaction. Returns the server's time of its beginning, too.
    async fn begin<'a>(
        &self,
        client: &'a mut Client,
    ) -> Result<(Transaction<'a>, SystemTime), tokio_postgres::Error> {
        const MIN_IDLE: Duration = Duration::from_secs(60);
        // Under a stricter isolation level, the renewal of the lease would make the commit fail.
        let tx = client.build_transaction().isolation_level(IsolationLevel::ReadCommitted);
        let tx = tx.start().await?;
        let limit = self.lease.max(MIN_IDLE).as_millis().to_string();
        let begin = "SELECT now(), set_config('idle_in_transaction_session_timeout', $1, true)";
        let row = tx.client().query_typed_one(begin, &[(&limit, Type::TEXT)]).await?;
        let began = row.try_get(0)?;
        Ok((tx, began))
    }
}

/// Ends the delivery in the handler's transaction. The inner error is the handler's.
async fn finish(
    tx: Transaction<'_>,
    began: SystemTime,
    table: &str,
    ticket: Ticket,
) -> Result<Result<Ended, BoxError>, Error> {
    // Outside of the transaction, `now()` is another time.
    let done = format!(
        "UPDATE {table} SET status = 'done', ended_at = clock_timestamp(), error = NULL \
         WHERE id = $1 AND token = $2 AND status = 'pending' AND now() = $3"
    );
    let began: (&(dyn ToSql + Sync), Type) = (&began, Type::TIMESTAMPTZ);
    let parameters: Parameters<'_> =
        &[(&ticket.id, Type::INT8), (&ticket.token, Type::INT8), began.clone()];
    let ended = within(TRANSACTION_TIMEOUT, tx.execute_typed(&done, parameters)).await?;
    if ended > 0 {
        within(TRANSACTION_TIMEOUT, tx.commit()).await?;
        return Ok(Ok(Ended::Committed));
    }
    let is_open = async { tx.query_typed_one("SELECT now() = $1", &[began]).await };
    let is_open = within(TRANSACTION_TIMEOUT, is_open).await?;
    within(TRANSACTION_TIMEOUT, tx.rollback()).await?;
    Ok(match is_open.get(0) {
        true => Ok(Ended::LeaseLost),
        false => Err("the handler has ended the worker's transaction".into()),
    })
}
