//! The `svc extraction webhooks` commands: endpoints for extraction events.

use serde_json::Value;
use svc_sdk::extraction::{NewWebhook, Webhook};
use svc_sdk::{Call, Deleted, ExtractionClient, ListStream, Operation, Secret};

use crate::commands::webhooks::{CreateWebhook, ServiceWebhook};
use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, View};
use crate::output_schema::extraction_webhook;
use crate::resource::{Anywhere, Delete, Get, ListAll, Resource};

group! {
    pub enum Command {
        Create(CreateWebhook<Webhook>),
        List(ListAll<Webhook>),
        Get(Get<Webhook>),
        Delete(Delete<Webhook>),
    }
}

impl Resource for Webhook {
    type Client = ExtractionClient;
    type Within = Anywhere;
    const GROUP: &'static str = "extraction webhooks";
    const NOUN: &'static str = "webhook";
    const NAMED_BY: &'static str = "URL";
    const SAMPLES: [&'static str; 2] = ["whk_019a", "https://example.com/hooks"];
    const CREATE: &'static str = "create URL --event extraction.completed";
    const LISTS: &'static [Operation] = &[Operation::ExtractionWebhooksList];
    const DELETES: &'static [Operation] = &[Operation::ExtractionWebhooksDelete];
    const COMPLETED: Values = Values::ExtractionWebhook;
    const SCHEMA: fn() -> Value = extraction_webhook;
    const VIEW: View = View(&[
        Column::id("ID", "/id"),
        Column::status("STATUS", "/status"),
        Column::text("URL", "/url").key(),
        Column::prose("EVENTS", "/events"),
        Column::id("SECRET", "/secret"),
    ]);

    async fn client(context: &Context) -> Result<ExtractionClient, Failure> {
        context.clients.extraction_client().await
    }

    fn stream(client: &ExtractionClient) -> Option<ListStream<Self>> {
        Some(client.webhooks().stream())
    }

    fn delete(client: &ExtractionClient, id: &str) -> Call<Deleted> {
        client.webhooks().delete(id)
    }

    fn named(&self) -> (&String, &Option<String>) {
        (&self.id, &self.url)
    }
}

impl ServiceWebhook for Webhook {
    const CREATES: &'static [Operation] = &[Operation::ExtractionWebhooksCreate];
    const CREATE_HELP: &'static str = "\
  svc extraction webhooks create https://example.com/hooks \\
      --event extraction.completed

Events: extraction.completed, extraction.failed";
    const EVENTS: Values = Values::ExtractionEvent;

    fn create(client: &ExtractionClient, url: &str, events: Vec<String>) -> Call<Self> {
        client.webhooks().create(NewWebhook::new(url, events))
    }

    fn secret(&self) -> Option<(&'static str, &Secret)> {
        Some(("secret", self.secret.as_ref()?))
    }
}
