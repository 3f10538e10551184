//! The `svc extraction webhooks delete` command.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::names::{self, Names, Target};

/// Delete a webhook
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc extraction webhooks delete whk_019a
  svc extraction webhooks delete whk_019a --yes

Scope: full")]
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
