//! The `svc sandbox event` command.

use clap::Args;
use serde_json::Value;
use svc_reference_server::client::EmailEvent;

use crate::complete::Values;
use crate::context::Context;
use crate::control;
use crate::failure::Failure;
use crate::input::json_or_text;

/// Simulate an event of an email
///
/// The status of the email changes and webhooks are delivered as they would be for a real event.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox event eml_019a bounced --detail 'mailbox full'
  svc sandbox event eml_019a bounced --recipient ada@example.test --detail '{\"type\":\"soft\"}'

Scope: none (local server)")]
pub struct Event {
    /// Email id
    #[arg(add = Values::Email.candidates())]
    id: String,
    /// Event
    #[arg(value_parser = ["delivered", "bounced", "complained", "failed", "opened", "clicked"])]
    event: String,
    /// Affected recipient [default: all eligible ones]
    #[arg(long, value_name = "ADDRESS")]
    recipient: Option<String>,
    /// Reason or clicked link; or a JSON object with details
    #[arg(long, value_name = "TEXT|JSON")]
    detail: Option<String>,
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Event {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, self.organization.as_deref()).await?;
        let mut event = EmailEvent::new(&self.event);
        if let Some(recipient) = self.recipient {
            event = event.recipient(recipient);
        }
        if let Some(text) = self.detail {
            event = event.detail(match text.trim_start().starts_with('{') {
                true => json_or_text("--detail", text)?,
                false => Value::from(text),
            });
        }
        let request = client.emails().simulate(&self.id, &event);
        control::done(context, request, &format!("email {} is {}", self.id, self.event)).await
    }
}
