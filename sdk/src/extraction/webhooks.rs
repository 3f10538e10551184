//! Webhook endpoints of the extraction service.

use crate::client::collection;
use crate::decode::{self, resource};
use crate::engine::{Call, payload};
use crate::names::debug_fields;
use crate::operation::Operation;
use crate::secret::Secret;
use crate::webhook::NewWebhook;

resource! {
    /// A webhook endpoint.
    Webhook, "a webhook", "webhook";

    /// The URL of the endpoint.
    url: Option<String>;

    /// The secret that signs deliveries. Only the response to the registration contains
    /// it. It is never serialized, so store it with [`Secret::expose`].
    #[serde(skip_serializing)]
    secret: Option<Secret> = "decode::secret";

    /// The subscribed events. `None` if the response does not contain them.
    events: Option<Vec<String>> = "decode::texts";

    /// The status; `active` for a new endpoint.
    status: Option<String>;
}

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
