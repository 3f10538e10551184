//! The `svc audiences list` command.

use clap::Args;

use crate::context::Context;
use crate::failure::Failure;

use super::VIEW;

/// List all audiences
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc audiences list
  svc audiences list --jq '.[] | select(.name == \"Newsletter\") | .id'

Scope: contacts:manage")]
pub struct List {}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        if let Some(list) = context.call(client.audiences().list(), "reading").await? {
            let none =
                format!("no audiences; create one: {}", context.svc("audiences create NAME"));
            context.out.list(&list, VIEW, &none)?;
        }
        Ok(())
    }
}
