//! The tables `delivery` and `attempt`: events for webhooks with their exact bodies, of which
//! large parts are shared (see `bodies`), and the requests that were made for them.

use rusqlite::Row;
use svc_sdk::Service;

use super::jobs;
use super::keys::service_from;
use crate::control::deliveries::DeliveryFilter;
pub(crate) use crate::control::deliveries::{Attempt, Delivery, State};
use crate::control::notifications::Notification;
use crate::control::webhooks::Webhook;
use crate::model::error::ApiError;
use crate::model::job::{Due, Job, Queue};
use crate::model::terms::{MAX_SEARCHED, Terms};
use crate::model::time::Millis;
use crate::store::webhooks;
use crate::store::{Reader, Tx};

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
pub(crate) struct Body {
    pub(crate) head: Vec<u8>,
    /// The id of the shared bytes.
    pub(crate) shared: Option<i64>,
    pub(crate) tail: Vec<u8>,
}

/// Inserts a delivery that is due now, after those about the same email.
pub(crate) fn insert(tx: &mut Tx<'_>, new: &NewDelivery<'_>) -> Result<(), ApiError> {
    insert_row(tx, new)?;
    let job = job(new.webhook, new.id);
    jobs::add(tx, new.organization, &job, tx.now, 0, new.email)?;
    publish(tx, new.id)
}

/// Inserts a delivery whose only attempt begins now, outside of the schedule.
pub(crate) fn insert_under_way(tx: &Tx<'_>, new: &NewDelivery<'_>) -> Result<(), ApiError> {
    insert_row(tx, new)?;
    jobs::add_under_way(tx, new.organization, &job(UNDER_WAY, new.id))?;
    publish(tx, new.id)
}

/// The queue of the deliveries whose only attempt is in progress.
pub(crate) const UNDER_WAY: &str = "under way";

/// Fails the deliveries whose only attempt was in progress when the last server ended.
pub(crate) fn fail_interrupted(tx: &mut Tx<'_>) -> Result<(), ApiError> {
    let sql = "SELECT subject FROM job WHERE queue = ?1";
    let ids: Vec<String> = tx.reader().all(sql, [UNDER_WAY], |row| row.get(0))?;
    ids.iter().try_for_each(|id| end(tx, UNDER_WAY, id, State::Failed))
}

fn job(webhook: &str, delivery: &str) -> Job {
    Job::new(Queue::Webhook(webhook.to_owned()), delivery)
}

fn insert_row(tx: &Tx<'_>, new: &NewDelivery<'_>) -> Result<(), ApiError> {
    tx.execute(
        "INSERT INTO delivery (id, organization, webhook, service, event, email, state, attempts,
                               created_at, updated_at, head, shared, tail)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'pending', 0, ?7, ?7, ?8, ?9, ?10)",
        (
            new.id,
            new.organization,
            new.webhook,
            new.service.as_str(),
            new.event,
            new.email,
            tx.now,
            &new.body.head,
            new.body.shared,
            &new.body.tail,
        ),
    )?;
    Ok(())
}

/// A delivery for its next attempt.
pub(crate) struct Pending {
    pub(crate) id: String,
    /// The ID of its webhook.
    pub(crate) queue: String,
    /// `None` if it is inactive or deleted.
    pub(crate) webhook: Option<Webhook>,
    pub(crate) event: String,
    pub(crate) service: Service,
    /// Number of attempts so far, and of those that count for the schedule.
    pub(crate) attempts: i64,
    pub(crate) retry: i64,
    /// `None` if it is large: see [`body`].
    pub(crate) body: Option<Vec<u8>>,
}

/// The delivery that is the subject of a job, if it was not deleted.
pub(crate) fn pending(reader: Reader<'_>, due: &Due) -> Result<Option<Pending>, ApiError> {
    let sql = "SELECT webhook, event, service, attempts, CASE WHEN shared IS NULL THEN head END,
                      organization FROM delivery WHERE id = ?1";
    let id = &due.job.subject;
    let found = reader.find(sql, [id], |row| {
        let pending = Pending {
            id: id.clone(),
            queue: row.get(0)?,
            webhook: None,
            event: row.get(1)?,
            service: service_from(row.get_ref(2)?.as_str()?),
            attempts: row.get(3)?,
            retry: due.attempt,
            body: row.get(4)?,
        };
        Ok((pending, row.get(5)?))
    })?;
    let Some((pending, organization)) = found else { return Ok(None) };
    let webhook = webhooks::get(reader, organization, &pending.queue)?;
    Ok(Some(Pending { webhook: webhook.filter(|webhook| webhook.active), ..pending }))
}

/// Records an attempt of a delivery, and when the next one is due, if any. The delivery may have
/// been dropped or deleted in the meantime.
pub(crate) fn record(
    tx: &mut Tx<'_>,
    delivery: &Pending,
    is_delivered: bool,
    next: Option<Millis>,
    attempt: &Attempt,
) -> Result<(), ApiError> {
    let state = match (is_delivered, next) {
        (true, _) => State::Delivered,
        (false, Some(_)) => State::Pending,
        (false, None) => State::Failed,
    };
    tx.execute(
        "UPDATE delivery SET state = ?2, attempts = ?3, updated_at = ?4
         WHERE id = ?1 AND state = 'pending'",
        (&delivery.id, state.as_str(), attempt.number, tx.now),
    )?;
    let job = job(&delivery.queue, &delivery.id);
    match next {
        Some(at) => jobs::retry(tx, &job, at, delivery.retry + 1)?,
        None => drop(jobs::done(tx, &job)?),
    }
    insert_attempt(tx, &delivery.id, attempt)
}

/// Records the only attempt of a delivery outside of the schedule.
pub(crate) fn record_once(
    tx: &mut Tx<'_>,
    id: &str,
    is_delivered: bool,
    attempt: &Attempt,
) -> Result<(), ApiError> {
    let state = if is_delivered { State::Delivered } else { State::Failed };
    let sql = "UPDATE delivery SET state = ?2, attempts = 1, updated_at = ?3 WHERE id = ?1";
    tx.execute(sql, (id, state.as_str(), tx.now))?;
    jobs::done(tx, &job(UNDER_WAY, id))?;
    insert_attempt(tx, id, attempt)
}

/// Ends a pending delivery without another attempt.
pub(crate) fn end(tx: &mut Tx<'_>, webhook: &str, id: &str, state: State) -> Result<(), ApiError> {
    let sql = "UPDATE delivery SET state = ?2, updated_at = ?3 WHERE id = ?1 AND state = 'pending'";
    tx.execute(sql, (id, state.as_str(), tx.now))?;
    jobs::done(tx, &job(webhook, id))?;
    publish(tx, id)
}

/// Drops the pending deliveries to a webhook.
pub(crate) fn drop_all(tx: &Tx<'_>, webhook: &str) -> Result<(), ApiError> {
    jobs::clear(tx, &Queue::Webhook(webhook.to_owned()))?;
    let sql = "UPDATE delivery SET state = 'dropped', updated_at = ?2
               WHERE webhook = ?1 AND state = 'pending' RETURNING id";
    let dropped: Vec<String> = tx.reader().all(sql, (webhook, tx.now), |row| row.get(0))?;
    dropped.iter().try_for_each(|id| publish(tx, id))
}

/// Makes a delivery due now, `retry` attempts into its schedule.
pub(crate) fn repeat(
    tx: &mut Tx<'_>,
    organization: i64,
    delivery: &Delivery,
    retry: i64,
) -> Result<(), ApiError> {
    let sql = "UPDATE delivery SET state = 'pending', updated_at = ?2 WHERE id = ?1";
    tx.execute(sql, (&delivery.id, tx.now))?;
    let job = job(&delivery.webhook, &delivery.id);
    jobs::add(tx, organization, &job, tx.now, retry, delivery.email_id.as_deref())?;
    publish(tx, &delivery.id)
}

/// The deliveries of the events of an email, oldest first.
pub(crate) fn of_email(
    reader: Reader<'_>,
    email: &str,
    limit: i64,
) -> Result<Vec<Delivery>, ApiError> {
    let sql = format!("{SELECT} WHERE email = ?1 ORDER BY id LIMIT ?2");
    reader.all(&sql, (email, limit), read)
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
) -> Result<Vec<Delivery>, ApiError> {
    let DeliveryFilter { webhook, event, state, search } = filter;
    let of_webhook = match webhook {
        Some(_) => "webhook IN (SELECT id FROM webhook WHERE ?3 IN (id, url) UNION SELECT ?3)",
        None => "?3 IS NULL",
    };
    let sql = format!(
        "{SELECT} WHERE {of_webhook} AND organization = ?1 AND id < ?2
         AND (?4 IS NULL OR event = ?4) AND (?5 IS NULL OR state = ?5) ORDER BY id DESC LIMIT ?6"
    );
    let cursor = cursor.unwrap_or(PAST_EVERY_ID);
    let (state, wanted) = (state.map(State::as_str), limit + 1);
    let terms = search.as_deref().map(Terms::new);
    let rows = if terms.is_some() { MAX_SEARCHED } else { wanted } as i64;
    let mut found = reader.all(&sql, (organization, cursor, webhook, event, state, rows), read)?;
    if let Some(terms) = terms {
        found.retain(|delivery| {
            let Delivery { id, webhook, event, email_id, recipient, subject, state, .. } = delivery;
            let about = [email_id, recipient, subject].into_iter().flatten().map(String::as_str);
            terms.are_in([id, webhook, event, state.as_str()].into_iter().chain(about))
        });
        found.truncate(wanted);
    }
    Ok(found)
}

pub(crate) fn find(reader: Reader<'_>, id: &str, organization: i64) -> Result<Delivery, ApiError> {
    let sql = format!("{SELECT} WHERE id = ?1 AND organization = ?2");
    let found = reader.find(&sql, (id, organization), read)?;
    found.ok_or_else(|| ApiError::not_found("delivery"))
}

/// The exact request body of a delivery, which is JSON.
pub(crate) fn body(reader: Reader<'_>, id: &str) -> Result<Option<String>, ApiError> {
    let sql = "SELECT CAST(head || COALESCE(bytes, x'') || tail AS BLOB)
               FROM delivery d LEFT JOIN body b ON b.id = d.shared WHERE d.id = ?1";
    Ok(reader.find(sql, [id], |row| row.get(0))?.map(text))
}

/// Response bodies may be invalid UTF-8.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The size of the body of a delivery, in bytes, without reading it.
pub(crate) fn body_size(reader: Reader<'_>, id: &str) -> Result<usize, ApiError> {
    let sql = "SELECT octet_length(head) + COALESCE(octet_length(bytes), 0) + octet_length(tail)
               FROM delivery d LEFT JOIN body b ON b.id = d.shared WHERE d.id = ?1";
    let size: Option<i64> = reader.find(sql, [id], |row| row.get(0))?;
    Ok(size.unwrap_or(0) as usize)
}

/// Reads the columns that [`read`] does. `data` is what the event of an email is about; of a large
/// received message, only what follows its content.
const SELECT: &str = "SELECT id, webhook, service, event, email, state, attempts, created_at,
    updated_at, (SELECT due_at FROM job WHERE queue = webhook AND subject = delivery.id),
    json_extract(data, '$.recipient'),
    coalesce(json_extract(data, '$.subject'),
             (SELECT coalesce(m.subject, json_extract(e.fields, '$.subject'))
              FROM message m LEFT JOIN email e ON e.id = m.email
              WHERE m.id = json_extract(data, '$.messageId')))
    FROM (SELECT *, CASE
              WHEN service <> 'email' THEN NULL
              WHEN shared IS NULL THEN json_extract(CAST(head || tail AS TEXT), '$.data')
              WHEN event = 'email.received'
                  THEN '{' || CAST(substr(tail, 2, length(tail) - 2) AS TEXT)
              ELSE CAST((SELECT bytes FROM body WHERE body.id = shared) AS TEXT)
          END AS data FROM delivery) delivery";

/// A delivery without its body and its attempts. While it waits for an earlier delivery, it is due
/// at no time.
fn read(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    Ok(Delivery {
        id: row.get(0)?,
        webhook: row.get(1)?,
        service: row.get(2)?,
        event: row.get(3)?,
        email_id: row.get(4)?,
        state: row.get_ref(5)?.as_str()?.parse().unwrap_or(State::Dropped),
        attempt_count: row.get(6)?,
        created_at: row.get(7)?,
        updated_at: row.get(8)?,
        next_due_at: row.get(9)?,
        recipient: row.get(10)?,
        subject: row.get(11)?,
        body: None,
        attempts: None,
    })
}

/// Tells the clients that watch.
fn publish(tx: &Tx<'_>, id: &str) -> Result<(), ApiError> {
    let Some(organization) = owner(tx, id)? else { return Ok(()) };
    let delivery = find(tx.reader(), id, organization)?;
    tx.publish(Some(organization), || Notification::Delivery(delivery));
    Ok(())
}

/// The organization of a delivery, if a client watches.
fn owner(tx: &Tx<'_>, id: &str) -> Result<Option<i64>, ApiError> {
    if !tx.is_watched() {
        return Ok(None);
    }
    Ok(tx.find("SELECT organization FROM delivery WHERE id = ?1", [id], |row| row.get(0))?)
}

/// Stores an attempt, unless the delivery was deleted in the meantime.
fn insert_attempt(tx: &Tx<'_>, delivery: &str, attempt: &Attempt) -> Result<(), ApiError> {
    tx.execute(
        "INSERT OR REPLACE INTO attempt (delivery, number, started_at, duration_ms, url,
                                         request_headers, status, response_body, error)
         SELECT id, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 FROM delivery WHERE id = ?1",
        (
            delivery,
            attempt.number,
            attempt.started_at.timestamp_millis(),
            attempt.duration_ms,
            &attempt.url,
            serde_json::to_string(&attempt.request_headers).map_err(ApiError::internal)?,
            attempt.status,
            attempt.response_body.as_ref().map(String::as_bytes),
            &attempt.error,
        ),
    )?;
    publish(tx, delivery)?;
    if let Some(organization) = owner(tx, delivery)? {
        let attempt = Attempt { response_body: None, ..attempt.clone() };
        tx.publish(Some(organization), || Notification::Attempt(attempt));
    }
    Ok(())
}

/// The attempts of a delivery, oldest first. Only on request with the response bodies.
pub(crate) fn attempts(
    reader: Reader<'_>,
    delivery: &str,
    with_bodies: bool,
) -> Result<Vec<Attempt>, ApiError> {
    let sql = "SELECT number, started_at, duration_ms, url, request_headers, status, error,
                      CASE WHEN ?2 THEN response_body END
               FROM attempt WHERE delivery = ?1 ORDER BY number";
    reader.all(sql, (delivery, with_bodies), |row| {
        Ok(Attempt {
            delivery: delivery.to_owned(),
            number: row.get(0)?,
            started_at: row.get(1)?,
            duration_ms: row.get(2)?,
            url: row.get(3)?,
            request_headers: serde_json::from_str(row.get_ref(4)?.as_str()?).unwrap_or_default(),
            status: row.get(5)?,
            error: row.get(6)?,
            response_body: row.get::<_, Option<Vec<u8>>>(7)?.map(text),
        })
    })
}
