//! `svc sandbox event`.

use clap::Args;
use serde_json::{Value, json};

use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// Make something happen to an email, webhooks included
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox event eml_019a bounced --detail 'mailbox full'
  svc sandbox event eml_019a bounced --recipient ada@example.test --detail '{\"type\":\"soft\"}'

Scope: none; the local server alone")]
pub struct Event {
    /// The email's id
    #[arg(add = Values::Email.candidates())]
    id: String,
    /// What happens
    #[arg(value_parser = ["delivered", "bounced", "complained", "failed", "opened", "clicked"])]
    event: String,
    /// To this recipient alone; without it to every one that it can happen to
    #[arg(long, value_name = "ADDRESS")]
    recipient: Option<String>,
    /// The reason, or the link that was clicked; or both and the type as JSON
    #[arg(long, value_name = "TEXT|JSON")]
    detail: Option<String>,
    /// The organization it belongs to; `Sandbox` unless named
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl Event {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let detail = self.detail.map(|text| match serde_json::from_str::<Value>(&text) {
            Ok(object @ Value::Object(_)) => object,
            _ => text.into(),
        });
        let body = json!({
            "organization": self.organization,
            "event": self.event,
            "recipient": self.recipient,
            "detail": detail,
        });
        let path = format!("/_sandbox/emails/{}/events", control::segment(&self.id)?);
        let request = Request::post(&path).body(control::without_nulls(body));
        control::done(context, request, &format!("email {} is {}", self.id, self.event)).await
    }
}
