//! Webhook endpoints of the extraction service (`docs/extraction-service/README.md#webhook-endpoints`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::framework::{Call, Created, List};
use crate::api::webhooks::{all, register};
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
pub(crate) struct WebhookJson<'a> {
    id: &'a str,
    url: &'a str,
    /// Only in the response to the registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
    #[schemars(with = "schema::ExtractionEvents")]
    events: &'a [String],
    #[schemars(extend("const" = "active"))]
    status: &'static str,
}

fn view(webhook: &Webhook, secret: bool) -> WebhookJson<'_> {
    WebhookJson {
        id: &webhook.id,
        url: &webhook.url,
        secret: secret.then_some(webhook.secret.as_str()),
        events: &webhook.events,
        status: "active",
    }
}

pub(crate) async fn create(mut call: Call<New>) -> Result<Created<WebhookJson<'static>>, ApiError> {
    let (new, bytes) = call.read().await?;
    let reply = |app: &_, webhook: &_| Created::new(app, &view(webhook, true));
    register(call, &bytes, new.url, new.events, reply).await
}

pub(crate) async fn list(call: Call) -> Result<List<WebhookJson<'static>>, ApiError> {
    let all = all(&call).await?;
    List::new(&call.data.app, &all.iter().map(|webhook| view(webhook, false)).collect())
}
