//! SQLite with rusqlite: a thread owns the connection and runs the closures that `call` sends to it, one
//! after the other. `query` and `execute_each` run a statement of PostgreSQL's SQL, which `translated`
//! turns into SQLite's.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, InterruptHandle, ToSql, params_from_iter};
use tokio::sync::oneshot;

use crate::{Error, ErrorKind, Row, Value};

/// One connection, because SQLite has one writer at a time, in a thread of its own: what never
/// returns does not keep the program from ending. The thread ends with the last clone.
#[derive(Clone)]
pub struct Sqlite {
    tasks: mpsc::Sender<Task>,
    interrupt: Arc<InterruptHandle>,
}

type Task = Box<dyn FnOnce(&mut Connection) + Send>;

impl Sqlite {
    /// Opens a file, or creates it, in a thread of this name. A statement waits as long as `patience`
    /// for other processes that write.
    ///
    /// The journal mode is WAL, so that readers and the writer do not wait for each other, and commits
    /// are durable (`synchronous=FULL`).
    ///
    /// # Errors
    ///
    /// The error of SQLite.
    pub fn open(path: &Path, thread: &str, patience: Duration) -> Result<Self, Error> {
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(patience)?;
        use_write_ahead_log(&connection, patience)?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.set_prepared_statement_cache_capacity(64);

        let interrupt = Arc::new(connection.get_interrupt_handle());
        let (tasks, queue) = mpsc::channel::<Task>();
        let work = move || {
            while let Ok(task) = queue.recv() {
                task(&mut connection);
            }
        };

        std::thread::Builder::new()
            .name(thread.to_owned())
            .spawn(work)
            .map_err(|error| Error::new(ErrorKind::Unavailable, error))?;
        Ok(Self { tasks, interrupt })
    }

    /// Runs a function with the connection, unless it is given up before: its future is dropped. The
    /// function can ask whether it was. A panic is resumed.
    ///
    /// # Errors
    ///
    /// If the thread has ended.
    pub async fn call<T: Send + 'static>(
        &self,
        function: impl FnOnce(&mut Connection, &dyn Fn() -> bool) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (sender, result) = oneshot::channel();
        self.run(move |connection| {
            if sender.is_closed() {
                return;
            }
            let run = || function(connection, &|| sender.is_closed());
            let result = catch_unwind(AssertUnwindSafe(run));
            // Fails if it was given up.
            let _ = sender.send(result);
        });
        let ended = |error| Error::new(ErrorKind::Unavailable, error);
        let result = result.await.map_err(ended)?;
        Ok(result.unwrap_or_else(|panic| resume_unwind(panic)))
    }

    /// Runs a function with the connection, and does not wait for it.
    pub fn run(&self, function: impl FnOnce(&mut Connection) + Send + 'static) {
        // Fails if the thread has ended, and its connection with it.
        let _ = self.tasks.send(Box::new(function));
    }

    /// Runs one statement.
    ///
    /// # Errors
    ///
    /// The error of SQLite.
    pub async fn query(&self, statement: &str, parameters: Vec<Value>) -> Result<Vec<Row>, Error> {
        let statement = statement.to_owned();
        self.call(move |connection, _| query(connection, &statement, &parameters))
            .await?
    }

    /// Runs one statement that returns nothing. Returns how many rows it has changed.
    ///
    /// # Errors
    ///
    /// The error of SQLite.
    pub async fn execute(&self, statement: &str, parameters: Vec<Value>) -> Result<u64, Error> {
        let statement = statement.to_owned();
        self.call(move |connection, _| execute_each(connection, &statement, &[parameters]))
            .await?
    }

    /// Interrupts the statement that runs.
    pub fn interrupt(&self) {
        self.interrupt.interrupt();
    }
}

/// Runs one statement.
///
/// # Errors
///
/// The error of SQLite.
pub fn query(
    connection: &Connection,
    statement: &str,
    parameters: &[Value],
) -> Result<Vec<Row>, Error> {
    let mut statement = connection.prepare_cached(&translated(statement))?;
    let columns = statement.column_count();
    let rows = statement.query_map(params_from_iter(parameters), |row| {
        let value = |column| match row.get_ref(column)? {
            ValueRef::Null => Ok(Value::Null),
            ValueRef::Integer(value) => Ok(Value::Int(value)),
            ValueRef::Blob(bytes) => Ok(Value::Bytes(bytes.to_vec())),
            text => Ok(Value::Text(text.as_str()?.to_owned())),
        };
        (0..columns).map(value).collect()
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Runs a statement that returns nothing, once for each list of parameters. Returns how many rows were
/// changed.
///
/// # Errors
///
/// The error of SQLite.
pub fn execute_each(
    connection: &Connection,
    statement: &str,
    parameters: &[Vec<Value>],
) -> Result<u64, Error> {
    let mut statement = connection.prepare_cached(&translated(statement))?;
    let mut changed = 0;
    for parameters in parameters {
        changed += statement.execute(params_from_iter(parameters))? as u64;
    }
    Ok(changed)
}

fn translated(statement: &str) -> String {
    const NOW: &str = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)";
    statement
        .replace("now_ms()", NOW)
        .replace("FOR UPDATE SKIP LOCKED", "")
        .replace("FOR UPDATE", "")
        .replace("FOR KEY SHARE", "")
        .replace("encode(", "(")
        .replace(", 'hex')", ")")
        .replace("body = ''", "body = x''")
        .replace('$', "?")
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
fn use_write_ahead_log(connection: &Connection, patience: Duration) -> rusqlite::Result<()> {
    let deadline = Instant::now() + patience;
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

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        use ErrorCode as Code;
        let kind = match error.sqlite_error_code() {
            Some(Code::CannotOpen | Code::OperationInterrupted | Code::SystemIoFailure) => {
                ErrorKind::Unavailable
            }
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => ErrorKind::Locked,
            Some(Code::DiskFull) => ErrorKind::DiskFull,
            Some(Code::ReadOnly) => ErrorKind::ReadOnly,
            Some(Code::PermissionDenied | Code::AuthorizationForStatementDenied) => {
                ErrorKind::Denied
            }
            _ if error.to_string().contains("no such table: ") => ErrorKind::NotMigrated,
            _ => ErrorKind::Database,
        };
        Self::new(kind, error)
    }
}
