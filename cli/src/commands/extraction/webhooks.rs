//! The `svc extraction webhooks` commands: endpoints for extraction events.

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use serde_json::Value;
use svc_sdk::extraction::{NewWebhook, Webhook};
use svc_sdk::{Call, Deleted, ExtractionClient, List, Operation};

use crate::command_spec::creates;
use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::output::{Column, Show, View};
use crate::output_schema::extraction_webhook;
use crate::resource::{Anywhere, Delete, Get, ListAll, Resource};
use crate::urls::check_url;

group! {
    pub enum Command {
        Create(Create),
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
    const COMPLETED: fn() -> ArgValueCandidates = || Values::ExtractionWebhook.candidates();
    const VIEW: View = View(&[
        Column::id("ID", "/id"),
        Column::new("STATUS", "/status", Show::Status),
        Column::text("URL", "/url"),
        Column::prose("EVENTS", "/events"),
        Column::id("SECRET", "/secret"),
    ]);

    async fn client(context: &Context) -> Result<ExtractionClient, Failure> {
        context.extraction_client().await
    }

    fn list(client: &ExtractionClient) -> Option<Call<List<Self>>> {
        Some(client.webhooks().list())
    }

    fn delete(client: &ExtractionClient, id: &str) -> Call<Deleted> {
        client.webhooks().delete(id)
    }

    fn schema() -> Value {
        extraction_webhook()
    }

    fn named(&self) -> (&String, &Option<String>) {
        (&self.id, &self.url)
    }
}

/// Create a webhook; its secret is shown only once
#[derive(Args, Debug)]
#[command(add = creates(&[Operation::ExtractionWebhooksCreate], extraction_webhook))]
#[command(after_long_help = "\
Examples:
  svc extraction webhooks create https://example.com/hooks \\
      --event extraction.completed

Events: extraction.completed, extraction.failed")]
pub struct Create {
    /// URL that receives the events
    url: String,
    /// Event to subscribe to; repeatable
    #[arg(long, value_name = "EVENT", value_parser = crate::input::event::parse, required = true, value_delimiter = ',', add = Values::ExtractionEvent.candidates())]
    event: Vec<String>,
}

impl Create {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        check_url("URL", &self.url)?;
        let client = context.extraction_client().await?;
        let call = client.webhooks().create(NewWebhook::new(self.url, self.event));
        if let Some(webhook) = context.call(call, "creating").await? {
            let mut value = output::to_value(&webhook);
            if let Some(secret) = &webhook.secret {
                value["secret"] = secret.expose().into();
            }
            context.out.one(&value, Webhook::VIEW)?;
            context.out.hint("store the secret now: the service does not show it again");
        }
        Ok(())
    }
}
