//! A delivery_worker takes one webhook's deliveries out, in order of due time and so
//! many at once: a slow endpoint holds up nobody else's (`docs/undocumented/extraction-service.md#retry-schedule`, `docs/undocumented/email-service.md#retry-schedule`).

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Notify;

use super::sign;
use crate::app::Shared;
use crate::error::ApiError;
use crate::keys::service_from;
use crate::outbound::{Attempt, AttemptError};
use crate::store::Tx;
use crate::time::Millis;
use crate::webhooks::Webhook;
use svc_sdk::Service;

/// Attempts at one endpoint at the same time.
const MAX_CONCURRENT: usize = 16;
/// Deliveries read ahead.
const READ_AHEAD: usize = 64;
/// Bytes of their bodies: received mail may be large.
const AHEAD_BYTES: usize = 4 << 20;

struct Due {
    id: String,
    event: String,
    service: Service,
    attempts: i64,
    retry: i64,
    body: Vec<u8>,
}

/// Delivers until nothing is due any more, or the server stops; says when the
/// next delivery is of those that were there when it looked: those that are
/// written later the engine is told of. `more` tells it to look again: an
/// attempt that hangs does not keep its endpoint from what comes after.
pub(super) async fn run(app: &Shared, webhook: &str, more: &Notify) -> Result<Millis, ApiError> {
    let mut under_way = FuturesUnordered::new();
    let mut taken: HashSet<String> = HashSet::new();
    let mut waiting: VecDeque<Due> = VecDeque::new();
    let (mut look, mut next) = (true, Millis::MAX);
    loop {
        if *app.stopping.borrow() {
            (look, waiting) = (false, VecDeque::new());
        }
        if look && waiting.is_empty() && under_way.len() < MAX_CONCURRENT {
            (waiting, look, next) = read_due(app, webhook, taken.clone()).await?;
        }
        while under_way.len() < MAX_CONCURRENT
            && let Some(due) = waiting.pop_front()
        {
            taken.insert(due.id.clone());
            under_way.push(deliver(app, webhook, due));
        }
        tokio::select! {
            ended = under_way.next() => match ended {
                Some((id, result)) => {
                    result?;
                    taken.remove(&id);
                }
                None if look => {}
                None => return Ok(next),
            },
            () = more.notified() => look = true,
        }
    }
}

/// What is due and not yet taken, as far as is read ahead; whether there may be
/// more; and when the one after all of these is.
async fn read_due(
    app: &Shared,
    webhook: &str,
    taken: HashSet<String>,
) -> Result<(VecDeque<Due>, bool, Millis), ApiError> {
    let (webhook, now) = (webhook.to_owned(), app.clock.now());
    let limit = READ_AHEAD + taken.len();
    app.store
        .read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT id, event, service, attempts, retry, body FROM delivery
                 JOIN delivery_body ON delivery = id
                 WHERE webhook = ?1 AND due_at <= ?2 ORDER BY due_at, id LIMIT ?3",
            )?;
            let mut rows = statement.query((&webhook, now, limit as i64))?;
            let (mut due, mut seen, mut bytes) = (VecDeque::new(), 0, 0);
            while bytes < AHEAD_BYTES
                && let Some(row) = rows.next()?
            {
                seen += 1;
                let id: String = row.get(0)?;
                if taken.contains(&id) {
                    continue;
                }
                let body: Vec<u8> = row.get(5)?;
                bytes += body.len();
                due.push_back(Due {
                    id,
                    event: row.get(1)?,
                    service: service_from(&row.get::<_, String>(2)?),
                    attempts: row.get(3)?,
                    retry: row.get(4)?,
                    body,
                });
            }
            let more = seen == limit || bytes >= AHEAD_BYTES;
            let next = crate::store::find(
                connection,
                "SELECT due_at FROM delivery WHERE webhook = ?1 AND due_at > ?2
                 ORDER BY due_at LIMIT 1",
                (&webhook, now),
                |row| row.get(0),
            )?;
            Ok((due, more, next.unwrap_or(Millis::MAX)))
        })
        .await
}

/// Makes one attempt and records it. What falls due while the webhook is
/// inactive or gone is dropped.
async fn deliver(app: &Shared, webhook: &str, due: Due) -> (String, Result<(), ApiError>) {
    let id = due.id.clone();
    let result = match app.webhooks.begin(webhook) {
        Some(under_way) => {
            let webhook = Arc::clone(&under_way.webhook);
            let number = due.attempts + 1;
            let body = Bytes::from(due.body);
            let sent = attempt(app, &webhook, due.service, &due.event, &due.id, number, body).await;
            let retry = due.retry;
            app.store.write_relaxed(move |tx| record(tx, &webhook, &due.id, retry, &sent)).await
        }
        None => app.store.write_relaxed(move |tx| drop_delivery(tx, &due.id)).await,
    };
    (id, result)
}

fn drop_delivery(tx: &mut Tx<'_>, id: &str) -> Result<(), ApiError> {
    tx.execute(
        "UPDATE delivery SET state = 'dropped', due_at = NULL, updated_at = ?2
         WHERE id = ?1 AND state = 'pending'",
        (id, tx.now),
    )?;
    Ok(())
}

/// An attempt that was made, as it is recorded.
pub(crate) struct Sent {
    number: i64,
    started_at: Millis,
    url: String,
    /// JSON.
    headers: String,
    pub(crate) attempt: Attempt,
}

/// Signs and sends with the webhook's url and secret as they are now.
pub(crate) async fn attempt(
    app: &Shared,
    webhook: &Webhook,
    service: Service,
    event: &str,
    id: &str,
    number: i64,
    body: Bytes,
) -> Sent {
    let headers = sign::headers(service, &webhook.secret, event, id, number, &body);
    let shown: serde_json::Map<String, serde_json::Value> = headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().into()))
        .collect();
    let started_at = app.clock.now();
    let attempt = match url::Url::parse(&webhook.url) {
        Ok(url) => app.outbound.post(&url, headers, body).await,
        Err(_) => Attempt { outcome: Err(AttemptError::InvalidUrl), duration: Duration::ZERO },
    };
    app.metrics.attempt(service, attempt.is_delivered());
    Sent {
        number,
        started_at,
        url: without_password(&webhook.url),
        headers: serde_json::Value::Object(shown).to_string(),
        attempt,
    }
}

/// The URL as it is recorded.
fn without_password(text: &str) -> String {
    match url::Url::parse(text) {
        // A URL with a password has a host, so that another one can be set.
        Ok(mut url) if url.password().is_some() => {
            url.set_password(Some("***")).map_or_else(|()| String::new(), |()| url.into())
        }
        _ => text.to_owned(),
    }
}

/// Writes an attempt down, and when the next one is.
fn record(
    tx: &mut Tx<'_>,
    webhook: &Arc<Webhook>,
    id: &str,
    retry: i64,
    sent: &Sent,
) -> Result<(), ApiError> {
    let schedule = schedule(webhook.service);
    let delivered = sent.attempt.is_delivered();
    let pause = usize::try_from(retry).ok().and_then(|retry| schedule.get(retry));
    let next = pause.filter(|_| !delivered).map(|pause| tx.now + pause);
    let state = match (delivered, next) {
        (true, _) => "delivered",
        (false, Some(_)) => "pending",
        (false, None) => "failed",
    };
    // Deleted meanwhile, it keeps its state and is not due again.
    let changed = tx.execute(
        "UPDATE delivery SET state = ?2, attempts = ?3, retry = ?4, due_at = ?5, updated_at = ?6
         WHERE id = ?1 AND state = 'pending'",
        (id, state, sent.number, retry + 1, next, tx.now),
    )?;
    if let Some(next) = next
        && changed > 0
    {
        tx.delivery_due(&webhook.id, next);
    }
    record_attempt(tx, id, sent)
}

/// Writes the attempt itself down.
pub(crate) fn record_attempt(tx: &Tx<'_>, id: &str, sent: &Sent) -> Result<(), ApiError> {
    let (status, answer, error) = match &sent.attempt.outcome {
        Ok(answer) => (Some(answer.status.as_u16()), Some(&answer.body[..]), None),
        Err(error) => (None, None, Some(error.to_string())),
    };
    let duration = sent.attempt.duration.as_millis() as i64;
    tx.execute(
        "INSERT OR REPLACE INTO attempt (delivery, number, started_at, duration_ms, url, request_headers,
                              status, answer, error)
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9
         WHERE EXISTS (SELECT 1 FROM delivery WHERE id = ?1)",
        (id, sent.number, sent.started_at, duration, &sent.url, &sent.headers, status, answer, error),
    )?;
    Ok(())
}

/// The pauses before each retry, after the attempt before it.
pub(crate) fn schedule(service: Service) -> &'static [Millis] {
    match service {
        Service::Email => &[2_000, 8_000, 32_000],
        Service::Extraction => &[2_000, 4_000, 8_000, 16_000, 32_000],
    }
}
