//! `POST /_sandbox/extractions`: simulates a completed or failed extraction and delivers
//! the event to webhooks
//! (`docs/undocumented/extraction-service.md#operations-not-covered`).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use svc_sdk::Service;

use super::{named_organization, organization};
use crate::api::framework::{Input, Json, JsonBody};
use crate::delivery::emit::{Part, emit};
use crate::model::compatibility::{Compatibility, ExtractionErrorType};
use crate::model::error::ApiError;
use crate::model::event::Event;
use crate::model::id::{self, Prefix};
use crate::model::schema;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewExtraction")]
pub(crate) struct New {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) organization: Option<String>,
    #[schemars(with = "schema::ExtractionEvent")]
    pub(crate) event: String,
    /// The data of the event. Default: an example.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Map<String, Value>>,
}

/// A simulated extraction.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Extraction")]
#[non_exhaustive]
pub struct Extraction {
    /// The ID of the first delivery.
    pub id: String,
    /// The event.
    #[schemars(with = "schema::ExtractionEvent")]
    pub event: String,
    /// The IDs of the deliveries, one for each subscribed webhook endpoint.
    pub deliveries: Vec<String>,
}

/// Every subscribed endpoint gets a delivery with its own ID. `id` in the response is
/// the first of them.
pub(crate) async fn create(
    mut input: Input,
    body: JsonBody<New>,
) -> Result<Json<Extraction, 202>, ApiError> {
    let new = body.read(&mut input).await?;
    let Some(event) = Event::parse(Service::Extraction, &new.event) else {
        let message = format!("must be one of {}", Event::names(Service::Extraction));
        return Err(ApiError::field("event", message));
    };
    let name = named_organization(&input, new.organization)?;
    let app = Arc::clone(&input.app);
    let data =
        new.data.map_or_else(|| default_data(event, &app.settings.compatibility), Value::Object);
    let data = Part::new(serde_json::to_vec(&data).map_err(ApiError::internal)?);
    let finished = input.app.store.write(move |tx| {
        let organization = organization(tx.reader(), &app.settings, name.as_deref())?;
        let deliveries =
            emit(tx, &app.webhooks, organization, event, None, |tx| data.store(tx, b""))?;
        let id = deliveries.first().cloned().unwrap_or_else(|| id::new(Prefix::Delivery));
        Ok(Extraction { id, event: event.as_str().to_owned(), deliveries })
    });
    Json::of(&finished.await?)
}

fn default_data(event: Event, compatibility: &Compatibility) -> Value {
    let message = "the document could not be read";
    match (event, compatibility.extraction_error) {
        (Event::ExtractionFailed, ExtractionErrorType::Object) => {
            json!({"error": {"code": "unreadable_document", "message": message}})
        }
        (Event::ExtractionFailed, ExtractionErrorType::String) => json!({"error": message}),
        _ => json!({}),
    }
}
