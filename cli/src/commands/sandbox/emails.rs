//! The `svc sandbox emails` commands: list the emails of the sandbox in every status, and tell the
//! story of one. A table of a story merges its changes, messages and attempts by time (`lines`),
//! and then says what is pending and which webhook got nothing, and why. JSON is what the control
//! interface returns. `crate::control` sends the requests.

use clap::Subcommand;
use serde::Serialize;
use svc_reference_server::client::{
    DeliveryState, EmailFilter, EmailStatus, EmailStory, EmailSummary, Timestamp,
};

use crate::commands::emails::VIEW;
use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Paging, reads};
use crate::failure::Failure;
use crate::input::choice;
use crate::output::{Column, View};
use crate::output_schema::of;
use crate::time_options;

#[derive(Subcommand, Debug)]
pub enum Command {
    /// List the accepted emails in every status, newest first
    #[command(add = reads(of::<Vec<EmailSummary>>).of_organization())]
    #[command(after_long_help = "\
  svc sandbox emails list --status bounced
  svc sandbox emails list --address ada@example.test --after 10m -o ndjson")]
    List {
        /// Filter by status
        ///
        /// queued, sending, sent, delivered, bounced, failed, complained or cancelled.
        #[arg(long, value_name = "STATUS", value_parser = choice::one_of::<EmailStatus>(STATUSES), hide_possible_values = true)]
        status: Option<EmailStatus>,
        /// Filter by the address of the sender or of a recipient
        #[arg(long, value_name = "ADDRESS")]
        address: Option<String>,
        /// Filter by text in the subject
        #[arg(long, value_name = "TEXT")]
        subject: Option<String>,
        /// Filter by a tag, given as NAME or as NAME=VALUE
        #[arg(long, value_name = "TAG")]
        tag: Option<String>,
        /// Accepted after this time, such as 10m or 2026-12-01
        ///
        /// TIME is RFC 3339, a day, or a duration before the time of the sandbox.
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        after: Option<String>,
        /// Accepted before this time, in the same forms
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        before: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show what happened to an email
    ///
    /// The request that sent it, its changes, its messages in local mailboxes, and its webhook
    /// deliveries with their attempts.
    #[command(add = reads(of::<EmailStory>).of_organization())]
    #[command(after_long_help = "\
  svc sandbox emails story eml_019a
  svc sandbox emails story eml_019a --jq .deliveries")]
    Story {
        /// Email id
        #[arg(add = Values::SandboxEmail.candidates())]
        id: String,
    },
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context).await?;
        match self {
            Self::List {
                status,
                address,
                subject,
                tag,
                after,
                before,
                paging,
            } => {
                let after = time_options::after(context, after.as_deref()).await?;
                let before = time_options::past(context, "--before", before.as_deref()).await?;
                let search = None;
                let filter = EmailFilter {
                    status,
                    address,
                    subject,
                    search,
                    tag,
                    after,
                    before,
                };
                paging
                    .pages(context, VIEW, "no emails", || client.emails(&filter))
                    .await
            }
            Self::Story { id } => {
                let request = client.email_story(&id);
                let story = control::send(context, request).await?;
                context.out.one_as_list(&story, &lines(&story), STORY)?;
                if story.deliveries.is_empty() && story.missing.is_empty() {
                    context.out.note("no webhook of the email service exists");
                }
                Ok(())
            }
        }
    }
}

const STATUSES: [&str; 8] = [
    "queued",
    "sending",
    "sent",
    "delivered",
    "bounced",
    "failed",
    "complained",
    "cancelled",
];

/// The lines of a story in a table.
const STORY: View = View(&[
    Column::time("TIME", "/at"),
    Column::status("WHAT", "/what"),
    Column::text("RECIPIENT", "/recipient"),
    Column::text("DETAIL", "/detail"),
]);

/// A line of a story in a table.
#[derive(Serialize)]
struct Line<'a> {
    at: Option<Timestamp>,
    what: &'static str,
    recipient: Option<&'a str>,
    detail: Option<String>,
}

/// The changes, messages and attempts in the order of their times.
fn lines(story: &EmailStory) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    lines.extend(story.timeline.iter().map(|change| Line {
        at: Some(change.at),
        what: change.status.as_str(),
        recipient: change.recipient.as_deref(),
        detail: change.event.clone(),
    }));
    lines.extend(story.messages.iter().map(|message| Line {
        at: Some(message.created_at),
        what: "message",
        recipient: Some(&message.recipient),
        detail: Some(message.id.clone()),
    }));
    for delivery in &story.deliveries {
        lines.extend(delivery.attempts.iter().flatten().map(|attempt| {
            let outcome = match attempt.status {
                Some(status) => status.to_string(),
                None => attempt.error.clone().unwrap_or_default(),
            };
            let detail = format!("{}: {outcome} from {}", delivery.event, attempt.url);
            let at = Some(attempt.started_at);
            Line {
                at,
                what: "attempt",
                recipient: None,
                detail: Some(detail),
            }
        }));
    }

    lines.sort_by_key(|line| line.at);
    for delivery in &story.deliveries {
        if delivery.state == DeliveryState::Pending {
            let waits = match delivery.next_due_at {
                Some(_) => "its next attempt is due",
                None => "waits for the delivery before it",
            };
            let detail = Some(format!("{}: {waits}", delivery.event));
            lines.push(Line {
                at: delivery.next_due_at,
                what: "pending",
                recipient: None,
                detail,
            });
        }
    }

    lines.extend(story.recipients.iter().filter_map(|recipient| {
        let reason = recipient.detail.as_ref()?["reason"].as_str()?.to_owned();
        let what = recipient.status.as_str();
        let recipient = Some(recipient.address.as_str());
        Some(Line {
            at: None,
            what,
            recipient,
            detail: Some(reason),
        })
    }));
    lines.extend(story.missing.iter().map(|missing| Line {
        at: None,
        what: "no delivery",
        recipient: None,
        detail: Some(format!("{} {}", missing.url, missing.reason)),
    }));
    lines
}
