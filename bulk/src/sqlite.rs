//! A ledger in a SQLite file: one connection, on a thread that runs the closures that `call` sends
//! to it. `database.rs` calls `Sqlite::begin` and `read`. All clones share the connection, so a
//! transaction holds `lock` until it ends. One that is dropped queues its rollback before it
//! releases the lock. The statements are PostgreSQL's; `translated` turns them into SQLite's.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, ToSql, params_from_iter};
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};

use crate::database::{Durability, Row, Value};
use crate::{LedgerError, LedgerErrorKind};

/// How long a statement waits for another process that writes.
const BUSY: Duration = Duration::from_secs(10);

/// One connection, because SQLite has one writer at a time, in a thread of its own, which ends with
/// the last clone.
#[derive(Clone)]
pub(crate) struct Sqlite {
    tasks: mpsc::Sender<Task>,
    /// Held by the one transaction.
    lock: Arc<Mutex<()>>,
}

type Task = Box<dyn FnOnce(&mut Connection) + Send>;

pub(crate) struct SqliteTransaction {
    tasks: mpsc::Sender<Task>,
    is_open: bool,
    _lock: OwnedMutexGuard<()>,
}

impl Sqlite {
    /// Opens the file, or creates it with its tables.
    pub(crate) fn open(path: &Path) -> Result<Self, LedgerError> {
        let connection = connect(path).map_err(error)?;
        let (tasks, queue) = mpsc::channel::<Task>();
        let work = move || {
            let mut connection = connection;
            while let Ok(task) = queue.recv() {
                task(&mut connection);
            }
        };
        std::thread::Builder::new()
            .name("bulk-ledger".to_owned())
            .spawn(work)
            .map_err(|error| LedgerError::new(LedgerErrorKind::Unavailable, error))?;
        Ok(Self {
            tasks,
            lock: Arc::default(),
        })
    }

    pub(crate) async fn begin(
        &self,
        durability: Durability,
    ) -> Result<SqliteTransaction, LedgerError> {
        let lock = Arc::clone(&self.lock).lock_owned().await;
        let transaction = SqliteTransaction {
            tasks: self.tasks.clone(),
            is_open: true,
            _lock: lock,
        };
        let synchronous = match durability {
            Durability::Full => "PRAGMA synchronous = FULL; BEGIN IMMEDIATE",
            Durability::Process => "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE",
        };
        call(&self.tasks, move |connection| {
            connection.execute_batch(synchronous)
        })
        .await?;
        Ok(transaction)
    }

    pub(crate) async fn read(
        &self,
        statement: &str,
        parameters: Vec<Value>,
    ) -> Result<Vec<Row>, LedgerError> {
        let _lock = self.lock.lock().await;
        let statement = translated(statement);
        call(&self.tasks, move |connection| {
            query(connection, &statement, &parameters)
        })
        .await
    }
}

impl SqliteTransaction {
    pub(crate) async fn query(
        &mut self,
        statement: &str,
        parameters: Vec<Value>,
    ) -> Result<Vec<Row>, LedgerError> {
        let statement = translated(statement);
        call(&self.tasks, move |connection| {
            query(connection, &statement, &parameters)
        })
        .await
    }

    pub(crate) async fn each(
        &mut self,
        statement: &str,
        parameters: Vec<Vec<Value>>,
    ) -> Result<(), LedgerError> {
        let statement = translated(statement);
        call(&self.tasks, move |connection| {
            let mut statement = connection.prepare_cached(&statement)?;
            for parameters in &parameters {
                statement.execute(params_from_iter(parameters))?;
            }
            Ok(())
        })
        .await
    }

    pub(crate) async fn commit(mut self) -> Result<(), LedgerError> {
        call(&self.tasks, |connection| connection.execute_batch("COMMIT")).await?;
        self.is_open = false;
        Ok(())
    }
}

impl Drop for SqliteTransaction {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let roll_back = |connection: &mut Connection| {
            if !connection.is_autocommit() {
                let _ = connection.execute_batch("ROLLBACK");
            }
        };
        // Fails if the thread has ended, and its connection with it.
        let _ = self.tasks.send(Box::new(roll_back));
    }
}

/// Runs a function with the connection.
async fn call<T: Send + 'static>(
    tasks: &mpsc::Sender<Task>,
    function: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
) -> Result<T, LedgerError> {
    let (sender, result) = oneshot::channel();
    let task = move |connection: &mut Connection| {
        // Fails if it was given up.
        let _ = sender.send(function(connection));
    };
    let ended = || LedgerError::new(LedgerErrorKind::Unavailable, "its thread has ended");
    tasks.send(Box::new(task)).map_err(|_| ended())?;
    result.await.map_err(|_| ended())?.map_err(error)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    use_write_ahead_log(&connection)?;
    connection.pragma_update(None, "foreign_keys", false)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE; {}; COMMIT",
        include_str!("schema.sqlite.sql")
    ))?;
    Ok(connection)
}

fn translated(statement: &str) -> String {
    const SQLITE_NOW: &str = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)";
    statement
        .replace("NOW()", SQLITE_NOW)
        .replace(" FOR UPDATE SKIP LOCKED", "")
        .replace(" FOR UPDATE", "")
        .replace(" FOR KEY SHARE", "")
        .replace('$', "?")
}

fn query(
    connection: &Connection,
    statement: &str,
    parameters: &[Value],
) -> rusqlite::Result<Vec<Row>> {
    let mut statement = connection.prepare_cached(statement)?;
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
    rows.collect()
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
    let deadline = Instant::now() + BUSY;
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

fn error(error: rusqlite::Error) -> LedgerError {
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => LedgerErrorKind::Unavailable,
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => LedgerErrorKind::OtherSchema,
        _ => LedgerErrorKind::Database,
    };
    LedgerError::new(kind, error)
}
