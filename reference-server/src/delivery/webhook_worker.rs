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

use super::shared_bodies::SharedBody;
use super::unrecorded::RecordedAttempt;
use super::{Delivery, sign};
use crate::model::error::{ApiError, Code};
use crate::model::heavy;
use crate::model::limit::Permit;
use crate::model::time::Millis;
use crate::model::worker::Worker;
use crate::net::DESCRIPTOR_WAIT;
use crate::net::outbound::{Attempt, AttemptError};
use crate::store::Tx;
use crate::store::attempts::{self, NewAttempt};
use crate::store::deliveries::{self, Body, Due, DueDeliveries, State};
use crate::store::in_progress::{Job, Kind};
use crate::store::webhooks::Webhook;
use svc_sdk::Service;

/// Maximum number of concurrent attempts per endpoint.
const MAX_CONCURRENT: usize = 16;
/// Maximum number of deliveries read ahead.
const READ_AHEAD: usize = 64;
/// Maximum size of the bodies read ahead, in bytes, without their shared bytes.
const READ_AHEAD_BYTES: usize = 4 << 20;

/// Delivers until nothing is due any more or the server stops. Returns when the next of
/// the known deliveries is due. Deliveries written later are reported to the engine by
/// their transaction.
///
/// `more` makes the worker read again, so that a hanging attempt does not hold back
/// later deliveries.
///
/// If the database fails, for example because the disk is full, no further attempt begins.
/// Those in flight are completed: an attempt without a known outcome would be repeated.
pub(crate) async fn run(
    delivery: &Arc<Delivery>,
    webhook: &str,
    more: &Notify,
) -> Result<Millis, ApiError> {
    let mut in_flight = FuturesUnordered::new();
    let mut in_flight_ids: HashSet<String> = HashSet::new();
    let mut waiting: VecDeque<Due> = VecDeque::new();
    let (mut read_more, mut next) = (true, Millis::MAX);
    let mut failure = None;
    loop {
        if delivery.stop.is_requested() || failure.is_some() {
            (read_more, waiting) = (false, VecDeque::new());
        }
        if read_more && waiting.is_empty() && in_flight.len() < MAX_CONCURRENT {
            match read_due(delivery, webhook, in_flight_ids.clone()).await {
                Ok(due) => (waiting, read_more, next) = (due.deliveries, due.more, due.next),
                Err(error) => {
                    failure = Some(error);
                    continue;
                }
            }
        }
        while in_flight.len() < MAX_CONCURRENT
            && let Some(due) = waiting.pop_front()
        {
            in_flight_ids.insert(due.id.clone());
            in_flight.push(deliver(delivery, webhook, due));
        }
        tokio::select! {
            ended = in_flight.next() => match ended {
                Some((id, Ok(()))) => {
                    in_flight_ids.remove(&id);
                }
                Some((_, Err(error))) => failure = failure.or(Some(error)),
                None if read_more => {}
                None => return failure.map_or(Ok(next), Err),
            },
            () = more.notified() => read_more = true,
        }
    }
}

/// Reads due deliveries that are not in flight yet, within the read-ahead limits. Also
/// returns whether there may be more, and when the next delivery after these is due.
async fn read_due(
    delivery: &Arc<Delivery>,
    webhook: &str,
    in_flight_ids: HashSet<String>,
) -> Result<DueDeliveries, ApiError> {
    let (webhook, now) = (webhook.to_owned(), delivery.clock.now());
    let limit = READ_AHEAD + in_flight_ids.len();
    delivery
        .store
        .read(move |reader| {
            deliveries::due(reader, &webhook, now, limit, READ_AHEAD_BYTES, &in_flight_ids)
        })
        .await
}

async fn deliver(
    delivery: &Arc<Delivery>,
    webhook: &str,
    due: Due,
) -> (String, Result<(), ApiError>) {
    let id = due.id.clone();
    // A defect must not end the attempts to other deliveries.
    let done = AssertUnwindSafe(deliver_due(delivery, webhook, due)).catch_unwind().await;
    let done = done.unwrap_or_else(|_| Err(ApiError::internal("a delivery panicked")));
    if let Err(error) = &done {
        delivery.store.in_progress.note(&Job::new(Kind::Delivery, &id), error);
    }
    (id, done)
}

/// Makes one attempt and records it. A delivery that falls due while its webhook is
/// inactive or deleted is dropped. None begins once the server stops.
async fn deliver_due(delivery: &Arc<Delivery>, webhook: &str, due: Due) -> Result<(), ApiError> {
    let Due { id, event, service, attempts, retry, body } = due;
    let dropped = id.clone();
    let drop_pending =
        || delivery.store.write_relaxed(move |tx| deliveries::drop_pending(tx, &dropped));
    let Some(current) = delivery.webhooks.get(webhook).filter(|webhook| webhook.active) else {
        return drop_pending().await;
    };
    let kept = delivery.unrecorded.deliveries().get(&id).cloned();
    let (in_flight, sent) = if let Some(sent) = kept {
        // Sent before, but the outcome could not be stored.
        (delivery.webhooks.begin_attempt(webhook), Some(sent))
    } else {
        let ready = tokio::select! {
            ready = prepare(delivery, current.organization, body) => ready,
            () = delivery.stop.requested() => return Ok(()),
        };
        let ready = match ready {
            Ok(ready) => ready,
            // The delivery was deleted.
            Err(error) if error.code() == Code::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if delivery.stop.is_requested() {
            return Ok(());
        }
        // The webhook may have changed during the wait.
        let in_flight = delivery.webhooks.begin_attempt(webhook);
        let sent = match &in_flight {
            Some(in_flight) => {
                let event = Event { service, name: &event, id: &id };
                let sent = send(delivery, &in_flight.webhook, event, attempts + 1, ready).await?;
                let sent = Arc::new(sent);
                delivery.unrecorded.deliveries().insert(id.clone(), Arc::clone(&sent));
                Some(sent)
            }
            None => None,
        };
        (in_flight, sent)
    };
    let (Some(in_flight), Some(sent)) = (in_flight, sent) else { return drop_pending().await };
    let (webhook, recorded) = (Arc::clone(&in_flight.webhook), id.clone());
    let write = move |tx: &mut Tx<'_>| record(tx, &webhook, &recorded, retry, &sent);
    delivery.store.write_relaxed(write).await?;
    delivery.unrecorded.deliveries().remove(&id);
    Ok(())
}

/// What a delivery is about.
#[derive(Clone, Copy)]
pub(crate) struct Event<'a> {
    pub(crate) service: Service,
    pub(crate) name: &'a str,
    /// The id of the delivery.
    pub(crate) id: &'a str,
}

/// Waits until an attempt may begin, and makes it with the URL and the secret that the webhook
/// has then. Returns `None` if the webhook was deleted in the meantime.
///
/// # Errors
///
/// If the body cannot be read, or the server stops. The delivery was not sent then.
pub(crate) async fn attempt(
    delivery: &Arc<Delivery>,
    webhook: &Webhook,
    event: Event<'_>,
    number: i64,
    body: Body,
) -> Result<Option<RecordedAttempt>, ApiError> {
    let ready = prepare(delivery, webhook.organization, body).await?;
    let Some(in_flight) = delivery.webhooks.begin_test(&webhook.id) else { return Ok(None) };
    send(delivery, &in_flight.webhook, event, number, ready).await.map(Some)
}

/// The bytes of an attempt that may begin.
struct Ready {
    parts: [Bytes; 3],
    _permit: Permit,
    _shared: Option<Arc<SharedBody>>,
}

/// Waits until an attempt may begin and there is memory for its bytes.
async fn prepare(delivery: &Delivery, organization: i64, body: Body) -> Result<Ready, ApiError> {
    let permit = delivery.outbound.permit().await;
    let shared = match body.shared {
        Some(id) => Some(delivery.bodies.get(&delivery.store, organization, id).await?),
        None => None,
    };
    let shared_bytes = shared.as_ref().map(|shared| shared.bytes()).unwrap_or_default();
    let parts = [body.head.into(), shared_bytes, body.tail.into()];
    Ok(Ready { parts, _permit: permit, _shared: shared })
}

/// Signs and sends a delivery that may begin.
async fn send(
    delivery: &Delivery,
    webhook: &Webhook,
    event: Event<'_>,
    number: i64,
    ready: Ready,
) -> Result<RecordedAttempt, ApiError> {
    let parts = ready.parts.clone();
    let headers = sign(delivery, webhook, event, number, &parts).await?;
    let recorded_headers: serde_json::Map<String, serde_json::Value> = headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().into()))
        .collect();
    let started_at = delivery.clock.now();
    let attempt = match url::Url::parse(&webhook.url) {
        Ok(url) => post(delivery, &url, headers, &parts).await?,
        Err(_) => Attempt { outcome: Err(AttemptError::InvalidUrl), duration: Duration::ZERO },
    };
    delivery.metrics.attempt(event.service, attempt.is_delivered());
    Ok(RecordedAttempt {
        number,
        started_at,
        url: without_password(&webhook.url),
        headers: serde_json::Value::Object(recorded_headers).to_string(),
        attempt,
    })
}

/// The headers of an attempt.
async fn sign(
    delivery: &Delivery,
    webhook: &Webhook,
    event: Event<'_>,
    number: i64,
    parts: &[Bytes; 3],
) -> Result<http::HeaderMap, ApiError> {
    const LARGE: usize = 1 << 20;
    let (secret, parts) = (webhook.secret.clone(), parts.clone());
    let (service, name, id) = (event.service, event.name.to_owned(), event.id.to_owned());
    let is_large = parts[1].len() > LARGE;
    let may_block = delivery.store.in_progress.takes_turns();
    let (store, job) = (Arc::clone(&delivery.store), Job::new(Kind::Delivery, event.id));
    let hash = move || {
        let headers = || Ok(sign::headers(service, &secret, &name, &id, number, &parts));
        store.in_progress.run(job, headers)
    };
    if is_large {
        heavy::run(hash).await
    } else if may_block {
        heavy::run_aside(0, hash).await
    } else {
        hash()
    }
}

/// Posts the body. If this process has no free file descriptor, waits until it has one,
/// because the endpoint has not failed.
///
/// # Errors
///
/// If the server stops before there is one. The body was not sent then.
async fn post(
    delivery: &Delivery,
    url: &url::Url,
    headers: http::HeaderMap,
    body: &[Bytes],
) -> Result<Attempt, ApiError> {
    loop {
        let sending = delivery.outbound.post(url, headers.clone(), body);
        // A defect must not be repeated for ever.
        let attempt = AssertUnwindSafe(sending)
            .catch_unwind()
            .await
            .unwrap_or(Attempt { outcome: Err(AttemptError::Internal), duration: Duration::ZERO });
        if !matches!(attempt.outcome, Err(AttemptError::NoDescriptor)) {
            return Ok(attempt);
        }
        tracing::warn!("a delivery waits for a free file descriptor");
        tokio::select! {
            () = tokio::time::sleep(DESCRIPTOR_WAIT) => {}
            () = delivery.stop.requested() => {
                return Err(ApiError::new(Code::Unavailable, "the server is stopping"));
            }
        }
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
        (true, _) => State::Delivered,
        (false, Some(_)) => State::Pending,
        (false, None) => State::Failed,
    };
    let changed = deliveries::record(tx, id, state, sent.number, retry + 1, next)?;
    if let Some(next) = next
        && changed
    {
        tx.worker_due(Worker::Webhook(webhook.id.clone()), next);
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
    let attempt = NewAttempt {
        number: sent.number,
        started_at: sent.started_at,
        duration_ms: sent.attempt.duration.as_millis() as i64,
        url: &sent.url,
        request_headers: &sent.headers,
        status,
        response_body,
        error,
    };
    attempts::put(tx, id, &attempt)
}

/// The pause before each retry, in milliseconds after the previous attempt.
pub(crate) fn schedule(service: Service) -> &'static [Millis] {
    match service {
        Service::Email => &[2_000, 8_000, 32_000],
        _ => &[2_000, 4_000, 8_000, 16_000, 32_000],
    }
}
