//! The `svc audiences create` command.

use clap::Args;

use crate::context::Context;
use crate::failure::Failure;

use super::VIEW;

/// Create an audience
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc audiences create Newsletter
  svc audiences create Newsletter --jq .id

Scope: contacts:manage")]
pub struct Create {
    /// Audience name
    name: String,
}

impl Create {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        let call = client.audiences().create(self.name);
        if let Some(audience) = context.call(call, "creating").await? {
            context.out.one(&audience, VIEW)?;
        }
        Ok(())
    }
}
