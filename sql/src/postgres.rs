//! PostgreSQL with tokio-postgres, through a pool of deadpool-postgres: connections that are closed unless
//! they are given back, statements in a transaction of their own, and what the responses of the simple
//! query protocol contain.

use std::time::Duration;

use deadpool_postgres::tokio_postgres::error::SqlState;
use deadpool_postgres::tokio_postgres::{self, SimpleQueryMessage, SimpleQueryRow};
use deadpool_postgres::{Object, Pool, PoolError};
use tokio::time::timeout;

use crate::{Borrowed, Error, ErrorKind, Row, Value, single};

/// After this time, no response will come: the network has lost the connection.
const RESPONSE: Duration = Duration::from_millis(4500);

/// A connection of the pool.
///
/// # Errors
///
/// If the server cannot be reached or refuses it, or the pool has none.
pub async fn acquire(pool: &Pool) -> Result<Borrowed<Object>, Error> {
    let connection = pool.get().await.map_err(|error| match error {
        PoolError::Backend(error) => Error::from(error),
        PoolError::Timeout(_) => Error::new(ErrorKind::NoConnection, error),
        error => Error::new(ErrorKind::Unavailable, error),
    })?;
    Ok(Borrowed::new(connection, |closed| {
        drop(Object::take(closed));
    }))
}

/// Runs one statement in a transaction of its own, in one round trip. For what the response contains,
/// see [`rows`] and [`changed`].
///
/// # Errors
///
/// The error of PostgreSQL, or [`Unavailable`](ErrorKind::Unavailable) without a response: then the
/// pool loses all its connections.
pub async fn run(
    pool: &Pool,
    statement: &str,
    parameters: &[Value],
) -> Result<Vec<SimpleQueryMessage>, Error> {
    let mut connection = acquire(pool).await?;
    let text = single(statement, parameters);
    let response = timeout(RESPONSE, connection.get().simple_query(&text)).await;
    let messages = response.map_err(|elapsed| {
        // What has lost this connection has lost those that wait in the pool, too.
        pool.retain(|_, _| false);
        Error::new(ErrorKind::Unavailable, elapsed)
    })??;
    connection.give_back();
    Ok(messages)
}

/// The rows of a response.
pub fn rows(messages: &[SimpleQueryMessage]) -> Vec<Row> {
    let value = |row: &SimpleQueryRow, column| {
        let text = row.get(column).map(str::to_owned);
        text.map_or(Value::Null, Value::Text)
    };
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|at| value(row, at)).collect()),
        _ => None,
    });
    rows.collect()
}

/// How many rows the statements of a response have changed.
pub fn changed(messages: &[SimpleQueryMessage]) -> u64 {
    let counts = messages.iter().map(|message| match message {
        SimpleQueryMessage::CommandComplete(count) => *count,
        _ => 0,
    });
    counts.sum()
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        let code = error.code().cloned();
        Self::postgres(code.as_ref().map(SqlState::code), error)
    }
}
