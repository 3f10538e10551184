//! `svc sandbox deliveries list`.

use clap::Args;

use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Request};
use crate::failure::Failure;

/// List the deliveries
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  svc sandbox deliveries list --event email.bounced

Scope: none; the local server alone")]
pub struct List {
    /// Deliveries to this webhook
    #[arg(long, value_name = "ID", add = Values::Webhook.candidates())]
    webhook: Option<String>,
    /// Deliveries of this event
    #[arg(long, value_name = "EVENT", add = Values::Event.candidates())]
    event: Option<String>,
    /// Deliveries in this state
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Every page
    #[arg(long)]
    all: bool,
    /// The organization it belongs to; `Sandbox` unless named
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
        control::pages(context, request, self.all, super::VIEW, "no delivery").await
    }
}
