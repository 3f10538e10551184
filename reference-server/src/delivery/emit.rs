//! Turns events into deliveries. A delivery is stored with its exact bytes in the transaction that
//! causes the event, so that neither exists without the other.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::error::ApiError;
use crate::model::event::Event;
use crate::model::id::{self, Prefix};
use crate::model::schema;
use crate::model::time::{self, Millis};
use crate::store::Tx;
use crate::store::bodies::{self, NewBody};
use crate::store::deliveries::{self, NewDelivery};
use crate::store::webhooks;

/// The body of a delivery.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{D}Delivery")]
pub(crate) struct Body<'a, D> {
    pub(crate) event: &'a str,
    /// The same for every attempt and every replay.
    #[schemars(extend("format" = "uuid"))]
    pub(crate) id: &'a str,
    #[schemars(with = "schema::Time")]
    pub(crate) created: String,
    pub(crate) data: D,
}

/// Stores a delivery of an event for every active webhook that subscribes to it. `email` is the ID
/// of the email that it is about. Calls `data` only if there is a webhook. Returns the IDs of the
/// deliveries.
pub(crate) fn emit(
    tx: &mut Tx<'_>,
    organization: i64,
    event: Event,
    email: Option<&str>,
    data: impl FnOnce(&mut Tx<'_>) -> Result<Data, ApiError>,
) -> Result<Vec<String>, ApiError> {
    let subscribers = webhooks::subscribers(tx.reader(), organization, event)?;
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
            webhook: &webhook,
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

/// The body of a delivery (`docs/extraction-service/README.md#events`,
/// `docs/undocumented/services.md#delivery-payload`).
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
