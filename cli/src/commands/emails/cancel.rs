//! The `svc emails cancel` command.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

use super::VIEW;

/// Cancel a scheduled email
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc emails cancel eml_019a

Scope: not documented")]
pub struct Cancel {
    /// Email id
    #[arg(add = Values::Email.candidates())]
    id: String,
}

impl Cancel {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        let call = client.emails().cancel(&self.id);
        if let Some(email) = context.call(call, "cancelling").await? {
            context.out.one(&output::to_value(&email), VIEW)?;
        }
        Ok(())
    }
}
