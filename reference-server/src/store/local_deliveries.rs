//! The table `local_delivery`: messages for domains that are verified on this server, for
//! which `email.received` has not been emitted yet.

use crate::model::error::ApiError;
use crate::model::time::Millis;
use crate::model::worker::Worker;
use crate::store::{Reader, Tx};

/// Queues a message that was just stored.
pub(crate) fn insert(tx: &mut Tx<'_>, message: &str, sender: i64) -> Result<(), ApiError> {
    tx.execute("INSERT INTO local_delivery VALUES (?1, ?2, 0)", (message, sender))?;
    tx.worker_due(Worker::Local, tx.now);
    Ok(())
}

/// The ids of the queued messages, the oldest first, without those that are set aside.
pub(crate) fn list(reader: Reader<'_>, limit: i64) -> Result<Vec<String>, ApiError> {
    let sql = "SELECT message FROM local_delivery WHERE is_set_aside = 0 ORDER BY message LIMIT ?1";
    let mut statement = reader.statement(sql)?;
    let rows = statement.query_map([limit], |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Sets a message aside: it stays in its mailbox, and is announced to no webhook.
pub(super) fn set_aside(tx: &Tx<'_>, message: &str) -> Result<(), ApiError> {
    let sql = "UPDATE local_delivery SET is_set_aside = 1 WHERE message = ?1";
    tx.execute(sql, [message])?;
    Ok(())
}

/// The email and the recipient of a queued message.
pub(crate) fn email_and_recipient(
    reader: Reader<'_>,
    message: &str,
) -> Result<Option<(Option<String>, String)>, ApiError> {
    let sql = "SELECT email, recipient FROM local_delivery JOIN message
               ON message.organization = local_delivery.organization AND id = message
               WHERE message = ?1";
    Ok(reader.find(sql, [message], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

/// The organization that sent a queued message.
pub(super) fn organization(reader: Reader<'_>, message: &str) -> Result<Option<i64>, ApiError> {
    let sql = "SELECT organization FROM local_delivery WHERE message = ?1";
    Ok(reader.find(sql, [message], |row| row.get(0))?)
}

/// Removes a message from the queue. Returns the organization that sent it.
pub(crate) fn take(tx: &Tx<'_>, message: &str) -> Result<Option<i64>, ApiError> {
    let sender = organization(tx.reader(), message)?;
    tx.execute("DELETE FROM local_delivery WHERE message = ?1", [message])?;
    Ok(sender)
}

/// When the queue has work: at once, or never.
pub(crate) fn next(reader: Reader<'_>) -> Result<Option<(Worker, Millis)>, ApiError> {
    let sql = "SELECT 1 FROM local_delivery WHERE is_set_aside = 0 LIMIT 1";
    let pending = reader.find(sql, [], |_| Ok(()))?;
    Ok(pending.map(|()| (Worker::Local, Millis::MIN)))
}
