//! Applies a change to a recipient: the delivery into a mailbox, and the webhook events. The
//! deliveries of an event are written with their exact bytes in the transaction that causes it,
//! so that neither exists without the other.

use serde_json::Value;

use super::payload::Body;
use super::{Delivery, local, payload};
use crate::model::error::{ApiError, Code};
use crate::model::event::Event;
use crate::model::id::{self, Prefix};
use crate::model::status::{self, Change, Status};
use crate::model::time::{self, Millis};
use crate::store::Tx;
use crate::store::bodies::{self, NewBody};
use crate::store::deliveries::{self, NewDelivery};
use crate::store::emails::Stored;
use crate::store::webhooks::Webhooks;

/// Applies a change to one recipient and emits its events. The caller stores the email.
///
/// # Errors
///
/// `Conflict` (409) if the change is not possible in the recipient's status.
pub(crate) fn apply(
    tx: &mut Tx<'_>,
    delivery: &Delivery,
    email: &mut Stored,
    position: usize,
    change: Change,
    detail: Option<&Value>,
) -> Result<(), ApiError> {
    self::change(tx, delivery, email, position, change, detail)?;
    email.status = status::overall(&email.recipients);
    Ok(())
}

/// Like [`apply`], but leaves the status of the email to the caller, which may change many
/// recipients.
pub(crate) fn change(
    tx: &mut Tx<'_>,
    delivery: &Delivery,
    email: &mut Stored,
    position: usize,
    change: Change,
    detail: Option<&Value>,
) -> Result<(), ApiError> {
    let Some(from) = email.recipients.get(position).map(|recipient| recipient.status) else {
        return Ok(());
    };
    let Some(steps) = change.steps(from) else {
        let message =
            format!("this event is not possible for a recipient with the status {}", from.as_str());
        return Err(ApiError::new(Code::Conflict, message));
    };
    for (status, event) in steps {
        let last = event == change.event();
        let recipient = &mut email.recipients[position];
        recipient.status = status;
        if last {
            recipient.detail = detail.cloned().or(recipient.detail.take());
        }
        if status == Status::Delivered && event == Event::EmailDelivered {
            local::deliver(tx, delivery, email, &email.recipients[position].address)?;
        }
        let now = tx.now;
        let (organization, detail) = (email.organization, detail.filter(|_| last));
        email.note(now, status, Some(event.as_str()), Some(position));
        let of = Some(email.id.as_str());
        emit(tx, &delivery.webhooks, organization, event, of, |tx| {
            let recipient = &email.recipients[position];
            let data = payload::outgoing(email, recipient, event, detail, now)?;
            Part::new(data).store(tx, b"")
        })
        .map(drop)?;
        email.last_event = Some(event.as_str().to_owned());
    }
    email.updated_at = tx.now;
    Ok(())
}

/// Stores a delivery of an event for every active webhook that subscribes to it. `email` is the ID
/// of the email that it is about. Calls `data` only if there is a webhook. Returns the IDs of the
/// deliveries.
pub(crate) fn emit(
    tx: &mut Tx<'_>,
    webhooks: &Webhooks,
    organization: i64,
    event: Event,
    email: Option<&str>,
    data: impl FnOnce(&mut Tx<'_>) -> Result<Data, ApiError>,
) -> Result<Vec<String>, ApiError> {
    let subscribers = webhooks.subscribers(organization, event);
    if subscribers.is_empty() {
        return Ok(Vec::new());
    }
    let data = data(tx)?;
    let mut ids = Vec::with_capacity(subscribers.len());
    for webhook in subscribers {
        let id = id::new(Prefix::Delivery);
        let new = NewDelivery {
            id: &id,
            organization,
            webhook: &webhook.id,
            service: event.service(),
            event: event.as_str(),
            email,
            body: &body(event.as_str(), &id, tx.now, &data)?,
        };
        deliveries::insert(tx, &new)?;
        ids.push(id);
    }
    Ok(ids)
}

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

    /// Stores the part if it is large, and appends the rest.
    pub(crate) fn store(&self, tx: &Tx<'_>, rest: &[u8]) -> Result<Data, ApiError> {
        Ok(match self {
            Self::Small(json) => Data { shared: None, rest: [json, rest].concat() },
            Self::Large(body) => Data { shared: Some(bodies::put(tx, body)?), rest: rest.to_vec() },
        })
    }
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
