//! The `svc extraction webhooks list` command.

use clap::Args;

use crate::context::Context;
use crate::failure::Failure;

use super::VIEW;

/// List all webhooks
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc extraction webhooks list

Scope: full")]
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
