//! PostgreSQL with sqlx: connections that are closed unless they are given back, statements in a
//! transaction of their own, and their rows and errors.

use std::borrow::Cow;

use sqlx::error::DatabaseError;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgRow;
use sqlx::{Executor as _, PgConnection, PgPool, Postgres, QueryBuilder, Row as _, ValueRef as _};

use svc_sql::{Borrowed, ErrorKind, Row, Value, single};

use crate::Error;

/// A connection of the pool.
pub(crate) async fn acquire(pool: &PgPool) -> Result<Borrowed<PoolConnection<Postgres>>, Error> {
    let connection = pool.acquire().await.map_err(failed)?;
    Ok(Borrowed::new(connection, |closed| drop(closed.detach())))
}

/// Runs one statement in a transaction of its own, in one round trip.
pub(crate) async fn query(
    pool: &PgPool,
    statement: &str,
    parameters: &[Value],
) -> Result<Vec<Row>, Error> {
    let mut connection = acquire(pool).await?;
    let text = QueryBuilder::<Postgres>::new(single(statement, parameters));
    let rows = connection
        .get()
        .fetch_all(sqlx::raw_sql(text.sql()))
        .await
        .map_err(failed)?;
    let rows = rows.iter().map(row_of).collect::<Result<_, _>>();
    connection.give_back();
    rows.map_err(failed)
}

/// The same. Returns how many rows it has changed.
pub(crate) async fn execute(
    pool: &PgPool,
    statement: &str,
    parameters: &[Value],
) -> Result<u64, Error> {
    let mut connection = acquire(pool).await?;
    let changed = run(connection.get(), single(statement, parameters))
        .await
        .map_err(failed)?;
    connection.give_back();
    Ok(changed)
}

/// Runs statements without parameters, in one round trip. Returns how many rows they have changed.
pub(crate) async fn run(
    connection: &mut PgConnection,
    statements: String,
) -> Result<u64, sqlx::Error> {
    // It makes, in each version of sqlx, of a text what the version accepts as a statement.
    let text = QueryBuilder::<Postgres>::new(statements);
    let done = connection.execute(sqlx::raw_sql(text.sql())).await?;
    Ok(done.rows_affected())
}

fn row_of(row: &PgRow) -> Result<Row, sqlx::Error> {
    let value = |column| {
        let value = row.try_get_raw(column)?;
        if value.is_null() {
            return Ok(Value::Null);
        }
        let text = value.as_str().map_err(sqlx::Error::Decode)?;
        Ok(Value::Text(text.to_owned()))
    };
    (0..row.len()).map(value).collect()
}

/// The SQLSTATE of an error.
pub(crate) fn code(error: &sqlx::Error) -> Option<String> {
    let code = error
        .as_database_error()
        .and_then(<dyn DatabaseError>::code);
    code.map(Cow::into_owned)
}

/// The error of an operation that was not in a handler's transaction.
pub(crate) fn failed(error: sqlx::Error) -> Error {
    match error {
        sqlx::Error::PoolTimedOut => Error::new(ErrorKind::NoConnection, error),
        _ => Error::postgres(code(&error).as_deref(), error),
    }
}
