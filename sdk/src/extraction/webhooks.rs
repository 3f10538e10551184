//! Webhook endpoints of the extraction service.

use serde::{Deserialize, Serialize};

use crate::client::collection;
use crate::decode::{self, Extra, resource};
use crate::engine::{Call, payload};
use crate::names::debug_fields;
use crate::operation::Operation;
use crate::secret::Secret;
use crate::webhook::NewWebhook;

/// A webhook endpoint.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Webhook {
    /// The endpoint's id; empty if the response has none.
    #[serde(
        deserialize_with = "decode::id",
        skip_serializing_if = "String::is_empty"
    )]
    pub id: String,
    /// The URL of the endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The secret that signs deliveries. Only the response to the registration contains
    /// it. It is never serialized, so store it with [`Secret::expose`].
    #[serde(deserialize_with = "decode::secret", skip_serializing)]
    pub secret: Option<Secret>,
    /// The subscribed events. `None` if the response does not contain them.
    #[serde(
        deserialize_with = "decode::texts",
        skip_serializing_if = "Option::is_none"
    )]
    pub events: Option<Vec<String>>,
    /// The status; `active` for a new endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The other fields of the response.
    #[serde(flatten)]
    pub extra: Extra,
}

resource!(
    Webhook,
    "a webhook",
    "webhook",
    ["url", "secret", "events", "status"]
);

debug_fields!(Webhook: id, events, status, extra);

collection! {
    /// The operations on webhook endpoints. All of them require the scope `full`.
    Webhooks of Webhook;
    /// Lists the organization's endpoints.
    list ExtractionWebhooksList;
    /// Deletes an endpoint.
    delete ExtractionWebhooksDelete;
}

impl Webhooks {
    /// Registers an endpoint. Only this response contains its `secret`, so store it.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::ExtractionClient) -> Result<(), svc_sdk::Error> {
    /// use svc_sdk::extraction::{Event, NewWebhook};
    ///
    /// let webhook = NewWebhook::new("https://shop.example/hooks", [Event::ExtractionCompleted]);
    /// let webhook = client.webhooks().create(webhook).await?;
    /// let secret = webhook.secret.expect("the response to the registration contains the secret");
    /// # Ok(())
    /// # }
    /// ```
    pub fn create(&self, webhook: impl Into<NewWebhook>) -> Call<Webhook> {
        let payload = payload(webhook.into());
        Call::new(
            &self.shared,
            Operation::ExtractionWebhooksCreate,
            &[],
            payload,
        )
    }
}
