//! The `svc emails` commands: send emails and track their status.

pub mod batch;
mod fields;
pub mod send;

use clap::Args;

use crate::command_line::shell_quoted;
use crate::complete::Values;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, Format, Show, View};
use crate::wait;

/// Table columns of an email.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::new("STATUS", "/status", Show::Status),
    Column::text("FROM", "/from"),
    Column::text("TO", "/to"),
    Column::text("SUBJECT", "/subject"),
    Column::new("SCHEDULED", "/scheduledAt", Show::Time),
    Column::new("CREATED", "/createdAt", Show::Time),
    Column::new("UPDATED", "/updatedAt", Show::Time),
]);

group! {
    pub enum Command {
        Send(Box<send::Send>),
        Batch(batch::Batch),
        Get(Get),
        Cancel(Cancel),
    }
}

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
    /// The exit code is 10 if the email bounced, failed or was cancelled, and 9 if its status is not
    /// final when --timeout [default: 30s] has passed. With -o ndjson, each status change is a line.
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
