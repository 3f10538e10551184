//! The `svc sandbox deliveries` commands: webhook deliveries and their attempts.

pub mod get;
pub mod list;
pub mod replay;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, Show, View};

/// Table columns of a delivery.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::new("STATE", "/state", Show::Status),
    Column::text("EVENT", "/event"),
    Column::new("ATTEMPTS", "/attemptCount", Show::Number),
    Column::id("WEBHOOK", "/webhook").droppable(),
    Column::new("NEXT DUE", "/nextDueAt", Show::Time).droppable(),
]);

/// Inspect and repeat webhook deliveries
#[derive(Subcommand, Debug)]
pub enum Command {
    List(list::List),
    Get(get::Get),
    Replay(replay::Replay),
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::List(args) => args.run(context).await,
            Self::Get(args) => args.run(context).await,
            Self::Replay(args) => args.run(context).await,
        }
    }
}
