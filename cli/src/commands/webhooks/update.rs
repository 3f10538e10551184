//! `svc webhooks update`.

use clap::Args;
use serde_json::json;
use svc_sdk::email::WebhookUpdate;

use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

use super::VIEW;

/// Change a webhook, or switch it on or off
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc webhooks update whk_019a --active false
  svc webhooks update whk_019a --url https://example.com/new --event email.bounced

Scope: webhooks:manage")]
pub struct Update {
    /// The webhook's id
    #[arg(add = Values::Webhook.candidates())]
    id: String,
    /// The HTTPS address that receives the events
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The events to be told of from now on, repeatable
    #[arg(long, value_name = "EVENT", value_delimiter = ',', add = Values::EmailEvent.candidates())]
    event: Vec<String>,
    /// Whether events are delivered
    #[arg(long, value_name = "true|false")]
    active: Option<bool>,
}

impl Update {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let mut update = WebhookUpdate::default();
        update.url = self.url;
        if !self.event.is_empty() {
            update.events = Some(self.event);
        }
        update.active = self.active;
        if output::to_value(&update) == json!({}) {
            return Err(Failure::usage("there is nothing to change")
                .hint("say what: --url, --event, --active"));
        }
        let client = context.email_client().await?;
        let call = client.webhooks().update(&self.id, &update);
        if let Some(webhook) = context.call(call, "updating").await? {
            context.out.one(&output::to_value(&webhook), VIEW)?;
        }
        Ok(())
    }
}
