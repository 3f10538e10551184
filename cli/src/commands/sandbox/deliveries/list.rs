//! The `svc sandbox deliveries list` command.

use clap::Args;
use svc_reference_server::client::DeliveryState;

use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Given as _};
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
    #[arg(long, value_name = "STATE", value_parser = parse_state)]
    state: Option<DeliveryState>,
    /// Fetch every page [default: the first 20]
    #[arg(long)]
    all: bool,
    /// Organization, by name or id [default: Sandbox]
    #[arg(long, value_name = "NAME|ID")]
    organization: Option<String>,
}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context, self.organization.as_deref()).await?;
        let request = || {
            let list = client.deliveries().list();
            list.given(self.webhook.as_ref(), |list, webhook| list.webhook(webhook))
                .given(self.event.as_ref(), |list, event| list.event(event))
                .given(self.state, |list, state| list.state(state))
        };
        control::pages(context, request, self.all, super::VIEW, "no deliveries").await
    }
}

fn parse_state(text: &str) -> Result<DeliveryState, &'static str> {
    DeliveryState::parse(text).ok_or("must be pending, delivered, failed or dropped")
}
