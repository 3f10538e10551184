//! Workers with SQLite: handlers and their transactions.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::{Sqlite, error, now};
use crate::job::Ticket;
use crate::worker::{Ended, Handle};
use crate::{BoxError, Error, ErrorKind, Job, Worker};

impl Worker<Sqlite> {
    /// Runs `handler` for each delivery, until [`Inbox::stop`](crate::Inbox::stop).
    ///
    /// The handler runs in a transaction, on a blocking thread. If it returns `Ok`, its writes
    /// and the end of the delivery are committed together, so they happen exactly once. If it
    /// returns `Err` or panics, they are rolled back and the delivery is attempted again.
    ///
    /// All handlers use the same connection, which also accepts deliveries: what a handler
    /// changes in it, such as a `PRAGMA` or a temporary table, stays.
    ///
    /// The transaction holds SQLite's one write lock: while the handler runs, no delivery is
    /// accepted. For anything slow, use [`run_prepared`](Self::run_prepared).
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
    /// [`NotMigrated`](ErrorKind::NotMigrated). Other errors of the database are logged, and
    /// the operation is repeated.
    pub async fn run<F>(self, handler: F) -> Result<(), Error>
    where
        F: Fn(&Transaction<'_>, &Job) -> Result<(), BoxError> + Send + Sync + 'static,
    {
        let handler = InTransaction { database: self.database(), handler: Arc::new(handler) };
        self.work(&handler).await
    }

    /// Runs `prepare`, and then `commit` with its result, for each delivery, until
    /// [`Inbox::stop`](crate::Inbox::stop).
    ///
    /// `prepare` is asynchronous and runs outside of any transaction: it may take long, for
    /// example for HTTP requests, and may run again after a failure or a crash. `commit` runs
    /// as the handler of [`run`](Self::run) does: its writes happen exactly once.
    ///
    /// ```no_run
    /// # async fn render(_: &[u8]) -> Result<String, std::io::Error> { Ok(String::new()) }
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let inbox = webhook_inbox::Inbox::sqlite("app.db")?;
    /// inbox
    ///     .worker()
    ///     .run_prepared(
    ///         |job| async move { Ok(render(job.delivery().body()).await?) },
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
    /// As [`run`](Self::run).
    pub async fn run_prepared<P, Fut, T, F>(self, prepare: P, commit: F) -> Result<(), Error>
    where
        P: Fn(Job) -> Fut,
        Fut: Future<Output = Result<T, BoxError>>,
        T: Send + 'static,
        F: Fn(&Transaction<'_>, &Job, T) -> Result<(), BoxError> + Send + Sync + 'static,
    {
        let handler = Prepared { database: self.database(), prepare, commit: Arc::new(commit) };
        self.work(&handler).await
    }
}

/// Runs a handler in a transaction.
struct InTransaction<F> {
    database: Sqlite,
    handler: Arc<F>,
}

impl<F> Handle for InTransaction<F>
where
    F: Fn(&Transaction<'_>, &Job) -> Result<(), BoxError> + Send + Sync + 'static,
{
    async fn handle(&self, job: &Job) -> Result<Ended, BoxError> {
        let (job, handler) = (job.clone(), self.handler.clone());
        let commit = move |connection: &mut Connection| {
            in_transaction(connection, job.ticket, |tx| handler(tx, &job))
        };
        self.database.blocking(commit).await
    }
}

/// Prepares, and then commits in a transaction.
struct Prepared<P, F> {
    database: Sqlite,
    prepare: P,
    commit: Arc<F>,
}

impl<P, Fut, T, F> Handle for Prepared<P, F>
where
    P: Fn(Job) -> Fut,
    Fut: Future<Output = Result<T, BoxError>>,
    T: Send + 'static,
    F: Fn(&Transaction<'_>, &Job, T) -> Result<(), BoxError> + Send + Sync + 'static,
{
    async fn handle(&self, job: &Job) -> Result<Ended, BoxError> {
        let prepared = (self.prepare)(job.clone()).await?;
        let (job, commit) = (job.clone(), self.commit.clone());
        let commit = move |connection: &mut Connection| {
            in_transaction(connection, job.ticket, |tx| commit(tx, &job, prepared))
        };
        self.database.blocking(commit).await
    }
}

/// Runs a handler in a transaction that ends the delivery, too.
fn in_transaction(
    connection: &mut Connection,
    ticket: Ticket,
    write: impl FnOnce(&Transaction<'_>) -> Result<(), BoxError>,
) -> Result<Ended, BoxError> {
    let tx = match begin(connection, ticket).map_err(error) {
        Ok(Some(tx)) => tx,
        Ok(None) => return Ok(Ended::LeaseLost),
        Err(error) => return Ok(Ended::Unavailable(error)),
    };
    write(&tx)?;
    // SQLite itself rolls back after some errors, such as a full disk. A handler that ignores
    // the error has lost its writes.
    if tx.is_autocommit() {
        return Err("the transaction was ended while the handler ran".into());
    }
    match finish(tx, ticket).map_err(error) {
        Ok(()) => Ok(Ended::Committed),
        Err(error) if error.kind() == ErrorKind::Unavailable => Ok(Ended::Unavailable(error)),
        Err(error) => Err(error.into()),
    }
}

/// `None` if the ticket is not valid any more.
fn begin(connection: &mut Connection, ticket: Ticket) -> rusqlite::Result<Option<Transaction<'_>>> {
    let current = "SELECT 1 FROM webhook_inbox WHERE id = ?1 AND token = ?2 AND status = 'pending'";
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let is_current = tx.query_row(current, [ticket.id, ticket.token], |_| Ok(())).optional()?;
    Ok(is_current.map(|()| tx))
}

fn finish(tx: Transaction<'_>, ticket: Ticket) -> rusqlite::Result<()> {
    let done = "UPDATE webhook_inbox SET status = 'done', ended_at = ?1, error = NULL \
                WHERE id = ?2";
    tx.execute(done, params![now(), ticket.id])?;
    tx.commit()
}
