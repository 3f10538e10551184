//! The `svc sandbox deliveries` commands: webhook deliveries and their attempts.

use clap::Args;
use svc_reference_server::client::{Delivery, DeliveryState, Page, Request};

use crate::command_spec::{changes, reads};
use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Given as _, OfOrganization};
use crate::failure::Failure;
use crate::output::{Column, Show, View};
use crate::output_schema::of;

/// Table columns of a delivery.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::new("STATE", "/state", Show::Status),
    Column::text("EVENT", "/event"),
    Column::new("ATTEMPTS", "/attemptCount", Show::Number),
    Column::id("WEBHOOK", "/webhook").droppable(),
    Column::new("NEXT DUE", "/nextDueAt", Show::Time).droppable(),
]);

group! {
    pub enum Command {
        List(List),
        Get(Get),
        Replay(Replay),
    }
}

/// List webhook deliveries, newest first
#[derive(Args, Debug)]
#[command(add = reads(&[], of::<Vec<Delivery>>).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox deliveries list --event email.bounced")]
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
    #[command(flatten)]
    organization: OfOrganization,
}

impl List {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        type Deliveries = Request<Page<Delivery>>;

        let client = self.organization.client(context).await?;
        let request = || {
            let list = client.deliveries().list();
            list.given(self.webhook.as_ref(), Deliveries::webhook)
                .given(self.event.as_ref(), Deliveries::event)
                .given(self.state, Deliveries::state)
        };
        control::pages(context, request, self.all, VIEW, "no deliveries").await
    }
}

fn parse_state(text: &str) -> Result<DeliveryState, &'static str> {
    text.parse().map_err(|_| "must be pending, delivered, failed or dropped")
}

/// Show a delivery and its attempts
#[derive(Args, Debug)]
#[command(add = reads(&[], of::<Delivery>).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox deliveries get 0193a1f2-7c4e-7b51-9e8d-3f2a1c0b9d8e --json")]
pub struct Get {
    /// Delivery id
    #[arg(add = Values::Delivery.candidates())]
    id: String,
    #[command(flatten)]
    organization: OfOrganization,
}

impl Get {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = self.organization.client(context).await?;
        control::show(context, client.deliveries().get(&self.id), VIEW).await
    }
}

/// Send a delivery again
///
/// Makes one attempt with the same event id, signed with the webhook's current secret.
#[derive(Args, Debug)]
#[command(add = changes(&[], of::<Delivery>).of_sandbox())]
#[command(after_long_help = "\
Examples:
  svc sandbox deliveries replay 0193a1f2-7c4e-7b51-9e8d-3f2a1c0b9d8e")]
pub struct Replay {
    /// Delivery id
    #[arg(add = Values::Delivery.candidates())]
    id: String,
    #[command(flatten)]
    organization: OfOrganization,
}

impl Replay {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = self.organization.client(context).await?;
        let request = client.deliveries().replay(&self.id);
        control::done(context, request, &format!("sent delivery {} again", self.id)).await
    }
}
