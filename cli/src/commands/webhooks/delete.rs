//! The `svc webhooks delete` command.

use clap::Args;

use crate::complete::Values;
use crate::confirm::confirm;
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
        let target = names::to_delete(context, names, &self.id).await?;
        confirm(context, &format!("Delete webhook {target}?")).await?;
        let delete = async |id: &str| {
            let done = context.call(client.webhooks().delete(id), "deleting").await?;
            Ok(done.map(|_| id.to_owned()))
        };
        match names::with_id(context, names, &target.id, delete).await? {
            Some(id) => context.deleted("webhook", &Target { id, ..target }),
            None => Ok(()),
        }
    }
}
