//! The `svc sandbox emails story` command.

use clap::Args;
use serde::Serialize;
use svc_reference_server::client::{EmailStory, Timestamp};

use crate::complete::Values;
use crate::context::Context;
use crate::control;
use crate::failure::Failure;
use crate::output::{Column, Show, View};

/// The lines of a story in a table.
const STORY: View = View(&[
    Column::new("TIME", "/at", Show::Time),
    Column::new("WHAT", "/what", Show::Status),
    Column::text("RECIPIENT", "/recipient"),
    Column::text("DETAIL", "/detail"),
]);

/// Show what happened to an email
///
/// The request that sent it, its changes, its messages in local mailboxes, and its webhook
/// deliveries with their attempts.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox emails story eml_019a
  svc sandbox emails story eml_019a --jq .deliveries

Scope: none (local server)")]
pub struct Story {
    /// Email id
    #[arg(add = Values::SandboxEmail.candidates())]
    id: String,
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Story {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, self.organization.as_deref()).await?;
        let request = client.emails().story(&self.id);
        let Some(story) = control::send(context, request).await? else { return Ok(()) };
        context.out.one_as_list(&story, &lines(&story), STORY)
    }
}

/// A line of a story in a table.
#[derive(Serialize)]
struct Line<'a> {
    at: Timestamp,
    what: &'static str,
    recipient: Option<&'a str>,
    detail: Option<String>,
}

/// The changes, messages and attempts in the order of their times.
fn lines(story: &EmailStory) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    lines.extend(story.timeline.iter().map(|change| Line {
        at: change.at,
        what: change.status.as_str(),
        recipient: change.recipient.as_deref(),
        detail: change.event.clone(),
    }));
    lines.extend(story.messages.iter().map(|message| Line {
        at: message.created_at,
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
            let at = attempt.started_at;
            Line { at, what: "attempt", recipient: None, detail: Some(detail) }
        }));
    }
    lines.sort_by_key(|line| line.at);
    lines
}
