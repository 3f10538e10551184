//! A ledger in PostgreSQL: creates the tables, and runs the transactions of `database.rs`, each on
//! a connection of its own from the pool. Only a commit gives the connection back. After anything
//! else it is closed, because a statement may still run in the server. Errors that may pass, such
//! as a lost connection, are `LedgerErrorKind::Unavailable`.

use deadpool_postgres::tokio_postgres::error::SqlState;
use deadpool_postgres::tokio_postgres::types::{ToSql, Type};
use deadpool_postgres::tokio_postgres::{self, Row as PgRow};
use deadpool_postgres::{Object, Pool, PoolError};
use futures_util::future::try_join_all;

use crate::database::{Row, Value};
use crate::{LedgerError, LedgerErrorKind};

/// The clock of the server, in milliseconds since 1970.
const PG_NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// `IF NOT EXISTS` alone fails if two processes create a table at the same time.
const LOCK_SCHEMA: &str = "SELECT pg_advisory_xact_lock(hashtext('svc_bulk'))";

/// The last table that is created.
const HAVE_SCHEMA: &str = "SELECT to_regclass('bulk_ledger')::text";

/// A transaction with a connection of its own, which is closed if it is dropped halfway: what runs
/// in it may still run in the server.
pub(crate) struct PostgresTransaction {
    connection: Option<Object>,
}

/// Creates the tables, unless they exist.
pub(crate) async fn create_tables(pool: &Pool) -> Result<(), LedgerError> {
    let mut tx = begin(pool).await?;
    tx.query(LOCK_SCHEMA, Vec::new()).await?;
    // To create an index that exists would wait for the workers, and they for it.
    let found = tx.query(HAVE_SCHEMA, Vec::new()).await?;
    if found.iter().flatten().any(|name| *name != Value::Null) {
        return tx.commit().await;
    }
    let schema = include_str!("schema.postgres.sql");
    tx.connection()?
        .batch_execute(schema)
        .await
        .map_err(error)?;
    tx.commit().await
}

pub(crate) async fn begin(pool: &Pool) -> Result<PostgresTransaction, LedgerError> {
    let connection = pool.get().await.map_err(|it| match it {
        PoolError::Backend(it) => error(it),
        it => LedgerError::new(LedgerErrorKind::Unavailable, it),
    })?;
    let transaction = PostgresTransaction {
        connection: Some(connection),
    };
    transaction
        .connection()?
        .batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        .await
        .map_err(error)?;
    Ok(transaction)
}

impl PostgresTransaction {
    fn connection(&self) -> Result<&Object, LedgerError> {
        let ended = || LedgerError::new(LedgerErrorKind::Unavailable, "the transaction has ended");
        self.connection.as_ref().ok_or_else(ended)
    }

    pub(crate) async fn query(
        &mut self,
        statement: &str,
        parameters: Vec<Value>,
    ) -> Result<Vec<Row>, LedgerError> {
        let statement = statement.replace("NOW()", PG_NOW);
        let parameters = parameters.iter().map(typed).collect::<Vec<_>>();
        let rows = self
            .connection()?
            .query_typed(&statement, &parameters)
            .await
            .map_err(error)?;
        let values = |row: &PgRow| (0..row.len()).map(|column| value(row, column)).collect();
        rows.iter()
            .map(values)
            .collect::<Result<_, _>>()
            .map_err(error)
    }

    pub(crate) async fn each(
        &mut self,
        statement: &str,
        parameters: Vec<Vec<Value>>,
    ) -> Result<(), LedgerError> {
        let statement = statement.replace("NOW()", PG_NOW);
        let parameters = parameters
            .iter()
            .map(|each| each.iter().map(typed).collect::<Vec<_>>())
            .collect::<Vec<_>>();
        let types = |each: &Vec<(&(dyn ToSql + Sync), Type)>| {
            each.iter().map(|(_, it)| it.clone()).collect::<Vec<_>>()
        };
        let connection = self.connection()?;
        let types = parameters.first().map(types).unwrap_or_default();
        let prepared = connection
            .prepare_typed(&statement, &types)
            .await
            .map_err(error)?;
        // In one go, and in their order: the connection does not wait for each of them.
        let runs = parameters.iter().map(|each| {
            let values = each.iter().map(|(value, _)| *value).collect::<Vec<_>>();
            let prepared = &prepared;
            async move { connection.execute(prepared, &values).await }
        });
        try_join_all(runs).await.map_err(error)?;
        Ok(())
    }

    pub(crate) async fn commit(mut self) -> Result<(), LedgerError> {
        let ended = self.connection()?.batch_execute("COMMIT").await;
        ended.map_err(error)?;
        self.connection = None;
        Ok(())
    }
}

impl Drop for PostgresTransaction {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(Object::take(connection));
        }
    }
}

fn typed(value: &Value) -> (&(dyn ToSql + Sync), Type) {
    match value {
        Value::Null => (&None::<&str>, Type::TEXT),
        Value::Int(value) => (value, Type::INT8),
        Value::Text(text) => (text, Type::TEXT),
        Value::Bytes(bytes) => (bytes, Type::BYTEA),
    }
}

fn value(row: &PgRow, column: usize) -> Result<Value, tokio_postgres::Error> {
    let value = match *row.columns()[column].type_() {
        Type::INT8 => row.try_get::<_, Option<_>>(column)?.map(Value::Int),
        Type::BYTEA => row.try_get::<_, Option<_>>(column)?.map(Value::Bytes),
        Type::VOID => None,
        _ => row.try_get::<_, Option<_>>(column)?.map(Value::Text),
    };
    Ok(value.unwrap_or(Value::Null))
}

fn error(error: tokio_postgres::Error) -> LedgerError {
    let kind = match error.code() {
        // Connections that are lost have no code.
        None => LedgerErrorKind::Unavailable,
        Some(code) if is_temporary(code) => LedgerErrorKind::Unavailable,
        Some(_) => LedgerErrorKind::Database,
    };
    LedgerError::new(kind, error)
}

fn is_temporary(code: &SqlState) -> bool {
    // Connection exceptions, conflicts of transactions, scarce resources, stops and starts of the
    // server, and one that is still a replica.
    let classes = ["08", "40", "53", "57"];
    classes.iter().any(|class| code.code().starts_with(class)) || code.code() == "25006"
}
