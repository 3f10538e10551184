//! One way to run SQL on SQLite and PostgreSQL. The statements are PostgreSQL's, with `NOW()` for
//! the database's clock in milliseconds; `sqlite.rs` translates them.

use crate::LedgerError;
#[cfg(feature = "postgres")]
use crate::postgres::{self, PostgresTransaction};
#[cfg(feature = "sqlite")]
use crate::sqlite::{Sqlite, SqliteTransaction};

/// The database of a ledger.
#[derive(Clone)]
pub(crate) enum Database {
    #[cfg(feature = "sqlite")]
    Sqlite(Sqlite),
    #[cfg(feature = "postgres")]
    Postgres(deadpool_postgres::Pool),
}

/// A transaction, rolled back when it is dropped before its commit.
pub(crate) enum Transaction {
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteTransaction),
    #[cfg(feature = "postgres")]
    Postgres(PostgresTransaction),
}

/// A parameter or a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Of a text.
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

pub(crate) type Row = Vec<Value>;

/// What a commit survives.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Durability {
    /// A crash of the machine.
    Full,
    /// A crash of the process; after one of the machine it may be missing, which is safe: a later
    /// commit with `Full` makes it durable.
    Process,
}

impl Database {
    pub(crate) async fn begin(&self, durability: Durability) -> Result<Transaction, LedgerError> {
        match (self, durability) {
            #[cfg(feature = "sqlite")]
            (Self::Sqlite(sqlite), durability) => {
                Ok(Transaction::Sqlite(sqlite.begin(durability).await?))
            }
            // The server may crash without its clients.
            #[cfg(feature = "postgres")]
            (Self::Postgres(pool), _) => Ok(Transaction::Postgres(postgres::begin(pool).await?)),
        }
    }

    /// Runs one statement in a transaction of its own.
    pub(crate) async fn query(
        &self,
        statement: &str,
        parameters: Vec<Value>,
    ) -> Result<Vec<Row>, LedgerError> {
        #[cfg(feature = "sqlite")]
        if let Self::Sqlite(sqlite) = self
            && statement.starts_with("SELECT")
        {
            // Without the lock of a writer.
            return sqlite.read(statement, parameters).await;
        }
        let mut tx = self.begin(Durability::Full).await?;
        let rows = tx.query(statement, parameters).await?;
        tx.commit().await?;
        Ok(rows)
    }
}

impl Transaction {
    pub(crate) async fn query(
        &mut self,
        statement: &str,
        parameters: Vec<Value>,
    ) -> Result<Vec<Row>, LedgerError> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(tx) => tx.query(statement, parameters).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => tx.query(statement, parameters).await,
        }
    }

    /// Runs a statement once for each list of parameters.
    pub(crate) async fn each(
        &mut self,
        statement: &str,
        parameters: Vec<Vec<Value>>,
    ) -> Result<(), LedgerError> {
        if parameters.is_empty() {
            return Ok(());
        }
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(tx) => tx.each(statement, parameters).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => tx.each(statement, parameters).await,
        }
    }

    pub(crate) async fn commit(self) -> Result<(), LedgerError> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(tx) => tx.commit().await,
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => tx.commit().await,
        }
    }
}

impl Value {
    /// Zero for other values.
    pub(crate) fn int(&self) -> i64 {
        if let Self::Int(value) = self {
            *value
        } else {
            0
        }
    }

    /// `None` for other values.
    pub(crate) fn text(self) -> Option<String> {
        if let Self::Text(text) = self {
            Some(text)
        } else {
            None
        }
    }

    pub(crate) fn option(text: Option<&str>) -> Self {
        text.map_or(Self::Null, Self::from)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        // PostgreSQL does not store NUL in a text.
        Self::Text(text.replace('\0', "\u{fffd}"))
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}
