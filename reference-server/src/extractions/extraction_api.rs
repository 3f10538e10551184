//! `POST /_sandbox/extractions`: simulates a completed or failed extraction and delivers
//! the event to webhooks
//! (`docs/undocumented/services.md#operations-not-covered`).

use serde_json::{Value, json};
use svc_sdk::{Dialect, Point, Service};

use crate::deliveries::delivery_rules::{About, Data, emit};
use crate::extractions::extraction_wire::{Extraction, NewExtraction};
use crate::http::ControlCall;
use crate::model::{Event, Failure, Result, id};
use crate::store::Tx;

/// Every subscribed endpoint gets a delivery with its own ID. `id` in the response is
/// the first of them.
pub(crate) async fn simulate(call: ControlCall<NewExtraction>) -> Result<Extraction> {
    let NewExtraction { event, data, .. } = call.body;
    let Some(event) = Event::parse(Service::Extraction, &event) else {
        let message = format!("must be one of {}", Event::names(Service::Extraction));
        return Err(Failure::field("event", message));
    };

    let dialect = &call.input.app.settings.dialect;
    let data = data.map_or_else(|| default_data(event, dialect), Value::Object);
    let finished = call.input.write(move |tx, _, organization| {
        let data = |_: &mut Tx<'_>| Data::of(&data);
        let deliveries = emit(tx, organization, event, About::default(), data)?;
        let id = deliveries
            .first()
            .cloned()
            .unwrap_or_else(|| id::new(id::DELIVERY));
        Ok(Extraction {
            id,
            event: event.as_str().to_owned(),
            deliveries,
        })
    });
    finished.await
}

fn default_data(event: Event, dialect: &Dialect) -> Value {
    let message = "the document could not be read";
    match event {
        Event::ExtractionFailed if dialect.is(Point::ExtractionError, "string") => {
            json!({"error": message})
        }
        Event::ExtractionFailed => {
            json!({"error": {"code": "unreadable_document", "message": message}})
        }
        _ => json!({}),
    }
}
