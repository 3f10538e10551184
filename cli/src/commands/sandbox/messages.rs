//! `svc sandbox messages`: what the mail engine delivered into the local mailbox.

pub mod get;
pub mod list;
pub mod wait;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, Show, View};

/// What people see of a message.
pub const VIEW: View = View(&[
    Column::text("ID", "/id"),
    Column::text("FROM", "/from"),
    Column::text("RECIPIENT", "/recipient"),
    Column::text("SUBJECT", "/subject"),
    Column::new("RECEIVED", "/createdAt", Show::Time).droppable(),
]);

/// What the mail engine delivered into the local mailbox
#[derive(Subcommand, Debug)]
pub enum Command {
    List(list::List),
    Wait(wait::Wait),
    Get(get::Get),
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::List(args) => args.run(context).await,
            Self::Wait(args) => args.run(context).await,
            Self::Get(args) => args.run(context).await,
        }
    }
}
