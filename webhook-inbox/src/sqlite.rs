//! An inbox in SQLite: one connection, which accepts deliveries and runs handlers, on a thread of
//! its own. Closures reach it through `Sqlite::call`; one whose caller has gone is not started.
//! `transaction` commits a handler's writes together with the end of its delivery, unless the claim
//! is lost or the time limit has passed. `query` translates the statements of `queue.rs`, which are
//! PostgreSQL's.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{
    Connection, ErrorCode, InterruptHandle, ToSql, Transaction, TransactionBehavior,
    params_from_iter,
};
use tokio::sync::{mpsc, oneshot};
use webhook_verify::Delivery;

use crate::database::{Row, Statement, TIMEOUT, Value};
use crate::queue::{accepted, finish};
use crate::worker::Failure;
use crate::{Accepted, BoxError, Database, Error, ErrorKind, Inbox, Job, Worker};

/// The database of an [`Inbox`] in SQLite (feature `sqlite`).
///
/// One connection, because SQLite has one writer at a time, in a thread of its own: a handler that
/// never returns does not keep the program from ending. The thread ends with the last clone.
#[derive(Clone)]
pub struct Sqlite {
    tasks: mpsc::Sender<Task>,
    interrupt: Arc<InterruptHandle>,
}

type Task = Box<dyn FnOnce(&mut Connection) + Send>;

impl Inbox<Sqlite> {
    /// Opens the database file of your application, or creates it.
    ///
    /// It sets the journal mode to WAL, so that readers and the writer do not wait for each
    /// other, and commits with `synchronous=FULL`: an accepted delivery survives a power
    /// failure. Like all of SQLite, it must be on a local disk.
    ///
    /// # Errors
    ///
    /// The error of SQLite.
    pub fn sqlite(path: impl AsRef<Path>) -> Result<Self, Error> {
        let open = || {
            let connection = Connection::open(path)?;
            connection.busy_timeout(TIMEOUT)?;
            use_write_ahead_log(&connection)?;
            connection.pragma_update(None, "synchronous", "full")?;
            Ok(connection)
        };
        let mut connection = open().map_err(error)?;
        let interrupt = Arc::new(connection.get_interrupt_handle());
        let (tasks, mut queue) = mpsc::channel::<Task>(64);
        let thread = std::thread::Builder::new().name("webhook-inbox".to_owned());
        let work = move || {
            while let Some(task) = queue.blocking_recv() {
                task(&mut connection);
            }
        };
        thread
            .spawn(work)
            .map_err(|error| Error::new(ErrorKind::Unavailable, error))?;
        Ok(Self::new(Sqlite { tasks, interrupt }))
    }

    /// Stores a verified delivery in your own transaction, unless it is stored already.
    ///
    /// The delivery and what else the transaction writes are committed together. A
    /// [`Transaction`] coerces to a `&Connection`. After the commit, call [`wake`](Self::wake),
    /// and respond 2xx. It blocks, so call it on a blocking thread.
    ///
    /// ```
    /// use webhook_inbox::rusqlite::Connection;
    /// use webhook_inbox::{BoxError, Inbox, Sqlite};
    /// use webhook_verify::Delivery;
    ///
    /// fn receive(
    ///     inbox: &Inbox<Sqlite>,
    ///     connection: &mut Connection,
    ///     delivery: &Delivery,
    /// ) -> Result<(), BoxError> {
    ///     let tx = connection.transaction()?;
    ///     tx.execute("UPDATE counters SET deliveries = deliveries + 1", [])?;
    ///     inbox.accept_in(&tx, delivery)?;
    ///     tx.commit()?;
    ///     inbox.wake();
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The error of SQLite. Roll back, and respond 503.
    pub fn accept_in(
        &self,
        connection: &Connection,
        delivery: &Delivery,
    ) -> Result<Accepted, Error> {
        query(connection, &self.insert(), &self.entry(delivery)).map(|rows| accepted(&rows))
    }
}

impl Worker<Sqlite> {
    /// Runs `handler` for each delivery, until [`Inbox::stop`].
    ///
    /// The handler runs in a transaction, on a thread of its own. If it returns `Ok`, its writes
    /// and the end of the delivery are committed together, so they happen exactly once. If it
    /// returns `Err` or panics, they are rolled back and the delivery is attempted again.
    ///
    /// All handlers use the same connection, which also accepts deliveries: what a handler
    /// changes in it, such as a `PRAGMA` or a temporary table, stays.
    ///
    /// The transaction holds SQLite's one write lock: while the handler runs, no delivery is
    /// accepted. For anything slow, use [`run_prepared`](Self::run_prepared). At the
    /// [time limit](Self::handler_timeout) its current statement is interrupted, but other code
    /// is not: the lock is free when the handler returns.
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
    /// See [`Worker`].
    pub async fn run<F>(self, handler: F) -> Result<(), Error>
    where
        F: Fn(&Transaction<'_>, &Job) -> Result<(), BoxError> + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        self.work(async move |worker: &Self, job| {
            let handler = handler.clone();
            transaction(worker, job, move |tx, job| handler(tx, job)).await
        })
        .await
    }

    /// Runs `prepare`, and then `commit` with its result, for each delivery, until
    /// [`Inbox::stop`].
    ///
    /// `prepare` is asynchronous and runs outside of any transaction: it may take long, for
    /// example for HTTP requests, and may run again after a failure or a crash. `commit` runs
    /// as the handler of [`run`](Self::run) does: its writes happen exactly once.
    ///
    /// ```no_run
    /// # async fn render(_: &[u8]) -> Result<String, std::io::Error> { Ok(String::new()) }
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let inbox = webhook_inbox::Inbox::sqlite("app.db")?;
    /// inbox.migrate().await?;
    /// inbox
    ///     .worker()
    ///     .run_prepared(
    ///         async |job| Ok(render(job.delivery().body()).await?),
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
    /// See [`Worker`].
    pub async fn run_prepared<P, T, F>(self, prepare: P, commit: F) -> Result<(), Error>
    where
        P: AsyncFn(Job) -> Result<T, BoxError> + Send + 'static,
        T: Send + 'static,
        F: Fn(&Transaction<'_>, &Job, T) -> Result<(), BoxError> + Send + Sync + 'static,
    {
        let commit = Arc::new(commit);
        self.work(async move |worker: &Self, job| {
            let prepared = prepare(job.clone()).await?;
            let commit = commit.clone();
            transaction(worker, job, move |tx, job| commit(tx, job, prepared)).await
        })
        .await
    }
}

/// Begins with the end of the delivery, writes, and commits.
async fn transaction(
    worker: &Worker<Sqlite>,
    job: Job,
    write: impl FnOnce(&Transaction<'_>, &Job) -> Result<(), BoxError> + Send + 'static,
) -> Result<(), Failure> {
    let database = &worker.inbox.database;
    let (finish, claim) = finish(&job, worker.keep_bodies);
    let running = Arc::new(AtomicBool::new(false));
    let _interrupt = InterruptOnDrop {
        running: running.clone(),
        handle: &database.interrupt,
    };
    let commit = move |connection: &mut Connection, given_up: &dyn Fn() -> bool| {
        let behavior = TransactionBehavior::Immediate;
        let tx = connection
            .transaction_with_behavior(behavior)
            .map_err(error)?;
        if query(&tx, &finish, &claim)?.is_empty() {
            return Err(Failure::ClaimLost);
        }
        running.store(true, Ordering::SeqCst);
        let written = catch_unwind(AssertUnwindSafe(|| write(&tx, &job)));
        running.store(false, Ordering::SeqCst);
        written.unwrap_or_else(|panic| resume_unwind(panic))?;
        // After its time limit, the delivery may be another worker's.
        if given_up() {
            return Err(Failure::ClaimLost);
        }
        Ok(tx.commit().map_err(error)?)
    };
    database.call(commit).await.map_err(Failure::from)?
}

/// Interrupts the statement of a handler that is dropped.
struct InterruptOnDrop<'a> {
    running: Arc<AtomicBool>,
    handle: &'a InterruptHandle,
}

impl Drop for InterruptOnDrop<'_> {
    fn drop(&mut self) {
        if self.running.load(Ordering::SeqCst) {
            self.handle.interrupt();
        }
    }
}

impl Sqlite {
    /// Runs a function with the connection, unless it is given up before: its future is dropped.
    /// A panic is resumed.
    async fn call<T: Send + 'static>(
        &self,
        function: impl FnOnce(&mut Connection, &dyn Fn() -> bool) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (sender, result) = oneshot::channel();
        let task = Box::new(move |connection: &mut Connection| {
            if !sender.is_closed() {
                let run = || function(connection, &|| sender.is_closed());
                let result = catch_unwind(AssertUnwindSafe(run));
                // Fails if it was given up.
                let _ = sender.send(result);
            }
        });
        let ended = |error: BoxError| Error::new(ErrorKind::Unavailable, error);
        self.tasks
            .send(task)
            .await
            .map_err(|error| ended(error.to_string().into()))?;
        let result = result.await.map_err(|error| ended(error.into()))?;
        Ok(result.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

impl Database for Sqlite {
    const SCHEMA: &str = include_str!("schema.sqlite.sql");
    const NOTIFIES: bool = false;

    fn connections(&self) -> usize {
        // While handlers prepare, they use none.
        usize::MAX
    }

    async fn create(&self) -> Result<(), Error> {
        /// The tables of version 1: one has no column for the owner.
        const IS_FIRST: &str = "SELECT count(*) > 0 AND NOT sum(name = 'owner')              FROM pragma_table_info('webhook_inbox')";
        let create = |connection: &mut Connection| {
            let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            if tx.query_row(IS_FIRST, [], |row| row.get(0))? {
                tx.execute_batch(include_str!("expand.sqlite.sql"))?;
            }
            tx.execute_batch(Self::SCHEMA)?;
            tx.commit()
        };
        self.call(move |connection, _| create(connection).map_err(error))
            .await?
    }

    async fn query(&self, statement: Statement, parameters: Vec<Value>) -> Result<Vec<Row>, Error> {
        self.call(move |connection, _| query(connection, &statement, &parameters))
            .await?
    }
}

fn query(
    connection: &Connection,
    statement: &str,
    parameters: &[Value],
) -> Result<Vec<Row>, Error> {
    const SQLITE_NOW: &str = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)";
    let statement = statement
        .replace("now_ms()", SQLITE_NOW)
        .replace(" FOR UPDATE SKIP LOCKED", "")
        .replace("encode(body, 'hex')", "body")
        .replace("body = ''", "body = x''")
        .replace('$', "?");
    let run = || {
        let mut statement = connection.prepare_cached(&statement)?;
        let columns = statement.column_count();
        let rows = statement.query_map(params_from_iter(parameters), |row| {
            let value = |column| match row.get_ref(column)? {
                ValueRef::Null => Ok(Value::Null),
                ValueRef::Integer(value) => Ok(Value::Int(value)),
                ValueRef::Blob(bytes) => Ok(Value::Bytes(bytes.to_vec())),
                text => Ok(Value::Text(text.as_str()?.to_owned())),
            };
            (0..columns).map(value).collect()
        });
        rows?.collect::<rusqlite::Result<_>>()
    };
    run().map_err(error)
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(value) => ValueRef::Integer(*value),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// SQLite does not wait for another connection that opens the new file at the same time.
fn use_write_ahead_log(connection: &Connection) -> rusqlite::Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let result = connection.pragma_update(None, "journal_mode", "wal");
        let is_busy =
            |error: &rusqlite::Error| error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy);
        if !result.as_ref().is_err_and(is_busy) || Instant::now() > deadline {
            return result;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn error(error: rusqlite::Error) -> Error {
    let kind = match error.sqlite_error_code() {
        Some(
            ErrorCode::CannotOpen | ErrorCode::OperationInterrupted | ErrorCode::SystemIoFailure,
        ) => ErrorKind::Unavailable,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => ErrorKind::Locked,
        Some(ErrorCode::DiskFull) => ErrorKind::DiskFull,
        Some(ErrorCode::ReadOnly) => ErrorKind::ReadOnly,
        Some(ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied) => {
            ErrorKind::Denied
        }
        _ if error.to_string().contains("no such table: webhook_inbox") => ErrorKind::NotMigrated,
        _ => ErrorKind::Database,
    };
    Error::new(kind, error)
}
