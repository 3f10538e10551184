//! The `svc webhooks update` command.

use clap::Args;
use serde_json::json;
use svc_sdk::email::WebhookUpdate;

use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::input::switch;
use crate::names::{self, Names};
use crate::output;
use crate::urls::check_url;

use super::VIEW;

/// Update, enable or disable a webhook
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc webhooks update whk_019a --active false
  svc webhooks update whk_019a --url https://example.com/new --event email.bounced

Scope: webhooks:manage")]
pub struct Update {
    /// Webhook id or URL
    #[arg(add = Values::Webhook.candidates())]
    id: String,
    /// HTTPS URL that receives the events
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// New list of events; repeatable
    #[arg(long, value_name = "EVENT", value_parser = crate::input::event::parse, value_delimiter = ',', add = Values::EmailEvent.candidates())]
    event: Vec<String>,
    /// Enable or disable delivery
    #[arg(long, value_name = "true|false", hide_possible_values = true, value_parser = switch::parser())]
    active: Option<bool>,
}

impl Update {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        if let Some(url) = &self.url {
            check_url("--url", url)?;
        }
        let mut update = WebhookUpdate::default();
        update.url = self.url;
        if !self.event.is_empty() {
            update.events = Some(self.event);
        }
        update.active = self.active;
        if output::to_value(&update) == json!({}) {
            return Err(Failure::usage("nothing to update")
                .hint("give at least one of --url, --event, --active"));
        }
        let client = context.email_client().await?;
        let call =
            async |id: &str| context.call(client.webhooks().update(id, &update), "updating").await;
        let names = Names::Webhook(&client);
        if let Some(webhook) = names::with_id(context, names, &self.id, call).await? {
            context.out.one(&webhook, VIEW)?;
        }
        Ok(())
    }
}
