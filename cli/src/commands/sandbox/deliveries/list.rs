//! The `svc sandbox deliveries list` command.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// List webhook deliveries, newest first
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  svc sandbox deliveries list --event email.bounced

Scope: none (local server)")]
pub struct List {
    /// Filter by webhook id
    #[arg(long, value_name = "ID", add = Values::Webhook.candidates())]
    webhook: Option<String>,
    /// Filter by event
    #[arg(long, value_name = "EVENT", add = Values::Event.candidates())]
    event: Option<String>,
    /// Filter by state: pending, delivered, failed or dropped
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Fetch every page [default: the first 20]
    #[arg(long)]
    all: bool,
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let request = Request::get("/_sandbox/deliveries")
            .query("webhook", self.webhook.as_deref())
            .query("event", self.event.as_deref())
            .query("state", self.state.as_deref())
            .query("organization", self.organization.as_deref());
        control::pages(context, request, self.all, super::VIEW, "no deliveries").await
    }
}
