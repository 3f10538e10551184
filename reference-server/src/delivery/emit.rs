//! Turns events into deliveries. A delivery is stored with its exact bytes in the transaction that
//! causes the event, so that neither exists without the other.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svc_sdk::{Dialect, Point, Service};

use crate::model::error::ApiError;
use crate::model::event::Event;
use crate::model::schema;
use crate::model::time::{self, Millis};
use crate::store::Tx;
use crate::store::bodies::{self, NewBody};
use crate::store::deliveries::{self, Delivery};
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

/// What an event is about.
#[derive(Clone, Copy, Default)]
pub(crate) struct About<'a> {
    /// The ID of the email.
    pub(crate) email: Option<&'a str>,
    pub(crate) recipient: Option<&'a str>,
    pub(crate) subject: Option<&'a str>,
}

/// Stores a delivery of an event for every active webhook that subscribes to it. Calls `data` only
/// if there is a webhook. Returns the IDs of the deliveries.
pub(crate) fn emit(
    tx: &mut Tx<'_>,
    organization: i64,
    event: Event,
    about: About<'_>,
    data: impl FnOnce(&mut Tx<'_>) -> Result<Data, ApiError>,
) -> Result<Vec<String>, ApiError> {
    let subscribers = webhooks::subscribers(tx.reader(), organization, event)?;
    if subscribers.is_empty() {
        return Ok(Vec::new());
    }
    let mut data = data(tx)?;
    if data.shared.is_none() && data.rest.len() >= MIN_SHARED {
        let shared = NewBody::new(std::mem::take(&mut data.rest));
        data.shared = Some(bodies::put(tx, &shared)?);
    }
    let mut ids = Vec::with_capacity(subscribers.len());
    for webhook in subscribers {
        let new = Delivery {
            email_id: about.email.map(str::to_owned),
            recipient: about.recipient.map(str::to_owned),
            subject: about.subject.map(str::to_owned),
            ..deliveries::new(webhook, event.service(), event.as_str(), tx.now)
        };
        let body = body(
            tx.dialect(),
            event.service(),
            event.as_str(),
            &new.id,
            tx.now,
            &data,
        )?;
        deliveries::insert(tx, organization, &new, &body)?;
        deliveries::schedule(tx, organization, &new, 0)?;
        ids.push(new.id);
    }
    Ok(ids)
}

/// The data of an event as JSON, in two parts.
pub(crate) struct Data {
    /// The id of the first part, if it is stored once for all deliveries that have it.
    pub(crate) shared: Option<i64>,
    pub(crate) rest: Vec<u8>,
}

/// Size, in bytes, from which data is stored once: a reference to less would cost as much.
const MIN_SHARED: usize = 1024;

/// The body of a delivery (`docs/extraction-service/README.md#events`,
/// `docs/undocumented/services.md#delivery-payload`). That of the extraction service is documented.
pub(crate) fn body(
    dialect: &Dialect,
    service: Service,
    event: &str,
    id: &str,
    created: Millis,
    data: &Data,
) -> Result<deliveries::Body, ApiError> {
    let name = |point: Point| match service {
        Service::Email => dialect.choice(point),
        _ => point.default_choice(),
    };
    let is_array = name(Point::DeliveryBody) == "array";
    // The data goes last, and takes the place of what follows its name.
    let mut head = if is_array {
        b"[{".to_vec()
    } else {
        b"{".to_vec()
    };
    let created = time::rfc3339(created);
    for (point, value) in [
        (Point::DeliveryEvent, event),
        (Point::DeliveryId, id),
        (Point::DeliveryTime, &created),
    ] {
        let (name, value) = (Value::from(name(point)), Value::from(value));
        head.extend_from_slice(format!("{name}:{value},").as_bytes());
    }
    let data_name = Value::from(name(Point::DeliveryData));
    head.extend_from_slice(format!("{data_name}:").as_bytes());
    let mut tail = Vec::new();
    let end = if data.shared.is_some() {
        &mut tail
    } else {
        &mut head
    };
    end.extend_from_slice(&data.rest);
    end.extend_from_slice(if is_array { b"}]" } else { b"}" });
    Ok(deliveries::Body {
        head,
        shared: data.shared,
        tail,
    })
}
