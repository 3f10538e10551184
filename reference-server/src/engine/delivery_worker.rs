//! Delivers the pending deliveries of one webhook, in order of their due time and
//! several at once. Each webhook has its own worker, so that a slow endpoint does not
//! delay the deliveries of others (`docs/undocumented/email-service.md#retry-schedule`,
//! `docs/undocumented/extraction-service.md#retry-schedule`).

use std::collections::{HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
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

/// Maximum number of concurrent attempts per endpoint.
const MAX_CONCURRENT: usize = 16;
/// Maximum number of deliveries read ahead.
const READ_AHEAD: usize = 64;
/// Maximum size of the bodies read ahead, in bytes: received mail may be large.
const READ_AHEAD_BYTES: usize = 4 << 20;

/// A due delivery that was read ahead.
struct Due {
    id: String,
    event: String,
    service: Service,
    attempts: i64,
    retry: i64,
    body: Vec<u8>,
}

/// Delivers until nothing is due any more or the server stops. Returns when the next of
/// the known deliveries is due. Deliveries written later are reported to the engine by
/// their transaction.
///
/// `more` makes the worker read again, so that a hanging attempt does not hold back
/// later deliveries.
pub(super) async fn run(app: &Shared, webhook: &str, more: &Notify) -> Result<Millis, ApiError> {
    let mut in_flight = FuturesUnordered::new();
    let mut in_flight_ids: HashSet<String> = HashSet::new();
    let mut waiting: VecDeque<Due> = VecDeque::new();
    let (mut read_more, mut next) = (true, Millis::MAX);
    loop {
        if *app.stopping.borrow() {
            (read_more, waiting) = (false, VecDeque::new());
        }
        if read_more && waiting.is_empty() && in_flight.len() < MAX_CONCURRENT {
            (waiting, read_more, next) = read_due(app, webhook, in_flight_ids.clone()).await?;
        }
        while in_flight.len() < MAX_CONCURRENT
            && let Some(due) = waiting.pop_front()
        {
            in_flight_ids.insert(due.id.clone());
            in_flight.push(deliver(app, webhook, due));
        }
        tokio::select! {
            ended = in_flight.next() => match ended {
                Some((id, result)) => {
                    result?;
                    in_flight_ids.remove(&id);
                }
                None if read_more => {}
                None => return Ok(next),
            },
            () = more.notified() => read_more = true,
        }
    }
}

/// Reads due deliveries that are not in flight yet, within the read-ahead limits. Also
/// returns whether there may be more, and when the next delivery after these is due.
async fn read_due(
    app: &Shared,
    webhook: &str,
    in_flight_ids: HashSet<String>,
) -> Result<(VecDeque<Due>, bool, Millis), ApiError> {
    let (webhook, now) = (webhook.to_owned(), app.clock.now());
    let limit = READ_AHEAD + in_flight_ids.len();
    app.store
        .read(move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT id, event, service, attempts, retry, body FROM delivery
                 JOIN delivery_body ON delivery = id
                 WHERE webhook = ?1 AND due_at <= ?2 ORDER BY due_at, id LIMIT ?3",
            )?;
            let mut rows = statement.query((&webhook, now, limit as i64))?;
            let (mut due, mut seen, mut bytes) = (VecDeque::new(), 0, 0);
            while bytes < READ_AHEAD_BYTES
                && let Some(row) = rows.next()?
            {
                seen += 1;
                let id: String = row.get(0)?;
                if in_flight_ids.contains(&id) {
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
            let more = seen == limit || bytes >= READ_AHEAD_BYTES;
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

/// Makes one attempt and records it. A delivery that falls due while its webhook is
/// inactive or deleted is dropped.
async fn deliver(app: &Shared, webhook: &str, due: Due) -> (String, Result<(), ApiError>) {
    let id = due.id.clone();
    let result = match app.webhooks.begin_attempt(webhook) {
        Some(in_flight) => {
            let webhook = Arc::clone(&in_flight.webhook);
            let number = due.attempts + 1;
            let body = Bytes::from(due.body);
            let kept = app.unrecorded.deliveries().get(&due.id).cloned();
            let sent = match kept {
                // Sent before, but the outcome could not be stored.
                Some(sent) => sent,
                None => {
                    let sent =
                        attempt(app, &webhook, due.service, &due.event, &due.id, number, body);
                    let sent = Arc::new(sent.await);
                    app.unrecorded.deliveries().insert(due.id.clone(), Arc::clone(&sent));
                    sent
                }
            };
            let retry = due.retry;
            let recorded = app
                .store
                .write_relaxed(move |tx| record(tx, &webhook, &due.id, retry, &sent))
                .await;
            if recorded.is_ok() {
                app.unrecorded.deliveries().remove(&id);
            }
            recorded
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

/// An attempt with the data that is recorded about it.
pub(crate) struct RecordedAttempt {
    number: i64,
    started_at: Millis,
    url: String,
    /// Request headers as a JSON object.
    headers: String,
    pub(crate) attempt: Attempt,
}

/// Signs and sends a delivery, with the webhook's current URL and secret.
pub(crate) async fn attempt(
    app: &Shared,
    webhook: &Webhook,
    service: Service,
    event: &str,
    id: &str,
    number: i64,
    body: Bytes,
) -> RecordedAttempt {
    let headers = sign::headers(service, &webhook.secret, event, id, number, &body);
    let recorded_headers: serde_json::Map<String, serde_json::Value> = headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().into()))
        .collect();
    let _slot = app.outbound.slot(webhook.organization).await;
    let started_at = app.clock.now();
    let attempt = match url::Url::parse(&webhook.url) {
        Ok(url) => post(app, &url, headers, body).await,
        Err(_) => Attempt { outcome: Err(AttemptError::InvalidUrl), duration: Duration::ZERO },
    };
    app.metrics.attempt(service, attempt.is_delivered());
    RecordedAttempt {
        number,
        started_at,
        url: without_password(&webhook.url),
        headers: serde_json::Value::Object(recorded_headers).to_string(),
        attempt,
    }
}

/// Posts the body. Waits while this machine has no free file descriptor: that is no failure
/// of the endpoint.
async fn post(app: &Shared, url: &url::Url, headers: http::HeaderMap, body: Bytes) -> Attempt {
    loop {
        let sending = app.outbound.post(url, headers.clone(), body.clone());
        // A defect must not be repeated for ever.
        let attempt = AssertUnwindSafe(sending)
            .catch_unwind()
            .await
            .unwrap_or(Attempt { outcome: Err(AttemptError::Internal), duration: Duration::ZERO });
        if !matches!(attempt.outcome, Err(AttemptError::NoDescriptor)) || *app.stopping.borrow() {
            return attempt;
        }
        tracing::warn!("a delivery waits for a free file descriptor");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// The URL with its password masked, for the record.
fn without_password(text: &str) -> String {
    match url::Url::parse(text) {
        // A URL with a password has a host, so its password can be replaced.
        Ok(mut url) if url.password().is_some() => {
            url.set_password(Some("***")).map_or_else(|()| String::new(), |()| url.into())
        }
        _ => text.to_owned(),
    }
}

/// Records an attempt and schedules the next one.
fn record(
    tx: &mut Tx<'_>,
    webhook: &Arc<Webhook>,
    id: &str,
    retry: i64,
    sent: &RecordedAttempt,
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
    // A delivery that was dropped in the meantime keeps its state and is not scheduled
    // again.
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

/// Inserts the row of the attempt.
pub(crate) fn record_attempt(
    tx: &Tx<'_>,
    id: &str,
    sent: &RecordedAttempt,
) -> Result<(), ApiError> {
    let (status, response_body, error) = match &sent.attempt.outcome {
        Ok(response) => (Some(response.status.as_u16()), Some(&response.body[..]), None),
        Err(error) => (None, None, Some(error.to_string())),
    };
    let duration = sent.attempt.duration.as_millis() as i64;
    tx.execute(
        "INSERT OR REPLACE INTO attempt (delivery, number, started_at, duration_ms, url, request_headers,
                              status, response_body, error)
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9
         WHERE EXISTS (SELECT 1 FROM delivery WHERE id = ?1)",
        (id, sent.number, sent.started_at, duration, &sent.url, &sent.headers, status, response_body, error),
    )?;
    Ok(())
}

/// The pause before each retry, in milliseconds after the previous attempt.
pub(crate) fn schedule(service: Service) -> &'static [Millis] {
    match service {
        Service::Email => &[2_000, 8_000, 32_000],
        Service::Extraction => &[2_000, 4_000, 8_000, 16_000, 32_000],
    }
}
