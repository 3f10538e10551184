//! The table `deleted`: what was deleted, but may still have many rows in other tables. Nothing
//! shows or uses those rows any more. They are removed in slices, each in a transaction of its
//! own, so that no request waits until all of them are removed.

use std::sync::Arc;

use svc_sdk::Service;

use super::webhooks::{self, Webhooks};
use super::{
    Reader, Store, Tx, audiences, contacts, crashes, deliveries, dns_records, domains, emails,
    faults, idempotency, large, messages, pending_events, templates,
};
use crate::model::error::ApiError;
use crate::model::stop::Stop;
use crate::model::time::Millis;
use crate::model::worker::Worker;

/// What was deleted. The numbers are in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Webhook = 1,
    Audience = 2,
    Domain = 3,
    Organization = 4,
    /// Last, because the removal of others adds to it.
    Large = large::DELETED,
}

impl Kind {
    const ALL: [Self; 5] =
        [Self::Webhook, Self::Audience, Self::Domain, Self::Organization, Self::Large];
}

/// Deletes one row of an organization, with the rows that belong to it. Returns its size in bytes,
/// or `None` if there is no such row.
type DeleteOwned = fn(&mut Tx<'_>, i64) -> Result<Option<i64>, ApiError>;

/// The tables with rows of organizations, and how to delete one of each. The webhooks and the keys
/// of an organization are few, so its reset deletes or keeps them itself.
const OWNED: [(&str, DeleteOwned); 12] = [
    ("email", emails::delete_next),
    ("message", messages::delete_next),
    ("delivery", deliveries::delete_next),
    ("pending_event", pending_events::delete_next),
    ("fault", faults::delete_next),
    ("contact", contacts::delete_next),
    ("audience", audiences::delete_next),
    ("dns_record", dns_records::delete_next),
    ("domain", domains::delete_next),
    ("template", templates::delete_next),
    ("idempotency", idempotency::delete_next),
    ("crash", crashes::delete_next),
];

/// Number of rows in a slice. A row counts once more for each [`ROW`] bytes.
const SLICE: usize = 1000;
const ROW: i64 = 64 << 10;

/// Deletes an audience with its contacts.
pub(crate) fn audience(tx: &mut Tx<'_>, id: &str, organization: i64) -> Result<(), ApiError> {
    audiences::delete(tx, id, organization)?;
    remove(tx, Kind::Audience, id)
}

/// Deletes a domain with its mailboxes and their messages.
pub(crate) fn domain(tx: &mut Tx<'_>, id: &str, organization: i64) -> Result<(), ApiError> {
    domains::delete(tx, id, organization)?;
    remove(tx, Kind::Domain, id)
}

/// Deletes a webhook. Its pending deliveries are dropped.
pub(crate) async fn webhook(
    store: &Store,
    webhooks: &Arc<Webhooks>,
    id: String,
    organization: i64,
    service: Service,
) -> Result<(), ApiError> {
    let (registry, gone) = (Arc::clone(webhooks), id.clone());
    let delete = store.write(move |tx| {
        webhooks::delete(tx, &registry, &id, organization, service)?;
        remove(tx, Kind::Webhook, &id)
    });
    delete.await?;
    webhooks.wait_until_idle(&gone).await;
    Ok(())
}

/// Removes what belongs to something that was deleted: at once if it is not more than a slice,
/// otherwise the rest in later transactions.
pub(super) fn remove(tx: &mut Tx<'_>, kind: Kind, id: &str) -> Result<(), ApiError> {
    tx.execute("INSERT OR IGNORE INTO deleted VALUES (?1, ?2)", (kind as i64, id))?;
    let mut slice = Slice { rows: 0, yields: false };
    if !slice.remove(tx, kind, id)? {
        tx.worker_due(Worker::Deleted, tx.now);
    }
    Ok(())
}

/// Like [`remove`] for all organizations, which the caller deletes afterwards.
pub(super) fn remove_organizations(tx: &mut Tx<'_>) -> Result<(), ApiError> {
    let sql = "INSERT OR IGNORE INTO deleted SELECT ?1, seq FROM organization";
    tx.execute(sql, [Kind::Organization as i64])?;
    let mut slice = Slice { rows: 0, yields: false };
    if !slice.remove_all(tx)? {
        tx.worker_due(Worker::Deleted, tx.now);
    }
    Ok(())
}

/// Removes the remaining rows, until none is left or the server stops.
pub(crate) async fn run(store: &Store, stop: &Stop) -> Result<Millis, ApiError> {
    let slice = |tx: &mut Tx<'_>| Slice { rows: 0, yields: true }.remove_all(tx);
    while !stop.is_requested() && !store.write_relaxed(slice).await? {}
    Ok(Millis::MAX)
}

/// When there are rows to remove: at once, or never.
pub(crate) fn next(reader: Reader<'_>) -> Result<Option<(Worker, Millis)>, ApiError> {
    let found = reader.find("SELECT 1 FROM deleted LIMIT 1", [], |_| Ok(()))?;
    Ok(found.map(|()| (Worker::Deleted, Millis::MIN)))
}

/// The rows that one transaction removes.
struct Slice {
    rows: usize,
    /// Whether it ends early if a request waits.
    yields: bool,
}

impl Slice {
    /// Returns whether nothing is left.
    fn remove_all(&mut self, tx: &mut Tx<'_>) -> Result<bool, ApiError> {
        for kind in Kind::ALL {
            loop {
                let sql = "SELECT id FROM deleted WHERE kind = ?1 ORDER BY id LIMIT 1";
                let id = tx.find(sql, [kind as i64], |row| row.get::<_, String>(0))?;
                let Some(id) = id else { break };
                // What has no rows counts, too.
                self.rows += 1;
                if !self.remove(tx, kind, &id)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Removes rows of one thing. Returns whether none is left.
    fn remove(&mut self, tx: &mut Tx<'_>, kind: Kind, id: &str) -> Result<bool, ApiError> {
        let is_done = match kind {
            Kind::Webhook => self.each(tx, |tx| deliveries::drop_next(tx, id))?,
            Kind::Audience => self.each(tx, |tx| contacts::delete_next_of_audience(tx, id))?,
            Kind::Domain => self.each(tx, |tx| messages::delete_next_of_domain(tx, id))?,
            Kind::Organization => {
                let organization = id.parse().map_err(ApiError::internal)?;
                let mut is_done = true;
                for (_, delete_next) in OWNED {
                    is_done = is_done && self.each(tx, |tx| delete_next(tx, organization))?;
                }
                // The rows may have been the next that were due.
                tx.recheck_due();
                is_done
            }
            Kind::Large => {
                let value = id.parse().map_err(ApiError::internal)?;
                self.each(tx, |tx| large::delete_next(tx, value))?
            }
        };
        if is_done {
            tx.execute("DELETE FROM deleted WHERE kind = ?1 AND id = ?2", (kind as i64, id))?;
        }
        Ok(is_done)
    }

    /// Deletes rows until none is left, and returns `true`, or until the slice is full.
    fn each(
        &mut self,
        tx: &mut Tx<'_>,
        delete_next: impl Fn(&mut Tx<'_>) -> Result<Option<i64>, ApiError>,
    ) -> Result<bool, ApiError> {
        while self.rows < SLICE && !(self.yields && tx.is_enough(self.rows)) {
            let Some(bytes) = delete_next(tx)? else { return Ok(true) };
            self.rows += 1 + (bytes / ROW) as usize;
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::open;

    /// The other tables with rows of organizations, and what deletes their rows.
    const OTHERS: [&str; 6] = [
        // Kept by a reset of the organization.
        "api_key",
        // Few; deleted by the reset itself.
        "webhook",
        // Deleted with the email or the message.
        "message_indexed",
        "email_indexed",
        "relay",
        "local_delivery",
    ];

    #[test]
    fn every_table_with_rows_of_organizations_is_known() {
        let connection = open::memory().unwrap();
        let sql = "SELECT t.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c
                   WHERE t.type = 'table' AND c.name = 'organization' ORDER BY t.name";
        let mut statement = connection.prepare(sql).unwrap();
        let found = statement.query_map([], |row| row.get(0)).unwrap();
        let found = found.collect::<rusqlite::Result<Vec<String>>>().unwrap();
        let mut known: Vec<&str> = OWNED.iter().map(|(table, _)| *table).chain(OTHERS).collect();
        known.sort_unstable();
        assert_eq!(found, known);
    }
}
