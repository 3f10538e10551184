//! `POST /_sandbox/extractions`: completes or fails an extraction, so that
//! deliveries fire (`docs/undocumented/extraction-service.md#extraction-error`, `docs/undocumented/extraction-service.md#operations-not-covered`).

use std::sync::Arc;

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use svc_sdk::Service;

use super::{Reply, json as reply, organization, organization_of_query};
use crate::engine::post;
use crate::error::ApiError;
use crate::id::{self, Prefix};
use crate::openapi::schema;
use crate::switches::{FailedError, Switches};
use crate::web::Input;
use crate::webhooks::Event;

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "NewExtraction")]
pub(crate) struct New {
    organization: Option<String>,
    #[schemars(with = "schema::ExtractionEvent")]
    event: String,
    /// Something of its kind where none is given.
    data: Option<Map<String, Value>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Extraction")]
pub(crate) struct Finished {
    id: String,
    #[schemars(with = "schema::ExtractionEvent")]
    event: &'static str,
    /// One for each endpoint that hears of it.
    deliveries: Vec<String>,
}

/// Each subscribed endpoint gets a delivery with an id of its own: `id` is the
/// first, `deliveries` are all.
pub(super) async fn create(mut input: Input) -> Reply {
    let new: New = input.object().await?;
    let Some(event) = Event::parse(Service::Extraction, &new.event) else {
        let message = format!("must be one of {}", Event::names(Service::Extraction));
        return Err(ApiError::field("event", message));
    };
    let named = new.organization.or_else(|| organization_of_query(&input));
    let app = Arc::clone(&input.app);
    let answer = input.app.store.write(move |tx| {
        let organization = organization(tx.connection(), &app.settings, named.as_deref())?;
        let data =
            new.data.map_or_else(|| default_data(event, &app.settings.switches), Value::Object);
        let deliveries = post::emit(tx, &app.webhooks, organization, event, || Ok(data))?;
        let id = deliveries.first().cloned().unwrap_or_else(|| id::new(Prefix::Delivery));
        Ok(Finished { id, event: event.as_str(), deliveries })
    });
    reply(StatusCode::ACCEPTED, &answer.await?)
}

fn default_data(event: Event, switches: &Switches) -> Value {
    let message = "the document could not be read";
    match (event, switches.failed_error) {
        (Event::ExtractionFailed, FailedError::Object) => {
            json!({"error": {"code": "unreadable_document", "message": message}})
        }
        (Event::ExtractionFailed, FailedError::Text) => json!({"error": message}),
        _ => json!({}),
    }
}
