//! The table `relay`: emails with recipients that have not been handed over to the relay.

use rusqlite::Connection;

use crate::model::error::ApiError;
use crate::model::time::Millis;
use crate::model::worker::Worker;
use crate::store::{self, Tx};

/// Queues an email, due now.
pub(crate) fn put(tx: &mut Tx<'_>, organization: i64, email: &str) -> Result<(), ApiError> {
    tx.execute(
        "INSERT OR REPLACE INTO relay (email, organization, due_at, retry) VALUES (?1, ?2, ?3, 0)",
        (email, organization, tx.now),
    )?;
    tx.worker_due(Worker::Relay, tx.now);
    Ok(())
}

/// The email that is due first, with its time.
pub(crate) fn first(connection: &Connection) -> Result<Option<(String, Millis)>, ApiError> {
    let sql = "SELECT email, due_at FROM relay ORDER BY due_at LIMIT 1";
    Ok(store::find(connection, sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

/// How many retries an email has had; `None` if it is not in the queue.
pub(crate) fn retries(tx: &Tx<'_>, email: &str) -> Result<Option<i64>, ApiError> {
    Ok(tx.find("SELECT retry FROM relay WHERE email = ?1", [email], |row| row.get(0))?)
}

/// Schedules a retry.
pub(crate) fn retry(
    tx: &mut Tx<'_>,
    email: &str,
    due_at: Millis,
    retry: i64,
) -> Result<(), ApiError> {
    let sql = "UPDATE relay SET due_at = ?2, retry = ?3 WHERE email = ?1";
    tx.execute(sql, (email, due_at, retry))?;
    tx.worker_due(Worker::Relay, due_at);
    Ok(())
}

pub(crate) fn delete(tx: &Tx<'_>, email: &str) -> Result<(), ApiError> {
    tx.execute("DELETE FROM relay WHERE email = ?1", [email])?;
    Ok(())
}
