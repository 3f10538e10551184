//! What the drivers of PostgreSQL share: how an operation and a handler use a connection of the pool.

use std::time::Duration;

use crate::database::{Operations, Row, Value, within};
use crate::queue::FINISH;
use crate::worker::{Failure, Handle};
use crate::{BoxError, Error, ErrorKind, Job, Worker};

/// `IF NOT EXISTS` alone fails if two processes create a table at the same time.
const LOCK_SCHEMA: &str = "SELECT pg_advisory_xact_lock(hashtext('webhook_inbox'))";

/// Begins the transaction of an operation. The server cancels its statement when the inbox has
/// given it up (`database::TIMEOUT`).
const BEGIN: &str =
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = '5s'";

/// Begins the transaction of a handler, with its time limit.
const BEGIN_HANDLER: &str = "SELECT set_config('statement_timeout', $1, true), \
     set_config('idle_in_transaction_session_timeout', $1, true)";

/// Fails if the transaction was ended, or if a statement has failed whose error was ignored: then
/// a commit would roll back, and report no error.
const CHECK: &str = "SAVEPOINT webhook_inbox";

/// A pool of connections to PostgreSQL.
pub trait Pooled: Clone + Send + Sync + 'static {
    type Connection: Send;
    type Transaction<'c>: Statements;

    /// How many connections it has at most.
    fn max_size(&self) -> usize;

    fn acquire(&self) -> impl Future<Output = Result<Self::Connection, Error>> + Send;

    /// Closes a connection, which does not go back to the pool.
    fn close(connection: Self::Connection);

    fn begin(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<Self::Transaction<'_>, Error>> + Send;
}

/// A transaction.
pub trait Statements: Send {
    /// Runs statements without parameters.
    fn run(&mut self, statements: &'static str) -> impl Future<Output = Result<(), Error>> + Send;

    fn rows(
        &mut self,
        statement: &'static str,
        parameters: Vec<Value>,
    ) -> impl Future<Output = Result<Vec<Row>, Error>> + Send;

    /// Commits, or rolls back.
    fn end(self, commits: bool) -> impl Future<Output = Result<(), Error>> + Send;
}

impl<P: Pooled> Operations for P {
    const SCHEMA: &str = include_str!("schema.postgres.sql");

    fn connections(&self) -> usize {
        self.max_size()
    }

    async fn create(&self) -> Result<(), Error> {
        let mut connection = Borrowed::<P>(Some(self.acquire().await?));
        let mut tx = P::begin(connection.get()).await?;
        tx.run(LOCK_SCHEMA).await?;
        tx.run(Self::SCHEMA).await?;
        tx.end(true).await?;
        connection.give_back();
        Ok(())
    }

    async fn query(
        &self,
        statement: &'static str,
        parameters: Vec<Value>,
    ) -> Result<Vec<Row>, Error> {
        let mut connection = Borrowed::<P>(Some(self.acquire().await?));
        let mut tx = P::begin(connection.get()).await?;
        tx.run(BEGIN).await?;
        let rows = tx.rows(statement, parameters).await?;
        tx.end(true).await?;
        connection.give_back();
        Ok(rows)
    }
}

/// Prepares, and then writes and commits in a transaction.
pub(crate) struct Prepared<'w, D, P, W> {
    pub(crate) worker: &'w Worker<D>,
    pub(crate) prepare: P,
    pub(crate) write: W,
}

/// What a transaction writes. A trait for the same reason as `Handle`.
pub(crate) trait Write<Tx, T> {
    async fn write(&self, tx: &mut Tx, job: &Job, prepared: T) -> Result<(), BoxError>;
}

/// The handler of `run`.
pub(crate) struct Run<F>(pub(crate) F);

/// The second function of `run_prepared`.
pub(crate) struct Commit<F>(pub(crate) F);

impl<D, P, Fut, T, W> Handle for Prepared<'_, D, P, W>
where
    D: Pooled,
    P: Fn(Job) -> Fut,
    Fut: Future<Output = Result<T, BoxError>>,
    W: for<'c> Write<D::Transaction<'c>, T>,
{
    async fn handle(&self, job: &Job) -> Result<(), Failure> {
        let prepared = self
            .worker
            .prepare(job, (self.prepare)(job.clone()))
            .await?;
        let acquired = within(self.worker.inbox.database.acquire()).await?;
        let mut connection = Borrowed::<D>(Some(acquired));
        let tx = begin::<D>(connection.get(), job, self.worker.handler_timeout);
        let mut tx = within(tx).await?.ok_or(Failure::LeaseLost)?;
        let written = self.write.write(&mut tx, job, prepared).await;
        // If it has blocked its thread, its time limit and the stop of the worker come first.
        tokio::task::yield_now().await;
        if written.is_ok() {
            within(tx.run(CHECK)).await.map_err(check_failed)?;
        }
        within(tx.end(written.is_ok())).await?;
        connection.give_back();
        Ok(written?)
    }
}

/// Begins the transaction of a handler. `None` if another worker has claimed the delivery.
async fn begin<'c, D: Pooled>(
    connection: &'c mut D::Connection,
    job: &Job,
    limit: Duration,
) -> Result<Option<D::Transaction<'c>>, Error> {
    let mut tx = D::begin(connection).await?;
    let limit = Value::Text(limit.as_millis().to_string());
    tx.rows(BEGIN_HANDLER, vec![limit]).await?;
    let locked = tx.rows(FINISH, job.claim()).await?;
    Ok((!locked.is_empty()).then_some(tx))
}

/// What it means if `CHECK` fails.
fn check_failed(error: Error) -> Failure {
    if error.kind() == ErrorKind::Unavailable {
        return error.into();
    }
    let text = "the transaction has failed or was ended while the handler ran";
    Failure::Handler(text.into())
}

/// A connection of a pool. Unless it is given back, it is closed: what was dropped halfway, such
/// as a handler at its time limit, may still run in the server.
struct Borrowed<P: Pooled>(Option<P::Connection>);

impl<P: Pooled> Borrowed<P> {
    fn get(&mut self) -> &mut P::Connection {
        self.0
            .as_mut()
            .expect("only `give_back` and `drop` take it")
    }

    /// Gives the connection back to its pool, after its transaction has ended.
    fn give_back(mut self) {
        self.0 = None;
    }
}

impl<P: Pooled> Drop for Borrowed<P> {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            P::close(connection);
        }
    }
}
