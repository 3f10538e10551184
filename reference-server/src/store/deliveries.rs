//! The tables `delivery` and `delivery_body`: webhook deliveries with their exact bodies, of
//! which large parts are shared (see [`bodies`]).

mod change;

use std::collections::{HashSet, VecDeque};

use rusqlite::Row;
use svc_sdk::Service;

use super::keys::service_from;
pub(crate) use crate::control::deliveries::State;
use crate::model::error::ApiError;
use crate::model::event::Event;
use crate::model::time::Millis;
use crate::model::worker::Worker;
use crate::store::{Reader, Tx, bodies};

use change::publish;

/// A delivery without its body.
pub(crate) struct Delivery {
    pub(crate) id: String,
    pub(crate) webhook: String,
    pub(crate) service: Service,
    pub(crate) event: String,
    pub(crate) state: State,
    pub(crate) attempts: i64,
    pub(crate) due_at: Option<Millis>,
    pub(crate) created_at: Millis,
    pub(crate) updated_at: Millis,
}

/// A delivery to insert.
pub(crate) struct NewDelivery<'a> {
    pub(crate) id: &'a str,
    pub(crate) organization: i64,
    pub(crate) webhook: &'a str,
    pub(crate) service: Service,
    pub(crate) event: &'a str,
    /// The email that it is about.
    pub(crate) email: Option<&'a str>,
    pub(crate) body: &'a Body,
}

/// The exact bytes of a delivery: `head`, the shared bytes, and `tail`, in this order.
#[derive(Clone)]
pub(crate) struct Body {
    pub(crate) head: Vec<u8>,
    /// The id of the shared bytes.
    pub(crate) shared: Option<i64>,
    pub(crate) tail: Vec<u8>,
}

/// Number of deliveries after which a transaction leaves those of further events to others,
/// so that no request waits long for it.
const MAX_PER_TRANSACTION: usize = 512;

/// Whether the transaction may write this many more deliveries.
pub(crate) fn has_room(tx: &Tx<'_>, deliveries: usize) -> bool {
    tx.deliveries() + deliveries <= MAX_PER_TRANSACTION
}

/// Inserts a delivery that is due now, of an event at `created_at`.
pub(crate) fn insert_pending(
    tx: &mut Tx<'_>,
    new: &NewDelivery<'_>,
    created_at: Millis,
) -> Result<(), ApiError> {
    insert(tx, new, Some(tx.now), created_at)?;
    tx.count_delivery();
    tx.worker_due(Worker::Webhook(new.webhook.to_owned()), tx.now);
    Ok(())
}

/// Inserts a delivery whose only attempt begins now, outside of the schedule.
pub(crate) fn insert_under_way(
    tx: &Tx<'_>,
    new: &NewDelivery<'_>,
    created_at: Millis,
) -> Result<(), ApiError> {
    insert(tx, new, None, created_at)
}

/// Fails the deliveries that the last server left under way outside of the schedule: they
/// have one attempt.
pub(crate) fn fail_interrupted(tx: &Tx<'_>) -> Result<(), ApiError> {
    tx.execute(
        "UPDATE delivery SET state = 'failed', updated_at = ?1
         WHERE organization IN (SELECT seq FROM organization) AND event = ?2
         AND state = 'pending' AND due_at IS NULL",
        (tx.now, Event::TEST),
    )?;
    Ok(())
}

fn insert(
    tx: &Tx<'_>,
    new: &NewDelivery<'_>,
    due_at: Option<Millis>,
    created_at: Millis,
) -> Result<(), ApiError> {
    tx.execute(
        "INSERT INTO delivery (id, organization, webhook, service, event, state, attempts,
                               retry, due_at, created_at, updated_at, email)
         VALUES (?1, ?2, ?3, ?4, ?5, 'pending', 0, 0, ?6, ?7, ?8, ?9)",
        (
            new.id,
            new.organization,
            new.webhook,
            new.service.as_str(),
            new.event,
            due_at,
            created_at,
            tx.now,
            new.email,
        ),
    )?;
    let Body { head, shared, tail } = new.body;
    let tail = Some(tail).filter(|tail| !tail.is_empty());
    tx.execute(
        "INSERT INTO delivery_body (delivery, body, shared, tail) VALUES (?1, ?2, ?3, ?4)",
        (new.id, head, shared, tail),
    )?;
    publish(tx, new.id)
}

/// A due delivery that was read ahead.
pub(crate) struct Due {
    pub(crate) id: String,
    pub(crate) event: String,
    pub(crate) service: Service,
    pub(crate) attempts: i64,
    pub(crate) retry: i64,
    pub(crate) body: Body,
}

/// The due deliveries to one webhook.
pub(crate) struct DueDeliveries {
    pub(crate) deliveries: VecDeque<Due>,
    /// Whether there may be more.
    pub(crate) more: bool,
    /// When the next delivery after these is due; `Millis::MAX` for never.
    pub(crate) next: Millis,
}

/// Reads due deliveries to a webhook, in order of their due time, except those in flight:
/// at most `limit`, and no more after `max_bytes` of bodies without their shared bytes.
pub(crate) fn due(
    reader: Reader<'_>,
    webhook: &str,
    now: Millis,
    limit: usize,
    max_bytes: usize,
    in_flight: &HashSet<String>,
) -> Result<DueDeliveries, ApiError> {
    let mut statement = reader.statement(
        "SELECT id, event, service, attempts, retry, body, shared, tail FROM delivery
         JOIN delivery_body ON delivery = id
         WHERE webhook = ?1 AND due_at <= ?2 ORDER BY due_at, id LIMIT ?3",
    )?;
    let mut rows = statement.query((webhook, now, limit as i64))?;
    let (mut deliveries, mut seen, mut bytes) = (VecDeque::new(), 0, 0);
    while bytes < max_bytes
        && let Some(row) = rows.next()?
    {
        seen += 1;
        let id: String = row.get(0)?;
        if in_flight.contains(&id) {
            continue;
        }
        let body = read_body(row, 5)?;
        bytes += body.head.len() + body.tail.len();
        deliveries.push_back(Due {
            id,
            event: row.get(1)?,
            service: service_from(&row.get::<_, String>(2)?),
            attempts: row.get(3)?,
            retry: row.get(4)?,
            body,
        });
    }
    let more = seen == limit || bytes >= max_bytes;
    let sql = "SELECT due_at FROM delivery WHERE webhook = ?1 AND due_at > ?2
               ORDER BY due_at LIMIT 1";
    let next = reader.find(sql, (webhook, now), |row| row.get(0))?;
    Ok(DueDeliveries { deliveries, more, next: next.unwrap_or(Millis::MAX) })
}

/// The webhooks with pending deliveries, each with the time when the first is due.
pub(crate) fn next_by_webhook(reader: Reader<'_>) -> Result<Vec<(Worker, Millis)>, ApiError> {
    let mut statement = reader.statement(
        "SELECT webhook, MIN(due_at) FROM delivery WHERE due_at IS NOT NULL GROUP BY webhook",
    )?;
    let rows = statement.query_map([], |row| Ok((Worker::Webhook(row.get(0)?), row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Records the state after an attempt, unless the delivery was dropped in the meantime.
/// Returns whether it was pending.
pub(crate) fn record(
    tx: &Tx<'_>,
    id: &str,
    state: State,
    attempts: i64,
    retry: i64,
    next: Option<Millis>,
) -> Result<bool, ApiError> {
    let changed = tx.execute(
        "UPDATE delivery SET state = ?2, attempts = ?3, retry = ?4, due_at = ?5, updated_at = ?6
         WHERE id = ?1 AND state = 'pending'",
        (id, state.as_str(), attempts, retry, next, tx.now),
    )?;
    publish(tx, id)?;
    Ok(changed > 0)
}

/// The organization of a delivery.
pub(super) fn organization(reader: Reader<'_>, id: &str) -> Result<Option<i64>, ApiError> {
    let sql = "SELECT organization FROM delivery WHERE id = ?1";
    Ok(reader.find(sql, [id], |row| row.get(0))?)
}

/// Fails a pending delivery that cannot be attempted.
pub(super) fn set_aside(tx: &Tx<'_>, id: &str) -> Result<(), ApiError> {
    tx.execute(
        "UPDATE delivery SET state = 'failed', due_at = NULL, updated_at = ?2
         WHERE id = ?1 AND state = 'pending'",
        (id, tx.now),
    )?;
    publish(tx, id)
}

/// Drops a delivery if it is pending.
pub(crate) fn drop_pending(tx: &Tx<'_>, id: &str) -> Result<(), ApiError> {
    tx.execute(
        "UPDATE delivery SET state = 'dropped', due_at = NULL, updated_at = ?2
         WHERE id = ?1 AND state = 'pending'",
        (id, tx.now),
    )?;
    publish(tx, id)
}

/// Drops a pending delivery to a webhook. Returns its size, or `None` if there is none.
pub(super) fn drop_next(tx: &mut Tx<'_>, webhook: &str) -> Result<Option<i64>, ApiError> {
    let sql = "UPDATE delivery SET state = 'dropped', due_at = NULL, updated_at = ?2 WHERE id =
                   (SELECT id FROM delivery WHERE webhook = ?1 AND due_at IS NOT NULL LIMIT 1)
               RETURNING id";
    let dropped: Option<String> = tx.find(sql, (webhook, tx.now), |row| row.get(0))?;
    dropped.map(|id| publish(tx, &id).map(|()| 0)).transpose()
}

/// Deletes a delivery of an organization. Returns its size in bytes, or `None` if there is none.
pub(super) fn delete_next(tx: &mut Tx<'_>, organization: i64) -> Result<Option<i64>, ApiError> {
    let sql = "DELETE FROM delivery WHERE id =
                   (SELECT id FROM delivery WHERE organization = ?1 LIMIT 1) RETURNING id";
    let id: Option<String> = tx.find(sql, [organization], |row| row.get(0))?;
    let Some(id) = id else { return Ok(None) };
    tx.execute("DELETE FROM attempt WHERE delivery = ?1", [&id])?;
    let sql = "DELETE FROM delivery_body WHERE delivery = ?1 RETURNING shared, octet_length(body)";
    let body =
        tx.find(sql, [&id], |row| Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, i64>(1)?)))?;
    let (shared, size) = body.unwrap_or_default();
    let shared = shared.map_or(Ok(0), |shared| bodies::delete_if_unused(tx, shared))?;
    Ok(Some(size + shared))
}

/// Makes a delivery due now, `retry` attempts into its schedule.
pub(crate) fn repeat(tx: &mut Tx<'_>, delivery: &Delivery, retry: i64) -> Result<(), ApiError> {
    tx.execute(
        "UPDATE delivery SET state = 'pending', retry = ?2, due_at = ?3, updated_at = ?3
         WHERE id = ?1",
        (&delivery.id, retry, tx.now),
    )?;
    tx.worker_due(Worker::Webhook(delivery.webhook.clone()), tx.now);
    publish(tx, &delivery.id)
}

/// The deliveries of the events of an email, oldest first.
pub(crate) fn of_email(
    reader: Reader<'_>,
    email: &str,
    limit: i64,
) -> Result<Vec<Delivery>, ApiError> {
    let sql = format!("SELECT {COLUMNS} FROM delivery WHERE email = ?1 ORDER BY id LIMIT ?2");
    let mut statement = reader.statement(&sql)?;
    let rows = statement.query_map((email, limit), read)?;
    Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
}

/// Which deliveries to list.
pub(crate) struct Filter {
    pub(crate) webhook: Option<String>,
    pub(crate) event: Option<String>,
    pub(crate) state: Option<State>,
    /// Selects deliveries older than this one.
    pub(crate) cursor: Option<String>,
}

impl Filter {
    /// Whether the statement may read many rows that the filter does not select.
    pub(crate) fn may_scan(&self) -> bool {
        let is_delivered = self.state == Some(State::Delivered);
        let conditions =
            [self.webhook.is_some(), self.event.is_some(), self.state.is_some() && !is_delivered];
        is_delivered || conditions.into_iter().filter(|given| *given).count() > 1
    }

    /// The statement for this filter: it reads along the index that covers the fewest rows.
    fn statement(&self) -> String {
        let (index, condition) = match self.state {
            Some(State::Pending | State::Failed | State::Dropped) => {
                ("delivery_state", "state <> 'delivered' AND state = ?5")
            }
            _ if self.webhook.is_some() => ("delivery_webhook", "webhook = ?3"),
            _ if self.event.is_some() => ("delivery_event", "event = ?4"),
            _ => ("delivery_organization", "TRUE"),
        };
        format!(
            "SELECT {COLUMNS} FROM delivery INDEXED BY {index}
             WHERE {condition} AND organization = ?1 AND id < ?2
             AND (?3 IS NULL OR webhook = ?3) AND (?4 IS NULL OR event = ?4)
             AND (?5 IS NULL OR state = ?5) ORDER BY id DESC LIMIT ?6"
        )
    }
}

/// Sorts after every ID: IDs are hexadecimal.
const PAST_EVERY_ID: &str = "g";

/// Lists the matching deliveries of an organization, newest first.
pub(crate) fn list(
    reader: Reader<'_>,
    organization: i64,
    filter: &Filter,
    limit: i64,
) -> Result<Vec<Delivery>, ApiError> {
    let mut statement = reader.statement(&filter.statement())?;
    let cursor = filter.cursor.as_deref().unwrap_or(PAST_EVERY_ID);
    let state = filter.state.map(State::as_str);
    let params = (organization, cursor, &filter.webhook, &filter.event, state, limit);
    let rows = statement.query_map(params, read)?;
    Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
}

pub(crate) fn find(reader: Reader<'_>, id: &str, organization: i64) -> Result<Delivery, ApiError> {
    let sql = format!("SELECT {COLUMNS} FROM delivery WHERE id = ?1 AND organization = ?2");
    let found = reader.find(&sql, (id, organization), read)?;
    found.ok_or_else(|| ApiError::not_found("delivery"))
}

/// The exact request body of a delivery.
pub(crate) fn body(reader: Reader<'_>, id: &str) -> Result<Option<Vec<u8>>, ApiError> {
    let sql = "SELECT body, shared, tail FROM delivery_body WHERE delivery = ?1";
    let Some(body) = reader.find(sql, [id], |row| read_body(row, 0))? else { return Ok(None) };
    let mut bytes = body.head;
    if let Some(shared) = body.shared {
        bytes.extend(bodies::find(reader, shared)?.unwrap_or_default());
    }
    bytes.extend(body.tail);
    Ok(Some(bytes))
}

/// The size of the body of a delivery, in bytes, without reading its shared bytes.
pub(crate) fn body_size(reader: Reader<'_>, id: &str) -> Result<usize, ApiError> {
    let sql = "SELECT octet_length(body), shared FROM delivery_body WHERE delivery = ?1";
    let found: Option<(i64, Option<i64>)> =
        reader.find(sql, [id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some((own, shared)) = found else { return Ok(0) };
    let shared = shared.map_or(Ok(0), |shared| bodies::size(reader, shared))?;
    Ok(shared + usize::try_from(own).unwrap_or(0))
}

/// Reads a body from the columns `body`, `shared` and `tail`.
fn read_body(row: &Row<'_>, first: usize) -> rusqlite::Result<Body> {
    let tail: Option<Vec<u8>> = row.get(first + 2)?;
    Ok(Body { head: row.get(first)?, shared: row.get(first + 1)?, tail: tail.unwrap_or_default() })
}

/// Counts the pending deliveries.
pub(crate) fn count_pending(reader: Reader<'_>) -> Result<i64, ApiError> {
    let sql = "SELECT COUNT(*) FROM delivery WHERE due_at IS NOT NULL";
    Ok(reader.find(sql, [], |row| row.get(0))?.unwrap_or(0))
}

const COLUMNS: &str =
    "id, webhook, service, event, state, attempts, due_at, created_at, updated_at";

fn read(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    let state: String = row.get(4)?;
    Ok(Delivery {
        id: row.get(0)?,
        webhook: row.get(1)?,
        service: service_from(&row.get::<_, String>(2)?),
        event: row.get(3)?,
        state: State::parse(&state).unwrap_or(State::Dropped),
        attempts: row.get(5)?,
        due_at: row.get(6)?,
        created_at: row.get(7)?,
        updated_at: row.get(8)?,
    })
}
