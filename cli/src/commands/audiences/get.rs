//! The `svc audiences get` command.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

use super::VIEW;

/// Show an audience
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc audiences get aud_019a

Scope: contacts:manage")]
pub struct Get {
    /// Audience id
    #[arg(add = Values::Audience.candidates())]
    id: String,
}

impl Get {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        let call = client.audiences().get(&self.id);
        if let Some(audience) = context.call(call, "reading").await? {
            context.out.one(&output::to_value(&audience), VIEW)?;
        }
        Ok(())
    }
}
