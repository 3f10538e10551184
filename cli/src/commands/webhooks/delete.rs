//! The `svc webhooks delete` command.

use clap::Args;

use crate::complete::Values;
use crate::confirm::confirm;
use crate::context::Context;
use crate::failure::Failure;

/// Delete a webhook
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc webhooks delete whk_019a
  svc webhooks delete whk_019a --yes

Scope: webhooks:manage")]
pub struct Delete {
    /// Webhook id
    #[arg(add = Values::Webhook.candidates())]
    id: String,
}

impl Delete {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        confirm(context, &format!("Delete webhook {}?", self.id)).await?;
        let call = client.webhooks().delete(&self.id);
        if context.call(call, "deleting").await?.is_some() {
            context.deleted("webhook", &self.id)?;
        }
        Ok(())
    }
}
