//! The `svc extraction webhooks` commands: endpoints for extraction events.

use clap::Args;
use svc_sdk::Operation::{
    ExtractionWebhooksCreate, ExtractionWebhooksDelete, ExtractionWebhooksList,
};
use svc_sdk::Service;
use svc_sdk::extraction::NewWebhook;

use crate::command_spec::{creates, reads, removes};
use crate::commands::webhooks::rotate::{Rotation, RotationOptions};
use crate::complete::Values;
use crate::context::Context;
use crate::context::Deleted;
use crate::failure::Failure;
use crate::names::{Names, Target};
use crate::output::{Column, Show, View};
use crate::output_schema::{extraction_webhook, list, of, rotated};
use crate::urls::check_url;
use crate::{names, output};

/// Table columns of an endpoint.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::new("STATUS", "/status", Show::Status),
    Column::text("URL", "/url"),
    Column::prose("EVENTS", "/events"),
    Column::id("SECRET", "/secret"),
]);

group! {
    pub enum Command {
        Create(Create),
        List(List),
        Rotate(Rotate),
        Delete(Delete),
    }
}

/// Create a webhook; its secret is shown only once
#[derive(Args, Debug)]
#[command(add = creates(&[ExtractionWebhooksCreate], extraction_webhook))]
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
            context.out.one(&value, VIEW)?;
            context.out.hint("store the secret now: the service does not show it again");
        }
        Ok(())
    }
}

/// List all webhooks
#[derive(Args, Debug)]
#[command(add = reads(&[ExtractionWebhooksList], || { list(extraction_webhook) }))]
#[command(after_long_help = "\
Examples:
  svc extraction webhooks list")]
pub struct List {}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.extraction_client().await?;
        if let Some(list) = context.call(client.webhooks().list(), "reading").await? {
            let none = format!(
                "no webhooks; create one: {}",
                context.svc("extraction webhooks create URL --event extraction.completed")
            );
            context.out.list(&list, VIEW, &none)?;
        }
        Ok(())
    }
}

/// Replace a webhook to get a new signing secret
///
/// The service has no operation that changes a secret. A new webhook with the same URL and events
/// is created, its secret is shown once or stored in --secret-file, and then the old webhook is
/// deleted, with the deliveries that it would still retry. The id changes.
///
/// With --keep-old both webhooks exist, and every event is delivered twice, until you delete the
/// old one: time to give the new secret to the receiver, which should accept both.
#[derive(Args, Debug)]
#[command(add = removes(&[ExtractionWebhooksList, ExtractionWebhooksCreate, ExtractionWebhooksDelete], || rotated(extraction_webhook())))]
#[command(after_long_help = "\
Examples:
  svc extraction webhooks rotate whk_019a --keep-old \\
      --secret-file new-secret.txt
  svc extraction webhooks rotate whk_019a --yes --jq .secret")]
pub struct Rotate {
    /// Webhook id or URL
    #[arg(add = Values::ExtractionWebhook.candidates())]
    id: String,
    #[command(flatten)]
    options: RotationOptions,
}

impl Rotate {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.extraction_client().await?;
        let rotation = Rotation {
            service: Service::Extraction,
            view: VIEW,
            secret_field: "secret",
            options: &self.options,
        };
        rotation.run(context, Names::ExtractionWebhook(&client), &self.id).await
    }
}

/// Delete a webhook
#[derive(Args, Debug)]
#[command(add = removes(&[ExtractionWebhooksDelete], of::<Deleted>))]
#[command(after_long_help = "\
Examples:
  svc extraction webhooks delete whk_019a
  svc extraction webhooks delete whk_019a --yes")]
pub struct Delete {
    /// Webhook id or URL
    #[arg(add = Values::ExtractionWebhook.candidates())]
    id: String,
}

impl Delete {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.extraction_client().await?;
        let names = Names::ExtractionWebhook(&client);
        let question = |target: &Target| format!("Delete webhook {target}?");
        let delete = |id: &str| client.webhooks().delete(id);
        names::delete(context, names, &self.id, question, delete).await
    }
}
