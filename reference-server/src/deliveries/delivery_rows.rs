//! The tables `delivery` and `attempt`: events for webhooks with their exact bodies, of which
//! large parts are shared (see `bodies`), and the requests that were made for them.

use rusqlite::Row;
use svc_sdk::Service;

use crate::deliveries::delivery_wire::DeliveryFilter;
pub(crate) use crate::deliveries::delivery_wire::{Attempt, Delivery, State};
use crate::jobs::{Job, Queue, job_rows};
use crate::model::{Failure, MAX_SEARCHED, Millis, Result, id};
use crate::notifications::notification_wire::Notification;
use crate::store::{Json, Reader, Tx, json};
use crate::webhooks::webhook_wire::Webhook;

/// The exact bytes of a delivery: `head`, the shared bytes, and `tail`, in this order.
pub(crate) struct Body {
    pub(crate) head: Vec<u8>,
    /// The id of the shared bytes.
    pub(crate) shared: Option<i64>,
    pub(crate) tail: Vec<u8>,
}

/// A new delivery that is about no email and no recipient.
pub(crate) fn new(webhook: String, service: Service, event: &str, now: Millis) -> Delivery {
    Delivery {
        id: id::new(id::DELIVERY),
        webhook,
        service: service.to_string(),
        event: event.to_owned(),
        email_id: None,
        recipient: None,
        subject: None,
        state: State::Pending,
        attempt_count: 0,
        next_due_at: None,
        created_at: now.into(),
        updated_at: now.into(),
        body: None,
        attempts: None,
    }
}

/// Inserts a delivery, which is then scheduled or has its only attempt.
pub(crate) fn insert(tx: &Tx<'_>, organization: i64, new: &Delivery, body: &Body) -> Result<()> {
    let Delivery {
        id,
        webhook,
        event,
        email_id,
        ..
    } = new;
    let Body { head, shared, tail } = body;
    tx.execute(
        "INSERT INTO delivery (id, organization, webhook, event, email, state, attempts, created_at,
                               updated_at, data, head, shared, tail)
         VALUES (?1, ?2, ?3, ?4, ?5, 'pending', 0, ?6, ?6, ?7, ?8, ?9, ?10)",
        (id, organization, webhook, event, email_id, tx.now, Json(new), head, shared, tail),
    )?;
    Ok(())
}

fn job(webhook: &str, delivery: &str) -> Job {
    Job::new(Queue::Webhook(webhook.to_owned()), delivery)
}

/// A delivery for its next attempt.
pub(crate) struct Pending {
    pub(crate) job: Job,
    pub(crate) event: String,
    /// Number of attempts so far, and of those that count for the schedule.
    pub(crate) attempts: i64,
    pub(crate) retry: i64,
    /// `None` if it is inactive or deleted.
    pub(crate) webhook: Option<Webhook>,
    /// `None` if it is large: see [`body`].
    pub(crate) body: Option<Vec<u8>>,
}

/// The delivery that is the subject of a job, if it was not deleted.
pub(crate) fn pending(reader: Reader<'_>, job: &Job) -> Result<Option<Pending>> {
    let sql = "SELECT event, attempts, attempt,
                      (SELECT w.data FROM webhook w
                       WHERE w.organization = d.organization AND w.id = d.webhook AND active),
                      CASE WHEN shared IS NULL THEN head END
               FROM job JOIN delivery d ON d.id = subject
               WHERE queue = ?1 AND subject = ?2 AND position = ?3";
    let found = reader.find(sql, job.key(), |row| {
        let webhook: Option<Json<_>> = row.get(3)?;
        Ok(Pending {
            job: job.clone(),
            event: row.get(0)?,
            attempts: row.get(1)?,
            retry: row.get(2)?,
            webhook: webhook.map(|Json(webhook)| webhook),
            body: row.get(4)?,
        })
    });
    Ok(found?)
}

impl Attempt {
    /// Whether the delivery succeeded: a response with a 2xx status.
    pub(crate) fn is_delivered(&self) -> bool {
        self.status
            .is_some_and(|status| (200..300).contains(&status))
    }
}

/// Records an attempt of a delivery, and when the next one is due, if any. The delivery may have
/// been dropped or deleted in the meantime. `retries` is the number of attempts before this one that
/// count for the schedule.
pub(crate) fn record(
    tx: &mut Tx<'_>,
    queue: &str,
    retries: i64,
    next: Option<Millis>,
    attempt: &Attempt,
) -> Result<()> {
    let state = match (attempt.is_delivered(), next) {
        (true, _) => State::Delivered,
        (false, Some(_)) => State::Pending,
        (false, None) => State::Failed,
    };
    let id = &attempt.delivery;
    let changed = tx.execute(
        "UPDATE delivery SET state = CASE state WHEN 'pending' THEN ?2 ELSE state END,
                             attempts = ?3, updated_at = ?4 WHERE id = ?1",
        (id, state.as_str(), attempt.number, tx.now),
    )?;
    match next {
        Some(at) => job_rows::retry(tx, &job(queue, id), at, retries + 1)?,
        None => drop(job_rows::done(tx, &job(queue, id))?),
    }
    if changed > 0 {
        let sql = "INSERT OR REPLACE INTO attempt VALUES (?1, ?2, ?3)";
        tx.execute(sql, (id, attempt.number, Json(attempt)))?;
    }
    if let Some(organization) = publish(tx, id) {
        let attempt = Attempt {
            response_body: None,
            ..attempt.clone()
        };
        tx.publish(Some(organization), || Notification::Attempt(attempt));
    }

    Ok(())
}

/// Ends a pending delivery without another attempt.
pub(crate) fn end(tx: &mut Tx<'_>, webhook: &str, id: &str, state: State) -> Result<()> {
    let sql = "UPDATE delivery SET state = ?2, updated_at = ?3 WHERE id = ?1 AND state = 'pending'";
    tx.execute(sql, (id, state.as_str(), tx.now))?;
    job_rows::done(tx, &job(webhook, id))?;
    publish(tx, id);
    Ok(())
}

/// Drops the pending deliveries to a webhook.
pub(crate) fn drop_all(tx: &Tx<'_>, webhook: &str) -> Result<()> {
    let sql = "UPDATE delivery SET state = 'dropped', updated_at = ?2
               WHERE webhook = ?1 AND state = 'pending'
               AND id IN (SELECT subject FROM job WHERE queue = ?1) RETURNING id";
    let dropped: Vec<String> = tx.reader().all(sql, (webhook, tx.now), |row| row.get(0))?;
    job_rows::clear(tx, &Queue::Webhook(webhook.to_owned()))?;
    for id in dropped {
        publish(tx, &id);
    }
    Ok(())
}

/// Makes a delivery due now, `retry` attempts into its schedule.
pub(crate) fn repeat(
    tx: &mut Tx<'_>,
    organization: i64,
    delivery: &Delivery,
    retry: i64,
) -> Result<()> {
    let sql = "UPDATE delivery SET state = 'pending', updated_at = ?2 WHERE id = ?1";
    tx.execute(sql, (&delivery.id, tx.now))?;
    schedule(tx, organization, delivery, retry)
}

/// Makes a pending delivery due now, after those about the same email.
pub(crate) fn schedule(
    tx: &mut Tx<'_>,
    organization: i64,
    delivery: &Delivery,
    retry: i64,
) -> Result<()> {
    let Delivery {
        id,
        webhook,
        email_id,
        ..
    } = delivery;
    job_rows::add(
        tx,
        organization,
        &job(webhook, id),
        tx.now,
        retry,
        email_id.as_deref(),
    )?;
    publish(tx, id);
    Ok(())
}

/// The deliveries of the events of an email with their attempts, oldest first.
pub(crate) fn of_email(reader: Reader<'_>, email: &str, limit: i64) -> Result<Vec<Delivery>> {
    let sql = format!("{SELECT} WHERE email = ?1 ORDER BY id LIMIT ?2");
    let mut found = reader.all(&sql, (email, limit), read)?;
    add_attempts(reader, &mut found)?;
    Ok(found)
}

/// Adds their attempts to deliveries, without the bodies of the responses.
pub(crate) fn add_attempts(reader: Reader<'_>, found: &mut [Delivery]) -> Result<()> {
    for delivery in found {
        delivery.attempts = Some(attempts(reader, &delivery.id, false)?);
    }
    Ok(())
}

/// Sorts after every ID: IDs are hexadecimal.
const PAST_EVERY_ID: &str = "g";

/// Lists the matching deliveries of an organization, newest first: one page and one more.
pub(crate) fn list(
    reader: Reader<'_>,
    organization: i64,
    filter: &DeliveryFilter,
    limit: usize,
    cursor: Option<&str>,
) -> Result<Vec<Delivery>> {
    let DeliveryFilter {
        webhook,
        event,
        state,
        search,
    } = filter;
    let of_webhook = match webhook {
        Some(_) => {
            "webhook IN (SELECT id FROM webhook WHERE ?3 IN (id, data ->> 'url') UNION SELECT ?3)"
        }
        None => "?3 IS NULL",
    };
    let sql = format!(
        "{SELECT} WHERE {of_webhook} AND organization = ?1 AND id < ?2
         AND (?4 IS NULL OR event = ?4) AND (?5 IS NULL OR state = ?5)
         AND (?6 IS NULL
              OR id > coalesce((SELECT id FROM delivery WHERE organization = ?1
                                ORDER BY id DESC LIMIT 1 OFFSET ?7), '')
                 AND has_terms(?6, id, webhook, event, state, email, data ->> 'recipient',
                               data ->> 'subject'))
         ORDER BY id DESC LIMIT ?8"
    );
    let cursor = cursor.unwrap_or(PAST_EVERY_ID);
    let state = state.map(State::as_str);
    let wanted = limit as i64 + 1;
    let values = (
        organization,
        cursor,
        webhook,
        event,
        state,
        search,
        MAX_SEARCHED as i64,
        wanted,
    );
    reader.all(&sql, values, read)
}

pub(crate) fn find(reader: Reader<'_>, id: &str, organization: i64) -> Result<Delivery> {
    let sql = format!("{SELECT} WHERE id = ?1 AND organization = ?2");
    let found = reader.find(&sql, (id, organization), read)?;
    found.ok_or_else(|| Failure::not_found("delivery"))
}

/// The exact request body of a delivery, which is JSON.
pub(crate) fn body(reader: Reader<'_>, id: &str) -> Result<Option<String>> {
    let sql = "SELECT head, bytes, tail FROM delivery d LEFT JOIN body b ON b.id = d.shared
               WHERE d.id = ?1";
    // SQLite would join them in more memory.
    let joined = reader.find(sql, [id], |row| {
        let mut parts = [&[][..]; 3];
        for (column, part) in parts.iter_mut().enumerate() {
            *part = row.get_ref(column)?.as_bytes_or_null()?.unwrap_or_default();
        }
        Ok(parts.concat())
    })?;
    joined
        .map(String::from_utf8)
        .transpose()
        .map_err(Failure::internal)
}

/// The size of the body of a delivery, in bytes, without reading it.
pub(crate) fn body_size(reader: Reader<'_>, id: &str) -> Result<usize> {
    let sql = "SELECT octet_length(head) + COALESCE(octet_length(bytes), 0) + octet_length(tail)
               FROM delivery d LEFT JOIN body b ON b.id = d.shared WHERE d.id = ?1";
    let size: Option<i64> = reader.find(sql, [id], |row| row.get(0))?;
    Ok(size.unwrap_or(0) as usize)
}

/// The columns that [`read`] reads.
const SELECT: &str = "SELECT data, state, attempts, updated_at,
    (SELECT due_at FROM job WHERE queue = webhook AND subject = delivery.id),
    organization FROM delivery";

/// A delivery without its body and its attempts. While it waits for an earlier delivery, it is due
/// at no time.
fn read(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    Ok(Delivery {
        state: row.get_ref(1)?.as_str()?.parse().unwrap_or(State::Dropped),
        attempt_count: row.get(2)?,
        updated_at: row.get(3)?,
        next_due_at: row.get(4)?,
        ..json(row, 0)?
    })
}

/// Tells the clients that watch, unless the delivery cannot be read: then it can still end. Returns
/// its organization if they are told.
fn publish(tx: &Tx<'_>, id: &str) -> Option<i64> {
    if !tx.is_watched() {
        return None;
    }

    let sql = format!("{SELECT} WHERE id = ?1");
    let found = tx
        .reader()
        .find(&sql, [id], |row| Ok((row.get("organization")?, read(row)?)));
    let (organization, delivery) = found.ok().flatten()?;
    tx.publish(Some(organization), || Notification::Delivery(delivery));
    Some(organization)
}

/// The attempts of a delivery, oldest first. Only on request with the response bodies.
pub(crate) fn attempts(
    reader: Reader<'_>,
    delivery: &str,
    with_bodies: bool,
) -> Result<Vec<Attempt>> {
    let sql = "SELECT data FROM attempt WHERE delivery = ?1 ORDER BY number";
    reader.all(sql, [delivery], |row| {
        let attempt: Attempt = json(row, 0)?;
        let response_body = attempt.response_body.filter(|_| with_bodies);
        Ok(Attempt {
            response_body,
            ..attempt
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::organizations::organization_rows;
    use crate::store::Store;

    /// A delivery whose webhook was deleted meanwhile.
    #[tokio::test]
    async fn an_attempt_of_a_dropped_delivery_counts() {
        let (store, _) = Store::open(None, None, svc_sdk::Dialect::default()).unwrap();
        let written = store.write(|tx| {
            let organization = organization_rows::insert(tx, None, 0)?.number;
            let new = new("whk_1".to_owned(), Service::Email, "email.sent", tx.now);
            let body = Body {
                head: Vec::new(),
                shared: None,
                tail: Vec::new(),
            };
            insert(tx, organization, &new, &body)?;
            schedule(tx, organization, &new, 0)?;
            drop_all(tx, "whk_1")?;
            let attempt = Attempt {
                delivery: new.id.clone(),
                number: 1,
                started_at: tx.now.into(),
                duration_ms: 1,
                url: String::new(),
                request_headers: Default::default(),
                status: Some(200),
                error: None,
                response_body: None,
            };
            record(tx, "whk_1", 0, None, &attempt)?;
            find(tx.reader(), &new.id, organization)
        });
        let found = written.await.unwrap();
        assert_eq!((found.state, found.attempt_count), (State::Dropped, 1));
    }
}
