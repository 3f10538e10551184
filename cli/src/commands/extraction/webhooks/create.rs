//! `svc extraction webhooks create`.

use clap::Args;
use svc_sdk::extraction::NewWebhook;

use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

use super::VIEW;

/// Register an endpoint; its secret is shown only here
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc extraction webhooks create https://example.com/hooks --event extraction.completed

Events: extraction.completed, extraction.failed

Scope: full")]
pub struct Create {
    /// The address that receives the deliveries
    url: String,
    /// An event to be told of, repeatable
    #[arg(long, value_name = "EVENT", required = true, value_delimiter = ',', add = Values::ExtractionEvent.candidates())]
    event: Vec<String>,
}

impl Create {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.extraction_client().await?;
        let call = client.webhooks().create(&NewWebhook::new(self.url, self.event));
        if let Some(webhook) = context.call(call, "registering").await? {
            context.out.one(&output::to_value(&webhook), VIEW)?;
            context.out.hint("keep the secret now: the service does not show it again");
        }
        Ok(())
    }
}
