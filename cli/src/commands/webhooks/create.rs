//! The `svc webhooks create` command.

use clap::Args;
use svc_sdk::email::NewWebhook;

use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::urls::check_url;

use super::VIEW;

/// Create a webhook; its signing secret is shown only once
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc webhooks create https://example.com/hooks --event email.delivered --event email.bounced
  svc webhooks create https://example.com/hooks --event email.received --jq .signingSecret

Events: email.sent, email.delivered, email.bounced, email.opened, email.clicked,
email.complained, email.failed, email.received

Scope: webhooks:manage")]
pub struct Create {
    /// HTTPS URL that receives the events
    url: String,
    /// Event to subscribe to; repeatable
    #[arg(long, value_name = "EVENT", value_parser = crate::input::event::parse, required = true, value_delimiter = ',', add = Values::EmailEvent.candidates())]
    event: Vec<String>,
}

impl Create {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        check_url("URL", &self.url)?;
        let client = context.email_client().await?;
        let call = client.webhooks().create(NewWebhook::new(self.url, self.event));
        if let Some(webhook) = context.call(call, "creating").await? {
            let mut value = output::to_value(&webhook);
            if let Some(secret) = &webhook.signing_secret {
                value["signingSecret"] = secret.expose().into();
            }
            context.out.one(&value, VIEW)?;
            context.out.hint("store the signing secret now: the service does not show it again");
        }
        Ok(())
    }
}
