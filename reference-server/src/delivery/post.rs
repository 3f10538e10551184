//! Turns events into deliveries. A delivery is written with its exact bytes in the
//! transaction that causes the event, so that neither exists without the other.
//!
//! If a transaction causes too many deliveries, it stores the further events with their
//! data instead (`store/pending_events.rs`), and [`run`] writes the deliveries of these in
//! transactions of their own.

use std::sync::Arc;

use super::Delivery;
use super::payload::Body;
use crate::model::error::ApiError;
use crate::model::event::Event;
use crate::model::id::{self, Prefix};
use crate::model::time::{self, Millis};
use crate::store::bodies::{self, NewBody};
use crate::store::deliveries::{self, NewDelivery};
use crate::store::in_progress::{Job, Kind};
use crate::store::pending_events::{self, NewPendingEvent, PendingEvent};
use crate::store::webhooks::{Webhook, Webhooks};
use crate::store::{Store, Tx};

/// The data of an event as JSON, in two parts.
pub(crate) struct Data {
    /// The id of the first part, if it is stored once for all deliveries that have it.
    pub(crate) shared: Option<i64>,
    pub(crate) rest: Vec<u8>,
}

/// The first part of the data of an event, not stored yet.
pub(crate) enum Part {
    Small(Vec<u8>),
    /// Is stored once.
    Large(NewBody),
}

/// Size, in bytes, from which a part of a body is stored once: a reference to a smaller one
/// would cost as much.
const MIN_SHARED: usize = 1024;

impl Part {
    /// Costs a hash of the bytes, if there are many.
    pub(crate) fn new(json: Vec<u8>) -> Self {
        if json.len() < MIN_SHARED { Self::Small(json) } else { Self::Large(NewBody::new(json)) }
    }

    /// Stores the part in pieces if it is very large (see [`NewBody::stage`]).
    pub(crate) async fn stage(&mut self, store: &Store) -> Result<(), ApiError> {
        match self {
            Self::Small(_) => Ok(()),
            Self::Large(body) => body.stage(store).await,
        }
    }

    /// Stores the part if it is large, and appends the rest.
    pub(crate) fn store(&self, tx: &mut Tx<'_>, rest: &[u8]) -> Result<Data, ApiError> {
        Ok(match self {
            Self::Small(json) => Data { shared: None, rest: [json, rest].concat() },
            Self::Large(body) => Data { shared: Some(bodies::put(tx, body)?), rest: rest.to_vec() },
        })
    }
}

/// Queues an event for every active webhook that subscribes to it. `email` is the ID of the email
/// that it is about. Calls `data` only if there is a webhook.
pub(crate) fn emit(
    tx: &mut Tx<'_>,
    webhooks: &Webhooks,
    organization: i64,
    event: Event,
    email: Option<&str>,
    data: impl FnOnce(&mut Tx<'_>) -> Result<Data, ApiError>,
) -> Result<(), ApiError> {
    let subscribers = webhooks.subscribers(organization, event);
    let Some(last) = subscribers.last() else { return Ok(()) };
    let data = data(tx)?;
    if deliveries::has_room(tx, subscribers.len()) {
        return write_all(tx, event, &subscribers, email, &data).map(drop);
    }
    let new = NewPendingEvent {
        organization,
        event: event.as_str(),
        email,
        shared: data.shared,
        data: &data.rest,
        last: &last.id,
    };
    pending_events::insert(tx, &new)
}

/// Like [`emit`], in this transaction in any case. Returns the ids of the deliveries.
pub(crate) fn emit_at_once(
    tx: &mut Tx<'_>,
    webhooks: &Webhooks,
    organization: i64,
    event: Event,
    data: &Part,
) -> Result<Vec<String>, ApiError> {
    let subscribers = webhooks.subscribers(organization, event);
    if subscribers.is_empty() {
        return Ok(Vec::new());
    }
    let data = data.store(tx, b"")?;
    write_all(tx, event, &subscribers, None, &data)
}

fn write_all(
    tx: &mut Tx<'_>,
    event: Event,
    subscribers: &[Arc<Webhook>],
    email: Option<&str>,
    data: &Data,
) -> Result<Vec<String>, ApiError> {
    let now = tx.now;
    subscribers.iter().map(|webhook| write(tx, event, webhook, now, email, data)).collect()
}

/// Writes one delivery of an event at `created`. Returns its id.
fn write(
    tx: &mut Tx<'_>,
    event: Event,
    webhook: &Webhook,
    created: Millis,
    email: Option<&str>,
    data: &Data,
) -> Result<String, ApiError> {
    let id = id::new(Prefix::Delivery);
    let new = NewDelivery {
        id: &id,
        organization: webhook.organization,
        webhook: &webhook.id,
        service: event.service(),
        event: event.as_str(),
        email,
        body: &body(event.as_str(), &id, created, data)?,
    };
    deliveries::insert_pending(tx, &new, created)?;
    Ok(id)
}

/// The body of a delivery (`docs/extraction-service/events.md`,
/// `docs/undocumented/email-service.md#delivery-payload`).
pub(crate) fn body(
    event: &str,
    id: &str,
    created: Millis,
    data: &Data,
) -> Result<deliveries::Body, ApiError> {
    let empty = Body { event, id, created: time::rfc3339(created), data: () };
    let mut head = serde_json::to_vec(&empty).map_err(ApiError::internal)?;
    // The data takes the place of the `null` that `()` is.
    head.truncate(head.len() - "null}".len());
    let mut tail = Vec::new();
    let end = if data.shared.is_some() { &mut tail } else { &mut head };
    end.extend_from_slice(&data.rest);
    end.push(b'}');
    Ok(deliveries::Body { head, shared: data.shared, tail })
}

/// Number of deliveries in one transaction of [`run`]. It writes fewer while requests wait.
const SLICE: usize = 256;

/// Writes the deliveries of the pending events, until none is left or the server stops.
pub(crate) async fn run(delivery: &Arc<Delivery>) -> Result<Millis, ApiError> {
    let mut organization = Some(i64::MIN);
    while let Some(after) = organization
        && !delivery.stop.is_requested()
    {
        let context = Arc::clone(delivery);
        let slice = delivery.store.write_relaxed(move |tx| write_slice(tx, &context, after));
        organization = slice.await?;
    }
    Ok(Millis::MAX)
}

/// Writes some deliveries of pending events, beginning with the organization after this one,
/// so that none waits for all events of another. Returns the last organization, or `None` if
/// no event is left.
fn write_slice(
    tx: &mut Tx<'_>,
    delivery: &Delivery,
    mut organization: i64,
) -> Result<Option<i64>, ApiError> {
    let (limit, mut done) = (tx.share(SLICE), 0);
    let mut jobs = delivery.store.in_progress.series();
    while done < limit {
        let Some(pending) = pending_events::next_after(tx.reader(), organization)? else {
            return Ok(None);
        };
        organization = pending.organization;
        let job = Job::new(Kind::Event, pending.job_id());
        let write = || write_pending(tx, &delivery.webhooks, pending, limit - done);
        // An event counts even if its webhooks are deleted.
        done += 1 + jobs.run(job, write)?;
    }
    Ok(Some(organization))
}

/// Writes at most `limit` deliveries of a pending event. Returns their number.
fn write_pending(
    tx: &mut Tx<'_>,
    webhooks: &Webhooks,
    mut pending: PendingEvent,
    limit: usize,
) -> Result<usize, ApiError> {
    let event = Event::ALL.iter().copied().find(|event| event.as_str() == pending.event);
    let Some(event) = event else {
        pending_events::delete(tx, &pending)?;
        return Ok(0);
    };
    let mut subscribers = webhooks.subscribers(pending.organization, event);
    subscribers.retain(|webhook| webhook.id > pending.after && webhook.id <= pending.last);
    let is_last = subscribers.len() <= limit;
    subscribers.truncate(limit);
    let data = Data { shared: pending.shared, rest: std::mem::take(&mut pending.data) };
    for webhook in &subscribers {
        write(tx, event, webhook, pending.created_at, pending.email.as_deref(), &data)?;
    }
    match subscribers.last() {
        Some(webhook) if !is_last => pending_events::advance(tx, &pending, &webhook.id)?,
        _ => pending_events::delete(tx, &pending)?,
    }
    Ok(subscribers.len())
}
