//! Webhook endpoints of the extraction service (`docs/extraction-service/webhooks.md`).

use crate::Secret;

use crate::client::{Call, Deleted, Payload, Resource, Shared};
use crate::decode::{record, text_enum};
use crate::request::new_webhook;

use crate::{Error, List, Operation};

record! {
    /// A webhook endpoint.
    pub struct Webhook {
        /// The endpoint's id; empty if the response has none.
        pub id: String = "id";
        /// The URL of the endpoint.
        pub url: Option<String> = "url", hidden;
        /// The secret that signs deliveries. Only the response to the registration contains
        /// it. It is never serialized, so store it with [`Secret::expose`].
        pub secret: Option<Secret> = "secret", secret;
        /// The subscribed events.
        pub events: Vec<String> = "events";
        /// The status; `active` for a new endpoint.
        pub status: Option<String> = "status";
    }
}

impl Resource for Webhook {
    const NOUN: &'static str = "a webhook";

    fn is_identified(&self) -> bool {
        !self.id.is_empty()
    }
}

text_enum! {
    /// An event that an endpoint can subscribe to (`docs/extraction-service/events.md`).
    pub enum Event {
        /// An extraction succeeded.
        Completed = "extraction.completed",
        /// An extraction failed.
        Failed = "extraction.failed",
    }
}

new_webhook!("The parameters of a new webhook endpoint.", "The URL of the endpoint.");

/// The operations on webhook endpoints. All of them require the scope `full`.
#[derive(Clone, Debug)]
pub struct Webhooks {
    pub(crate) shared: std::sync::Arc<Shared>,
}

impl Webhooks {
    /// Registers an endpoint. Only this response contains its `secret`, so store it.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::ExtractionClient) -> Result<(), svc_sdk::Error> {
    /// use svc_sdk::extraction::{Event, NewWebhook};
    ///
    /// let webhook = NewWebhook::new("https://shop.example/hooks", [Event::Completed]);
    /// let webhook = client.webhooks().create(webhook).await?;
    /// let secret = webhook.secret.expect("the response to the registration contains the secret");
    /// # Ok(())
    /// # }
    /// ```
    pub fn create(&self, webhook: impl Into<NewWebhook>) -> Call<Webhook> {
        let webhook = webhook.into();
        let payload = || -> Result<Payload, Error> {
            crate::email::check_extra(&webhook.extra, &[("url", true), ("events", true)])?;
            Payload::json(&webhook)
        };
        Call::new(&self.shared, Operation::ExtractionWebhooksCreate, &[], payload())
    }

    /// Lists the organization's endpoints.
    pub fn list(&self) -> Call<List<Webhook>> {
        Call::new(&self.shared, Operation::ExtractionWebhooksList, &[], Ok(Payload::Empty))
    }

    /// Deletes an endpoint.
    pub fn delete(&self, id: impl AsRef<str>) -> Call<Deleted> {
        let operation = Operation::ExtractionWebhooksDelete;
        Call::new(&self.shared, operation, &[id.as_ref()], Ok(Payload::Empty))
    }
}
