//! The `svc sandbox deliveries` commands: webhook deliveries and their attempts.

use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use svc_reference_server::client::{Delivery, DeliveryFilter, DeliveryState};

use crate::complete::Values;
use crate::context::Context;
use crate::control::{self, Paging, changes, reads};
use crate::events;
use crate::failure::Failure;
use crate::input::choice;
use crate::output::{Column, View};
use crate::output_schema::of;

/// Table columns of a delivery.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::status("STATE", "/state"),
    Column::text("EVENT", "/event"),
    Column::text("RECIPIENT", "/recipient").droppable(),
    Column::text("SUBJECT", "/subject").droppable(),
    Column::number("ATTEMPTS", "/attemptCount"),
    Column::id("WEBHOOK", "/webhook").droppable(),
    Column::time("NEXT DUE", "/nextDueAt").droppable(),
]);

#[derive(Subcommand, Debug)]
pub enum Command {
    /// List webhook deliveries, newest first
    #[command(add = reads(of::<Vec<Delivery>>).of_organization())]
    #[command(after_long_help = "svc sandbox deliveries list --event email.bounced")]
    List {
        /// Filter by webhook, by id or URL
        #[arg(long, value_name = "ID|URL", add = Values::Webhook.candidates())]
        webhook: Option<String>,
        /// Filter by event
        #[arg(long, value_name = "EVENT", value_parser = PossibleValuesParser::new(events::names()), hide_possible_values = true)]
        event: Option<String>,
        /// Filter by state: pending, delivered, failed or dropped
        #[arg(long, value_name = "STATE", value_parser = choice::one_of::<DeliveryState>(["pending", "delivered", "failed", "dropped"]), hide_possible_values = true)]
        state: Option<DeliveryState>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show a delivery and its attempts
    #[command(add = reads(of::<Delivery>).of_organization())]
    #[command(after_long_help = "\
  svc sandbox deliveries get 0193a1f2-7c4e-7b51-9e8d-3f2a1c0b9d8e --json")]
    Get {
        /// Delivery id
        #[arg(add = Values::Delivery.candidates())]
        id: String,
    },
    /// Send a delivery again
    ///
    /// Makes one attempt with the same event id, signed with the webhook's current secret.
    #[command(add = changes(of::<Delivery>).of_organization())]
    #[command(after_long_help = "\
  svc sandbox deliveries replay 0193a1f2-7c4e-7b51-9e8d-3f2a1c0b9d8e")]
    Replay {
        /// Delivery id
        #[arg(add = Values::Delivery.candidates())]
        id: String,
    },
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        let client = control::client(context).await?;
        match self {
            Self::List {
                webhook,
                event,
                state,
                paging,
            } => {
                let filter = DeliveryFilter {
                    webhook,
                    event,
                    state,
                    ..Default::default()
                };
                let request = || client.deliveries(&filter);
                paging.pages(context, VIEW, "no deliveries", request).await
            }
            Self::Get { id } => control::show(context, VIEW, client.delivery(&id)).await,
            Self::Replay { id } => {
                let sentence = format!("sent delivery {id} again");
                control::done(context, &sentence, client.replay_delivery(&id)).await
            }
        }
    }
}
