//! The table `pending_event`: events with deliveries that have not been written yet.

use crate::model::error::ApiError;
use crate::model::id::{self, Prefix};
use crate::model::time::Millis;
use crate::model::worker::Worker;
use crate::store::{Reader, Tx, bodies};

pub(crate) struct PendingEvent {
    pub(crate) organization: i64,
    pub(crate) id: String,
    pub(crate) event: String,
    pub(crate) email: Option<String>,
    pub(crate) created_at: Millis,
    /// The id of the shared bytes before `data`.
    pub(crate) shared: Option<i64>,
    pub(crate) data: Vec<u8>,
    /// The webhooks with ids after this one, up to `last`, have no delivery yet.
    pub(crate) after: String,
    pub(crate) last: String,
}

/// An event that no delivery has been written for.
pub(crate) struct NewPendingEvent<'a> {
    pub(crate) organization: i64,
    pub(crate) event: &'a str,
    /// The email that it is about.
    pub(crate) email: Option<&'a str>,
    pub(crate) shared: Option<i64>,
    pub(crate) data: &'a [u8],
    /// The id of the newest webhook.
    pub(crate) last: &'a str,
}

/// Stores an event.
pub(crate) fn insert(tx: &mut Tx<'_>, new: &NewPendingEvent<'_>) -> Result<(), ApiError> {
    tx.execute(
        "INSERT INTO pending_event (organization, id, event, created_at, shared, data, after, last,
                                    email)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, '', ?7, ?8)",
        (
            new.organization,
            id::new(Prefix::Delivery),
            new.event,
            tx.now,
            new.shared,
            new.data,
            new.last,
            new.email,
        ),
    )?;
    tx.worker_due(Worker::Events, tx.now);
    Ok(())
}

/// The oldest event of the next organization after this one, in a circle.
pub(crate) fn next_after(
    reader: Reader<'_>,
    organization: i64,
) -> Result<Option<PendingEvent>, ApiError> {
    let next = first_after(reader, organization)?;
    if next.is_some() { Ok(next) } else { first_after(reader, i64::MIN) }
}

fn first_after(reader: Reader<'_>, organization: i64) -> Result<Option<PendingEvent>, ApiError> {
    let sql = "SELECT organization, id, event, created_at, shared, data, after, last, email
               FROM pending_event WHERE organization > ?1 ORDER BY organization, id LIMIT 1";
    Ok(reader.find(sql, [organization], |row| {
        Ok(PendingEvent {
            organization: row.get(0)?,
            id: row.get(1)?,
            event: row.get(2)?,
            created_at: row.get(3)?,
            shared: row.get(4)?,
            data: row.get(5)?,
            after: row.get(6)?,
            last: row.get(7)?,
            email: row.get(8)?,
        })
    })?)
}

/// Records that the deliveries up to the webhook `after` are written.
pub(crate) fn advance(tx: &Tx<'_>, event: &PendingEvent, after: &str) -> Result<(), ApiError> {
    let sql = "UPDATE pending_event SET after = ?3 WHERE organization = ?1 AND id = ?2";
    tx.execute(sql, (event.organization, &event.id, after))?;
    Ok(())
}

impl PendingEvent {
    /// Identifies the event in text without white space.
    pub(crate) fn job_id(&self) -> String {
        format!("{}:{}", self.organization, self.id)
    }
}

/// The organization of the event with this [`PendingEvent::job_id`].
pub(super) fn organization(job_id: &str) -> Option<i64> {
    job_id.split_once(':')?.0.parse().ok()
}

/// Deletes an event whose deliveries cannot be written.
pub(super) fn set_aside(tx: &Tx<'_>, job_id: &str) -> Result<(), ApiError> {
    if let Some((organization, id)) = job_id.split_once(':') {
        let sql = "DELETE FROM pending_event WHERE organization = ?1 AND id = ?2";
        tx.execute(sql, (organization.parse::<i64>().unwrap_or_default(), id))?;
    }
    Ok(())
}

/// Deletes an event whose deliveries are all written.
pub(crate) fn delete(tx: &mut Tx<'_>, event: &PendingEvent) -> Result<(), ApiError> {
    let sql = "DELETE FROM pending_event WHERE organization = ?1 AND id = ?2";
    tx.execute(sql, (event.organization, &event.id))?;
    // There is no delivery if the webhooks were deleted in the meantime.
    if let Some(shared) = event.shared {
        bodies::delete_if_unused(tx, shared)?;
    }
    Ok(())
}

/// Deletes an event of an organization. Returns its size in bytes, or `None` if there is none.
pub(super) fn delete_next(tx: &mut Tx<'_>, organization: i64) -> Result<Option<i64>, ApiError> {
    let sql = "DELETE FROM pending_event WHERE organization = ?1 AND id =
                   (SELECT id FROM pending_event WHERE organization = ?1 LIMIT 1)
               RETURNING shared, octet_length(data)";
    let deleted = tx.find(sql, [organization], |row| {
        Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, i64>(1)?))
    })?;
    let Some((shared, size)) = deleted else { return Ok(None) };
    let shared = shared.map_or(Ok(0), |shared| bodies::delete_if_unused(tx, shared))?;
    Ok(Some(size + shared))
}

/// When there are deliveries to write: at once, or never.
pub(crate) fn next(reader: Reader<'_>) -> Result<Option<(Worker, Millis)>, ApiError> {
    let pending = reader.find("SELECT 1 FROM pending_event LIMIT 1", [], |_| Ok(()))?;
    Ok(pending.map(|()| (Worker::Events, Millis::MIN)))
}
