//! Turns events into deliveries. A delivery is written with its exact bytes in the
//! transaction that causes the event, so that neither exists without the other.

use serde::Serialize;
use serde_json::Value;

use super::payload::Body;
use crate::model::error::ApiError;
use crate::model::event::Event;
use crate::model::id::{self, Prefix};
use crate::model::time::{self, Millis};
use crate::store::Tx;
use crate::store::deliveries::{self, NewDelivery};
use crate::store::webhooks::Webhooks;

/// Queues an event for every active webhook that subscribes to it. Calls `data` only if
/// there is one. Returns the ids of the deliveries.
pub(crate) fn emit(
    tx: &mut Tx<'_>,
    webhooks: &Webhooks,
    organization: i64,
    event: Event,
    data: impl FnOnce() -> Result<Value, ApiError>,
) -> Result<Vec<String>, ApiError> {
    let subscribers = webhooks.subscribers(organization, event);
    if subscribers.is_empty() {
        return Ok(Vec::new());
    }
    let data = data()?;
    let mut ids = Vec::with_capacity(subscribers.len());
    for webhook in subscribers {
        let id = id::new(Prefix::Delivery);
        let body = body(event.as_str(), &id, tx.now, &data)?;
        let new = NewDelivery {
            id: &id,
            organization,
            webhook: &webhook.id,
            service: event.service(),
            event: event.as_str(),
            body: &body,
        };
        deliveries::insert_pending(tx, &new)?;
        ids.push(id);
    }
    Ok(ids)
}

/// The body of a delivery (`docs/extraction-service/events.md`,
/// `docs/undocumented/email-service.md#delivery-payload`).
pub(crate) fn body(
    event: &str,
    id: &str,
    created: Millis,
    data: &impl Serialize,
) -> Result<Vec<u8>, ApiError> {
    let body = Body { event, id, created: time::rfc3339(created), data };
    serde_json::to_vec(&body).map_err(ApiError::internal)
}
