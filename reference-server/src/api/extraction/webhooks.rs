//! Webhook endpoints of the extraction service (`docs/extraction-service/README.md#webhook-endpoints`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::framework::{Call, Reply};
use crate::api::webhooks;
use crate::control::webhooks::Webhook;
use crate::model::error::ApiError;
use crate::model::schema;

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "CreateWebhookEndpoint")]
pub(crate) struct New {
    /// An absolute `http` or `https` URL. Credentials in the URL are sent as
    /// `Authorization: Basic`.
    #[schemars(required, length(max = 2048), url)]
    url: Option<String>,
    #[schemars(with = "schema::ExtractionEvents")]
    events: Option<Vec<String>>,
}

/// A webhook endpoint.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WebhookEndpoint")]
pub(crate) struct WebhookJson {
    id: String,
    url: String,
    /// Only in the response to the registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    #[schemars(with = "schema::ExtractionEvents")]
    events: Vec<String>,
    #[schemars(extend("const" = "active"))]
    status: &'static str,
}

fn view(webhook: Webhook, with_secret: bool) -> WebhookJson {
    WebhookJson {
        id: webhook.id,
        url: webhook.url,
        secret: with_secret.then_some(webhook.secret),
        events: webhook.events,
        status: "active",
    }
}

pub(crate) async fn create(call: Call<New>) -> Result<Reply<WebhookJson>, ApiError> {
    let New { url, events } = call.read().await?;
    webhooks::register(call, url, events, view).await
}

pub(crate) async fn list(call: Call) -> Result<Reply<Vec<WebhookJson>>, ApiError> {
    webhooks::list(call, view).await
}
