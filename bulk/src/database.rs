//! The database of a ledger: SQLite, of which one transaction at a time has the connection, or a pool of
//! PostgreSQL. `ledger.rs` and `worker.rs` run their statements with it, alone or in a `Transaction`,
//! and get rows as tuples. A transaction that is dropped before its commit is rolled back. How a
//! statement runs on either database is in `svc-sql`.

use serde::de::{DeserializeOwned, IgnoredAny};
#[cfg(feature = "sqlite")]
use svc_sql::sqlite::{self, Sqlite};
#[cfg(feature = "postgres")]
use svc_sql::{Borrowed, postgres, with_literals};
use svc_sql::{Error, Value, params, read};

use crate::LedgerError;

/// The tables, for both databases.
const SCHEMA: &str = include_str!("sql/schema.sql");

/// The database of a ledger.
#[derive(Clone)]
pub(crate) enum Database {
    /// With a lock that the one transaction holds.
    #[cfg(feature = "sqlite")]
    Sqlite(Sqlite, std::sync::Arc<tokio::sync::Mutex<()>>),
    #[cfg(feature = "postgres")]
    Postgres(deadpool_postgres::Pool),
}

/// A transaction, rolled back when it is dropped before its commit.
pub(crate) enum Transaction {
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteTransaction),
    /// Its connection is closed if it is dropped: what runs in it may still run in the server.
    #[cfg(feature = "postgres")]
    Postgres(Box<Borrowed<deadpool_postgres::Object>>),
}

#[cfg(feature = "sqlite")]
pub(crate) struct SqliteTransaction {
    sqlite: Sqlite,
    _lock: tokio::sync::OwnedMutexGuard<()>,
}

/// The failures that a commit survives.
#[derive(Clone, Copy)]
pub(crate) enum Durability {
    /// A crash of the machine.
    Full,
    /// A crash of the process; after one of the machine it may be missing, which is safe: a later
    /// commit with `Full` makes it durable.
    Process,
}

impl Database {
    /// Opens the file, or creates it with its tables.
    #[cfg(feature = "sqlite")]
    pub(crate) async fn sqlite(path: &std::path::Path) -> Result<Self, LedgerError> {
        /// How long a statement waits for another process that writes to the file.
        const BUSY: std::time::Duration = std::time::Duration::from_secs(10);

        let schema = SCHEMA
            .replace("{key}", "INTEGER PRIMARY KEY AUTOINCREMENT")
            .replace("{bytes}", "BLOB");
        let sqlite = Sqlite::open(path, "bulk-ledger", BUSY)?;
        let database = Self::Sqlite(sqlite, std::sync::Arc::default());
        let mut connection = database.connect().await?;
        let create = format!("PRAGMA foreign_keys = off; BEGIN IMMEDIATE; {schema}; COMMIT");
        connection.batch(create).await?;
        Ok(database)
    }

    /// Creates the tables, unless they exist.
    #[cfg(feature = "postgres")]
    pub(crate) async fn postgres(pool: deadpool_postgres::Pool) -> Result<Self, LedgerError> {
        /// `IF NOT EXISTS` alone fails if two processes create a table at the same time.
        const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtext('svc_bulk'))";
        /// The last table that is created.
        const FIND: &str = "SELECT 1 WHERE to_regclass('bulk_ledger') IS NOT NULL";

        let schema = SCHEMA
            .replace("{key}", "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY")
            .replace("{bytes}", "bytea");
        let database = Self::Postgres(pool);
        let mut tx = database.begin(Durability::Full).await?;
        tx.batch(LOCK.to_owned()).await?;
        // To create an index that exists would wait for the workers, and they for it.
        if !tx.any(FIND, params![]).await? {
            tx.batch(schema).await?;
        }
        tx.commit().await?;
        Ok(database)
    }

    pub(crate) async fn begin(&self, durability: Durability) -> Result<Transaction, LedgerError> {
        let begin = match (self, durability) {
            #[cfg(feature = "sqlite")]
            (Self::Sqlite(..), Durability::Full) => "PRAGMA synchronous = FULL; BEGIN IMMEDIATE",
            #[cfg(feature = "sqlite")]
            (Self::Sqlite(..), Durability::Process) => {
                "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE"
            }
            // The server may crash without its clients.
            #[cfg(feature = "postgres")]
            (Self::Postgres(_), _) => "BEGIN ISOLATION LEVEL READ COMMITTED",
        };
        let mut tx = self.connect().await?;
        tx.batch(begin.to_owned()).await?;
        Ok(tx)
    }

    /// Runs one statement that reads, and returns its rows as tuples.
    pub(crate) async fn query<T: DeserializeOwned>(
        &self,
        statement: &str,
        parameters: Vec<Value>,
    ) -> Result<Vec<T>, LedgerError> {
        let mut connection = self.connect().await?;
        let rows = connection.query(statement, parameters).await?;
        connection.give_back();
        Ok(rows)
    }

    /// The first row.
    pub(crate) async fn first<T: DeserializeOwned>(
        &self,
        statement: &str,
        parameters: Vec<Value>,
    ) -> Result<Option<T>, LedgerError> {
        let rows = self.query(statement, parameters).await?;
        Ok(rows.into_iter().next())
    }

    /// Runs one statement that writes. Returns how many rows it has changed.
    pub(crate) async fn execute(
        &self,
        statement: &str,
        parameters: Vec<Value>,
    ) -> Result<u64, LedgerError> {
        let parameters = vec![parameters];
        self.execute_each(Durability::Full, statement, parameters)
            .await
    }

    /// Runs a statement once for each list of parameters, in one transaction.
    pub(crate) async fn execute_each(
        &self,
        durability: Durability,
        statement: &str,
        parameters: Vec<Vec<Value>>,
    ) -> Result<u64, LedgerError> {
        let mut tx = self.begin(durability).await?;
        let changed = tx.execute_each(statement, parameters).await?;
        tx.commit().await?;
        Ok(changed)
    }

    /// A connection that has not begun a transaction.
    async fn connect(&self) -> Result<Transaction, LedgerError> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(sqlite, lock) => {
                let lock = std::sync::Arc::clone(lock).lock_owned().await;
                Ok(Transaction::Sqlite(SqliteTransaction {
                    sqlite: sqlite.clone(),
                    _lock: lock,
                }))
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => {
                let connection = postgres::acquire(pool).await?;
                Ok(Transaction::Postgres(Box::new(connection)))
            }
        }
    }
}

impl Transaction {
    pub(crate) async fn query<T: DeserializeOwned>(
        &mut self,
        statement: &str,
        parameters: Vec<Value>,
    ) -> Result<Vec<T>, LedgerError> {
        let rows = match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(tx) => tx.sqlite.query(statement, parameters).await?,
            #[cfg(feature = "postgres")]
            Self::Postgres(connection) => {
                let statement = with_literals(statement, &parameters);
                let found = connection.get().simple_query(&statement).await;
                postgres::rows(&found.map_err(Error::from)?)
            }
        };
        let rows = rows.into_iter().map(read).collect::<Result<_, _>>();
        Ok(rows?)
    }

    pub(crate) async fn first<T: DeserializeOwned>(
        &mut self,
        statement: &str,
        parameters: Vec<Value>,
    ) -> Result<Option<T>, LedgerError> {
        let rows = self.query(statement, parameters).await?;
        Ok(rows.into_iter().next())
    }

    /// Whether there is a row.
    pub(crate) async fn any(
        &mut self,
        statement: &str,
        parameters: Vec<Value>,
    ) -> Result<bool, LedgerError> {
        let rows = self.query::<IgnoredAny>(statement, parameters).await?;
        Ok(!rows.is_empty())
    }

    /// Returns how many rows were changed.
    pub(crate) async fn execute(
        &mut self,
        statement: &str,
        parameters: Vec<Value>,
    ) -> Result<u64, LedgerError> {
        self.execute_each(statement, vec![parameters]).await
    }

    /// Runs a statement once for each list of parameters.
    pub(crate) async fn execute_each(
        &mut self,
        statement: &str,
        parameters: Vec<Vec<Value>>,
    ) -> Result<u64, LedgerError> {
        if parameters.is_empty() {
            return Ok(0);
        }
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(tx) => {
                let statement = statement.to_owned();
                let changed = tx.sqlite.call(move |connection, _| {
                    sqlite::execute_each(connection, &statement, &parameters)
                });
                Ok(changed.await??)
            }
            // One message, and one round trip.
            #[cfg(feature = "postgres")]
            Self::Postgres(connection) => {
                let statements = parameters.iter().map(|each| with_literals(statement, each));
                let statements = statements.collect::<Vec<_>>().join("; ");
                let done = connection.get().simple_query(&statements).await;
                Ok(postgres::changed(&done.map_err(Error::from)?))
            }
        }
    }

    async fn batch(&mut self, statements: String) -> Result<(), LedgerError> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(tx) => {
                let run = tx
                    .sqlite
                    .call(move |connection, _| connection.execute_batch(&statements));
                run.await?.map_err(Error::from)?;
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(connection) => {
                let run = connection.get().batch_execute(&statements).await;
                run.map_err(Error::from)?;
            }
        }
        Ok(())
    }

    /// Commits, and returns the result. Also what has changed nothing ends so: a transaction that is
    /// dropped closes its connection to PostgreSQL.
    pub(crate) async fn end<T>(self, result: T) -> Result<T, LedgerError> {
        self.commit().await?;
        Ok(result)
    }

    pub(crate) async fn commit(mut self) -> Result<(), LedgerError> {
        self.batch("COMMIT".to_owned()).await?;
        self.give_back();
        Ok(())
    }

    fn give_back(self) {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => {}
            #[cfg(feature = "postgres")]
            Self::Postgres(connection) => connection.give_back(),
        }
    }
}

#[cfg(feature = "sqlite")]
impl Drop for SqliteTransaction {
    fn drop(&mut self) {
        self.sqlite.run(|connection| {
            // It was not committed.
            if !connection.is_autocommit() {
                let _ = connection.execute_batch("ROLLBACK");
            }
        });
    }
}
