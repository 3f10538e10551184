//! The `svc contacts` commands: the contacts of an audience.

pub mod create;
pub mod delete;
pub mod export;
pub mod import;
pub mod list;
pub mod update;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, Show, View};

/// Table columns of a contact.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::text("EMAIL", "/email"),
    Column::text("NAME", "/name"),
    Column::new("SUBSCRIBED", "/subscribed", Show::Flag),
    Column::text("TOPICS", "/topics").droppable(),
    Column::text("METADATA", "/metadata").droppable(),
]);

/// Manage the contacts of an audience
#[derive(Subcommand, Debug)]
pub enum Command {
    Create(create::Create),
    List(list::List),
    Update(update::Update),
    Delete(delete::Delete),
    Import(import::Import),
    Export(export::Export),
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Create(args) => args.run(context).await,
            Self::List(args) => args.run(context).await,
            Self::Update(args) => args.run(context).await,
            Self::Delete(args) => args.run(context).await,
            Self::Import(args) => args.run(context).await,
            Self::Export(args) => args.run(context).await,
        }
    }
}
