//! The `svc emails cancel` command.

use clap::Args;

use crate::command_line::shell_quoted;
use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;

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
        let cancelled = context.call(call, "cancelling").await.map_err(|failure| {
            if failure.details().status != Some(409) {
                return failure;
            }
            let get = context.svc(&format!("emails get {}", shell_quoted(&self.id)));
            failure.hint(format!(
                "only an email that waits for its scheduled time can be cancelled; see it: {get}"
            ))
        });
        if let Some(email) = cancelled? {
            context.out.one(&email, VIEW)?;
        }
        Ok(())
    }
}
