//! The `svc emails` commands: send emails and track their status.

pub mod batch;
mod cancel;
pub mod content;
mod fields;
pub mod send;

use clap::Args;
use svc_sdk::EmailClient;
use svc_sdk::Operation::EmailsGet;
use svc_sdk::email::EmailRecord;

use crate::command_spec::reads;
use crate::complete::Values;
use crate::context::{Context, NotFound};
use crate::failure::Failure;
use crate::follow::{self, verdict};
use crate::output::{Column, Format, View};
use crate::output_schema::email;
use crate::prepared::Prepared;

/// Table columns of an email.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::status("STATUS", "/status"),
    Column::text("FROM", "/from").droppable(),
    Column::text("TO", "/to").key(),
    Column::text("SUBJECT", "/subject"),
    Column::time("SCHEDULED", "/scheduledAt").droppable(),
    Column::time("CREATED", "/createdAt"),
    Column::time("UPDATED", "/updatedAt").droppable(),
]);

group! {
    pub enum Command {
        Send(Box<send::Send>),
        Batch(batch::Batch),
        Get(Get),
        Cancel(cancel::Cancel),
    }
}

/// Show an email and its status
#[derive(Args, Debug)]
#[command(add = reads(&[EmailsGet], email))]
#[command(after_long_help = "\
  svc emails get eml_019a
  svc emails get eml_019a --wait --timeout 5m
  svc emails get eml_019a --jq .status")]
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
        let client = context.clients.email_client().await?;
        context.not_found.replace(Some(missing(&self.id)));
        let call = context.caller.with_options(client.emails().get(&self.id));
        let call = Prepared::new(call).decide(context).await?;
        if self.wait {
            return follow(context, &client, &self.id, None).await;
        }

        let email = context.caller.send(call, "reading").await?;
        context.out.one(&email, VIEW)
    }
}

/// Waits for the final status, and prints the last response. Fails if the email was not delivered.
async fn follow(
    context: &Context,
    client: &EmailClient,
    id: &str,
    mut seen: Option<EmailRecord>,
) -> Result<(), Failure> {
    let end = follow::for_email(context, client, id, &mut seen).await;
    let Some(last) = seen else { return end };
    if context.out.format() != Format::Ndjson {
        context.out.one(&last, VIEW)?;
    }
    end?;
    verdict(id, &last)
}

/// The message about an email that the service does not know.
fn missing(id: &str) -> NotFound {
    NotFound {
        message: format!("no email with ID `{id}`"),
        was_searched: false,
    }
}
