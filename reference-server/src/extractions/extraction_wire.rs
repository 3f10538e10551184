//! Simulated extractions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::control::{ACCEPTED, Client, Endpoint, POST, Request};
use crate::model::schema;

pub(crate) const SIMULATE: Endpoint<NewExtraction, Extraction> = Endpoint::new(
    POST,
    "sandboxExtractionsSimulate",
    "/_sandbox/extractions",
    "Simulate a completed or failed extraction",
)
.responds(ACCEPTED);

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CreateExtraction")]
pub(crate) struct NewExtraction {
    pub(crate) organization: Option<String>,
    #[schemars(with = "schema::ExtractionEvent")]
    pub(crate) event: String,
    /// The data of the event. Default: an example.
    pub(crate) data: Option<Map<String, Value>>,
}

/// A simulated extraction.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
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

impl Client {
    /// Simulates the event `extraction.completed` or `extraction.failed` with this data: an object,
    /// such as a struct of your own, or `()` for those of an example.
    pub fn simulate_extraction(&self, event: &str, data: impl Serialize) -> Request<Extraction> {
        let mut request = self.call(&SIMULATE, &[]);
        request.call = request.call.json(&Simulation { event, data });
        request
    }
}

#[derive(Serialize)]
struct Simulation<'a, D: Serialize> {
    event: &'a str,
    #[serde(skip_serializing_if = "is_null")]
    data: D,
}

fn is_null(data: &impl Serialize) -> bool {
    serde_json::to_value(data).is_ok_and(|data| data.is_null())
}
