//! Webhook endpoints of the extraction service.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decode::{self, Extra, resource};
use crate::engine::{Call, Deleted, Shared, payload};
use crate::list::List;
use crate::names::debug_fields;
use crate::operation::Operation;
use crate::pages::ListStream;
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

/// The operations on webhook endpoints. All of them require the scope `full`.
#[derive(Clone, Debug)]
pub struct Webhooks {
    pub(crate) shared: Arc<Shared>,
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

    /// Lists the organization's endpoints, or the first page of them, see [`List::is_complete`] and
    /// [`stream`](Self::stream).
    pub fn list(&self) -> Call<List<Webhook>> {
        Call::without_body(&self.shared, Operation::ExtractionWebhooksList, &[])
    }

    /// Returns a stream of all webhooks, which requests page after page if there are pages.
    pub fn stream(&self) -> ListStream<Webhook> {
        let webhooks = self.clone();
        ListStream::new(false, move || webhooks.list())
    }

    /// Deletes an endpoint.
    pub fn delete(&self, id: impl AsRef<str>) -> Call<Deleted> {
        let operation = Operation::ExtractionWebhooksDelete;
        Call::without_body(&self.shared, operation, &[id.as_ref()])
    }
}
