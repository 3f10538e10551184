//! The `svc sandbox messages` commands: messages in the local mailbox.

mod attachments;
pub mod get;
pub mod list;
pub mod open;
pub mod wait;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, Show, View};

/// Table columns of a message.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::text("FROM", "/from"),
    Column::text("RECIPIENT", "/recipient"),
    Column::text("SUBJECT", "/subject"),
    Column::new("RECEIVED", "/createdAt", Show::Time).droppable(),
]);

/// Inspect the messages in the local mailbox
#[derive(Subcommand, Debug)]
pub enum Command {
    List(list::List),
    Wait(wait::Wait),
    Get(get::Get),
    Open(open::Open),
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::List(args) => args.run(context).await,
            Self::Wait(args) => args.run(context).await,
            Self::Get(args) => args.run(context).await,
            Self::Open(args) => args.run(context).await,
        }
    }
}
