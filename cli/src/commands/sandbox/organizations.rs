//! The `svc sandbox organizations` commands: isolated organizations.

pub mod create;
pub mod list;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, Show, View};

/// Table columns of an organization.
pub const VIEW: View = View(&[
    Column::id("ID", "/id"),
    Column::text("NAME", "/name"),
    Column::id("EMAIL KEY", "/email_key"),
    Column::id("EXTRACTION KEY", "/extraction_key"),
    Column::new("BALANCE", "/balance_cents", Show::Cents),
]);

/// Table columns of an organization in a list.
pub const LISTED: View = View(&[
    Column::id("ID", "/id"),
    Column::text("NAME", "/name"),
    Column::new("BALANCE", "/balance_cents", Show::Cents),
]);

/// Manage isolated organizations
#[derive(Subcommand, Debug)]
pub enum Command {
    Create(create::Create),
    List(list::List),
}

impl Command {
    pub async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Create(args) => args.run(context).await,
            Self::List(args) => args.run(context).await,
        }
    }
}
