//! The `svc webhooks delete` command.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::names::{self, Names, Target};

/// Delete a webhook
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc webhooks delete whk_019a
  svc webhooks delete https://example.com/hooks --yes

Scope: webhooks:manage")]
pub struct Delete {
    /// Webhook id or URL
    #[arg(add = Values::Webhook.candidates())]
    id: String,
}

impl Delete {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        let names = Names::Webhook(&client);
        let question = |target: &Target| format!("Delete webhook {target}?");
        let delete = |id: &str| client.webhooks().delete(id);
        names::delete(context, names, &self.id, question, delete).await
    }
}
