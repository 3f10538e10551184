//! The `svc audiences` commands: contact lists.

pub mod create;
pub mod delete;
pub mod get;
pub mod list;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, Show, View};

/// Table columns of an audience.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::text("NAME", "/name"),
    Column::new("CREATED", "/createdAt", Show::Time).droppable(),
]);

/// Manage audiences (contact lists)
#[derive(Subcommand, Debug)]
pub enum Command {
    Create(create::Create),
    List(list::List),
    Get(get::Get),
    Delete(delete::Delete),
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Create(args) => args.run(context).await,
            Self::List(args) => args.run(context).await,
            Self::Get(args) => args.run(context).await,
            Self::Delete(args) => args.run(context).await,
        }
    }
}
