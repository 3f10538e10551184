//! The `svc sandbox emails story` command.

use clap::Args;
use serde_json::Value;

use crate::complete::Values;
use crate::context::Context;
use crate::control;
use crate::failure::Failure;
use crate::output::{Column, Show, View, to_value};

/// The lines of a story in a table.
const VIEW: View = View(&[
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
        let story = to_value(&story);
        context.out.one_as_list(&story, &lines(&story), VIEW)
    }
}

/// The changes, messages and attempts in the order of their times.
fn lines(story: &Value) -> Vec<Value> {
    let items = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let mut lines = Vec::new();
    for change in items(story, "timeline") {
        lines.push(serde_json::json!({
            "at": change["at"],
            "what": change["status"],
            "recipient": change["recipient"],
            "detail": change["event"],
        }));
    }
    for message in items(story, "messages") {
        lines.push(serde_json::json!({
            "at": message["createdAt"],
            "what": "message",
            "recipient": message["recipient"],
            "detail": message["id"],
        }));
    }
    for delivery in items(story, "deliveries") {
        for attempt in items(&delivery, "attempts") {
            let event = delivery["event"].as_str().unwrap_or_default();
            let outcome = match (&attempt["status"], &attempt["error"]) {
                (Value::Null, error) => error.as_str().unwrap_or_default().to_owned(),
                (status, _) => status.to_string(),
            };
            lines.push(serde_json::json!({
                "at": attempt["startedAt"],
                "what": "attempt",
                "recipient": null,
                "detail": format!("{event}: {outcome} from {}", attempt["url"].as_str().unwrap_or_default()),
            }));
        }
    }
    // All are RFC 3339 in UTC with milliseconds.
    lines.sort_by_key(|line| line["at"].as_str().unwrap_or_default().to_owned());
    lines
}
