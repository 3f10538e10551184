//! `svc sandbox organizations`: organizations, which see nothing of each other.

pub mod create;
pub mod list;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Column, Show, View};

/// What people see of an organization.
pub const VIEW: View = View(&[
    Column::text("ID", "/id"),
    Column::text("NAME", "/name"),
    Column::text("EMAIL KEY", "/email_key"),
    Column::text("EXTRACTION KEY", "/extraction_key"),
    Column::new("BALANCE", "/balance_cents", Show::Cents),
]);

/// What people see of an organization in a list.
pub const LISTED: View = View(&[
    Column::text("ID", "/id"),
    Column::text("NAME", "/name"),
    Column::new("BALANCE", "/balance_cents", Show::Cents),
]);

/// Organizations, which see nothing of each other
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
