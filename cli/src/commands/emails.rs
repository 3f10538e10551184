//! The `svc emails` commands: send emails and track their status.

pub mod batch;
pub mod content;
mod fields;
pub mod send;

use clap::Args;
use svc_sdk::Operation::{EmailsCancel, EmailsGet};
use svc_sdk::email::EmailRecord;
use svc_sdk::{Call, EmailClient};

use crate::command_spec::{changes, reads};
use crate::complete::Values;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::output::{Column, Format, Show, View};
use crate::output_schema::email;
use crate::prepared::Prepared;
use crate::wait;

/// Table columns of an email.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::new("STATUS", "/status", Show::Status),
    Column::text("FROM", "/from").droppable(),
    Column::text("TO", "/to").key(),
    Column::text("SUBJECT", "/subject"),
    Column::new("SCHEDULED", "/scheduledAt", Show::Time).droppable(),
    Column::new("CREATED", "/createdAt", Show::Time),
    Column::new("UPDATED", "/updatedAt", Show::Time).droppable(),
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
        let client = context.email_client().await?;
        context.not_found.replace(Some(missing(&self.id)));
        let call = context.with_options(client.emails().get(&self.id));
        let Some(call) = Prepared::new(call).decide(context).await? else {
            return Ok(());
        };
        if self.wait {
            return follow(context, &client, &self.id, None).await;
        }
        let email = context.send(call, "reading").await?;
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
    let end = wait::for_email(context, client, id, &mut seen).await;
    let Some(last) = seen else { return end };
    if context.out.format() != Format::Ndjson {
        context.out.one(&last, VIEW)?;
    }
    end?;
    wait::verdict(id, &last)
}

/// Cancel scheduled emails
///
/// The exit code is 11 if only some of several can be cancelled. All of a bulk job: svc bulk cancel.
#[derive(Args, Debug)]
#[command(add = changes(&[EmailsCancel], email))]
#[command(after_long_help = "svc emails cancel eml_019a")]
pub struct Cancel {
    /// Email ids; - for one per line on stdin
    #[arg(required = true, value_name = "ID|-", add = Values::Email.candidates())]
    ids: Vec<String>,
}

impl Cancel {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let ids = match &self.ids[..] {
            [stdin] if stdin == "-" => {
                let text = context.text("ID", "-")?;
                text.split_whitespace().map(str::to_owned).collect()
            }
            _ => self.ids,
        };
        let client = context.email_client().await?;
        if let [id] = &ids[..] {
            context.not_found.replace(Some(missing(id)));
            let call = context.with_options(client.emails().cancel(id));
            let Some(call) = Prepared::new(call).decide(context).await? else {
                return Ok(());
            };
            let email = cancel(context, id, call).await?;
            return context.out.one(&email, VIEW);
        }
        let calls = ids
            .iter()
            .map(|id| context.with_options(client.emails().cancel(id)));
        let Some(calls) = Prepared::new(calls.collect::<Vec<_>>())
            .decide(context)
            .await?
        else {
            return Ok(());
        };
        let (mut cancelled, mut failed, total) = (Vec::new(), Vec::new(), ids.len());
        for (id, call) in ids.into_iter().zip(calls) {
            match cancel(context, &id, call).await {
                Ok(email) => cancelled.push(email),
                // The other emails have another status.
                Err(failure) if matches!(failure.kind(), Kind::Refused | Kind::NotFound) => {
                    failed.push((id, failure.details().message.clone()));
                }
                Err(failure) => return Err(failure),
            }
        }
        context
            .out
            .list(&cancelled, VIEW, "no email was cancelled")?;
        if failed.is_empty() {
            return Ok(());
        }
        let message = format!("{} of {total} emails were not cancelled", failed.len());
        let mut failure = Failure::new(Kind::PartlyRefused, message).code("partly_cancelled");
        failure.details_mut().fields = failed;
        Err(failure)
    }
}

fn missing(id: &str) -> String {
    format!("no email with ID `{id}`")
}

async fn cancel(
    context: &Context,
    id: &str,
    call: Call<EmailRecord>,
) -> Result<EmailRecord, Failure> {
    context.send(call, "cancelling").await.map_err(|failure| {
        if failure.details().status != Some(409) {
            return failure;
        }
        let get = context.svc("emails get {}", &[id]);
        failure.hint(format!(
            "only an email that waits for its scheduled time can be cancelled; see it: {get}"
        ))
    })
}
