//! The `svc emails` commands: send emails and track their status.

pub mod batch;
pub mod content;
mod fields;
pub mod send;

use clap::Args;
use svc_sdk::EmailClient;
use svc_sdk::Operation::{EmailsCancel, EmailsGet};
use svc_sdk::email::EmailRecord;

use crate::command_spec::{changes, reads};
use crate::complete::Values;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::output::{Column, Format, Show, View};
use crate::output_schema::email;
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
        if !self.wait || context.settings.dry_run {
            let call = client.emails().get(&self.id);
            if let Some(email) = context.call(call, "reading").await? {
                context.out.one(&email, VIEW)?;
            }
            return Ok(());
        }
        follow(context, &client, &self.id, None).await
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
            return match cancel(context, &client, id).await? {
                Some(email) => context.out.one(&email, VIEW),
                None => Ok(()),
            };
        }
        if context.settings.dry_run {
            context.requests.collect();
        }
        let (mut cancelled, mut failed, total) = (Vec::new(), Vec::new(), ids.len());
        for id in ids {
            match cancel(context, &client, &id).await {
                Ok(email) => cancelled.extend(email),
                // The other emails have another status.
                Err(failure) if matches!(failure.kind(), Kind::Refused | Kind::NotFound) => {
                    failed.push((id, failure.details().message.clone()));
                }
                Err(failure) => return Err(failure),
            }
        }
        if context.settings.dry_run {
            return context.requests.end_list(&context.out);
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

async fn cancel(
    context: &Context,
    client: &EmailClient,
    id: &str,
) -> Result<Option<EmailRecord>, Failure> {
    context
        .call(client.emails().cancel(id), "cancelling")
        .await
        .map_err(|failure| {
            if failure.details().status != Some(409) {
                return failure;
            }
            let get = context.svc("emails get {}", &[id]);
            failure.hint(format!(
                "only an email that waits for its scheduled time can be cancelled; see it: {get}"
            ))
        })
}
