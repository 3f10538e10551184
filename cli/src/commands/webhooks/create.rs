//! `svc webhooks create`.

use clap::Args;
use svc_sdk::email::NewWebhook;

use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

use super::VIEW;

/// Register an endpoint; its signing secret is shown only here
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc webhooks create https://example.com/hooks --event email.delivered --event email.bounced
  svc webhooks create https://example.com/hooks --event email.received --jq .signingSecret

Events: email.sent, email.delivered, email.bounced, email.opened, email.clicked,
email.complained, email.failed, email.received

Scope: webhooks:manage")]
pub struct Create {
    /// The HTTPS address that receives the events
    url: String,
    /// An event to be told of, repeatable
    #[arg(long, value_name = "EVENT", required = true, value_delimiter = ',', add = Values::EmailEvent.candidates())]
    event: Vec<String>,
}

impl Create {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        let call = client.webhooks().create(&NewWebhook::new(self.url, self.event));
        if let Some(webhook) = context.call(call, "registering").await? {
            context.out.one(&output::to_value(&webhook), VIEW)?;
            context.out.hint("keep the signing secret now: the service does not show it again");
        }
        Ok(())
    }
}
