//! The table `relay`: emails with recipients that have not been handed over to the relay.

use crate::model::error::ApiError;
use crate::model::time::Millis;
use crate::model::worker::Worker;
use crate::store::{Reader, Tx};

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
pub(crate) fn first(reader: Reader<'_>) -> Result<Option<(String, Millis)>, ApiError> {
    let sql = "SELECT email, due_at FROM relay ORDER BY due_at LIMIT 1";
    Ok(reader.find(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

/// How many retries an email has had; `None` if it is not in the queue.
pub(crate) fn retries(tx: &Tx<'_>, email: &str) -> Result<Option<i64>, ApiError> {
    Ok(tx.find("SELECT retry FROM relay WHERE email = ?1", [email], |row| row.get(0))?)
}

/// The positions of the recipients whose message the relay may have, as far as their outcomes are
/// not recorded: the last server ended before the relay confirmed the message.
pub(crate) fn handed_over(reader: Reader<'_>, email: &str) -> Result<Vec<usize>, ApiError> {
    let sql = "SELECT handed_over FROM relay WHERE email = ?1";
    let text: Option<Option<String>> = reader.find(sql, [email], |row| row.get(0))?;
    let positions = text.flatten().map(|text| serde_json::from_str(&text)).transpose();
    Ok(positions.map_err(ApiError::internal)?.unwrap_or_default())
}

/// Records that the message for the recipients at these positions is about to be at the relay;
/// none if the outcomes are recorded.
pub(crate) fn set_handed_over(
    tx: &Tx<'_>,
    email: &str,
    positions: &[usize],
) -> Result<(), ApiError> {
    let text = (!positions.is_empty()).then(|| serde_json::to_string(positions)).transpose();
    let sql = "UPDATE relay SET handed_over = ?2 WHERE email = ?1";
    tx.execute(sql, (email, text.map_err(ApiError::internal)?))?;
    Ok(())
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
