//! The `svc domains list` command.

use clap::Args;

use crate::context::Context;
use crate::failure::Failure;

use super::VIEW;

/// List all sending domains
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc domains list
  svc domains list --jq '.[] | select(.verified | not) | .name'

Scope: domains:manage")]
pub struct List {}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        if let Some(list) = context.call(client.domains().list(), "reading").await? {
            let none =
                format!("no domains; add one: {}", context.svc("domains create example.com"));
            context.out.list(&list, VIEW, &none)?;
        }
        Ok(())
    }
}
