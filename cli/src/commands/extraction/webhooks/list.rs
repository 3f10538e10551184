//! `svc extraction webhooks list`.

use clap::Args;

use crate::context::Context;
use crate::failure::Failure;
use crate::output;

use super::VIEW;

/// List the endpoints
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc extraction webhooks list

Scope: full")]
pub struct List {}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.extraction_client().await?;
        if let Some(list) = context.call(client.webhooks().list(), "reading").await? {
            let none = format!(
                "no webhook yet; register one: {}",
                context.svc("extraction webhooks create URL --event extraction.completed")
            );
            context.out.list(&output::to_values(&list), VIEW, &none)?;
        }
        Ok(())
    }
}
