//! The `svc emails get` command.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Format;
use crate::wait;

use super::VIEW;

/// Show an email and its status
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc emails get eml_019a
  svc emails get eml_019a --wait --timeout 5m
  svc emails get eml_019a --jq .status

Scope: emails:read")]
pub struct Get {
    /// Email id
    #[arg(add = Values::Email.candidates())]
    id: String,
    /// Wait for the final status
    ///
    /// The exit code is 10 if the email bounced or failed, and 9 if its status is not final when
    /// --timeout [default: 30s] has passed. With -o ndjson, each status change is a line.
    #[arg(long)]
    wait: bool,
}

impl Get {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = context.email_client().await?;
        if !self.wait || context.settings.dry_run {
            let call = client.emails().get(&self.id);
            if let Some(email) = context.call(call, "reading").await? {
                context.out.one(&email, VIEW)?;
            }
            return Ok(());
        }
        let mut last = None;
        let end = wait::for_email(context, &client, &self.id, &mut last).await;
        let Some(last) = last else { return end };
        if context.out.format() != Format::Ndjson {
            context.out.one(&last, VIEW)?;
        }
        end?;
        wait::verdict(&self.id, &last)
    }
}
