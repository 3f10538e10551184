//! The `svc sandbox keys` commands: API keys of the local server.

pub mod create;
pub mod delete;
pub mod list;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, Show, View};

/// Table columns of a key.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::text("SERVICE", "/service"),
    Column::prose("SCOPES", "/scopes"),
    Column::text("SCOPE", "/scope"),
    Column::text("MODE", "/mode").droppable(),
    Column::id("KEY", "/key"),
    Column::id("BEGINS WITH", "/hint").droppable(),
    Column::new("CREATED", "/createdAt", Show::Time).droppable(),
]);

/// Manage the API keys of the local server
#[derive(Subcommand, Debug)]
pub enum Command {
    Create(create::Create),
    List(list::List),
    Delete(delete::Delete),
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Create(args) => args.run(context).await,
            Self::List(args) => args.run(context).await,
            Self::Delete(args) => args.run(context).await,
        }
    }
}
